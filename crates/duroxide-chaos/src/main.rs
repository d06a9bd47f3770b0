//! `duroxide-chaos`: a worker process runs real orchestrations whose side effects go to a ledger; it is killed with
//! SIGKILL again and again, at random moments and at named points; at the end a checker reads histories, queues and
//! ledger. On PostgreSQL four workers share a server, which crashes, too, and whose connections are cut.

mod check;
mod clock;
mod deadly;
mod disturbances;
mod feed;
mod heir;
mod ledger;
mod life;
mod lives;
mod nemesis;
mod ops;
mod poison;
mod postgres;
mod random;
mod skills;
mod soak;
mod store;
mod worker;
mod workload;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::feed::Pace;
use crate::skills::Skills;
use crate::store::Place;

#[derive(Parser)]
#[command(about = "Kills real processes and checks that nothing was lost")]
struct Args {
    #[command(subcommand)]
    command: What,
}

/// What the orchestrations are stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Store {
    /// A SQLite file and one worker.
    Sqlite,
    /// A redb file and one worker.
    Redb,
    /// A PostgreSQL server of this run and four workers.
    Postgres,
}

#[derive(Subcommand)]
enum What {
    /// Kills a worker again and again, then checks.
    Run {
        /// How often to kill.
        #[arg(long, default_value_t = 20)]
        kills: u32,
        /// What to run on.
        #[arg(long, value_enum, default_value_t = Store::Sqlite)]
        store: Store,
        /// How often the server crashes. PostgreSQL only, as the next two.
        #[arg(long, default_value_t = 2)]
        crashes: u32,
        /// How often the connections of a worker are cut.
        #[arg(long, default_value_t = 10)]
        cuts: u32,
        /// How often a synchronous standby takes over.
        #[arg(long, default_value_t = 0)]
        promotions: u32,
        /// How often a worker is killed with nothing else before and after, to time how others take over. PostgreSQL
        /// only.
        #[arg(long, default_value_t = 5)]
        quiet_kills: u32,
        /// The store takes the way of a SQLite that is older than 3.51.3: only the writer checkpoints.
        #[arg(long)]
        alone: bool,
        /// Decides the moments; printed, so that a run can be repeated.
        #[arg(long)]
        seed: Option<u64>,
        /// Where to work; a temporary folder if not given.
        #[arg(long)]
        folder: Option<PathBuf>,
        /// Writes a report as JSON.
        #[arg(long)]
        report: Option<PathBuf>,
    },
    /// The process that is killed. Used by `run`.
    Worker {
        folder: PathBuf,
        /// Ends when everything has ended, instead of starting more.
        #[arg(long)]
        finish: bool,
        /// Deletes what has ended, so that the file can stay as large as it is.
        #[arg(long)]
        soak: bool,
        /// As of `soak`.
        #[arg(long)]
        per_second: Option<f64>,
        /// As of `run`.
        #[arg(long)]
        alone: bool,
        /// Pages of SQLite's log at which checkpoints begin.
        #[arg(long)]
        checkpoint_pages: Option<usize>,
        /// A redb file instead of one of SQLite.
        #[arg(long)]
        redb: bool,
        /// Does not serve the tag that some activities have.
        #[arg(long)]
        untagged: bool,
        /// Has only this version of the code that has two.
        #[arg(long)]
        only_version: Option<String>,
        /// Runs what takes its process with it, and gives it up after so many attempts.
        #[arg(long)]
        poison: Option<u32>,
        /// A server instead of a file.
        #[arg(long)]
        postgres: Option<String>,
    },
    /// Watches a process for hours while another one on the same file is killed and stopped.
    Soak {
        /// How long.
        #[arg(long, default_value_t = 2.0)]
        hours: f64,
        /// Decides what happens.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How many orchestrations each of the two processes starts in a second; as many as end if not given.
        #[arg(long)]
        per_second: Option<f64>,
    },
}

fn main() -> std::process::ExitCode {
    match Args::parse().command {
        What::Soak {
            hours,
            seed,
            per_second,
        } => soak::run(hours, seed, Pace::of(per_second)),
        What::Worker {
            folder,
            finish,
            soak,
            per_second,
            alone,
            checkpoint_pages,
            redb,
            untagged,
            only_version,
            poison,
            postgres,
        } => {
            let file = || match checkpoint_pages {
                Some(pages) => Place::file_in(&folder, alone).with_checkpoints_at(pages),
                None => Place::file_in(&folder, alone),
            };
            let place = match postgres {
                Some(url) => Place::Postgres(url),
                None if redb => Place::redb_in(&folder),
                None => file(),
            };
            let skills = Skills::of(untagged, only_version, poison);
            worker::run(
                &folder,
                &place,
                worker::Life::of(finish, soak, Pace::of(per_second)),
                &skills,
            );
            std::process::ExitCode::SUCCESS
        }
        What::Run {
            kills,
            store,
            crashes,
            cuts,
            promotions,
            quiet_kills,
            alone,
            seed,
            folder,
            report,
        } => match store {
            Store::Sqlite | Store::Redb => {
                let temporary = tempfile::tempdir().expect("a folder to work in");
                let folder = folder.unwrap_or_else(|| temporary.path().to_owned());
                let place = match store {
                    Store::Redb => Place::redb_in(&folder),
                    _ => Place::file_in(&folder, alone),
                };
                nemesis::run(kills, seed, &folder, &place, report.as_deref())
            }
            Store::Postgres => {
                let faults = check::Faults {
                    kills,
                    crashes,
                    cuts,
                    promotions,
                    quiet_kills,
                };
                postgres::run(faults, seed, report.as_deref())
            }
        },
    }
}
