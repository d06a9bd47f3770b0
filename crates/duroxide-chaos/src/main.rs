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
use std::process::ExitCode;

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
    Run(Run),
    /// The process that is killed. Used by `run`.
    Worker(Worker),
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

#[derive(clap::Args)]
struct Run {
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
}

#[derive(clap::Args)]
struct Worker {
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
}

fn main() -> ExitCode {
    match Args::parse().command {
        What::Soak {
            hours,
            seed,
            per_second,
        } => soak::run(hours, seed, Pace::of(per_second)),
        What::Worker(worker) => worker.run(),
        What::Run(run) => run.run(),
    }
}

impl Run {
    fn run(self) -> ExitCode {
        match self.store {
            Store::Sqlite | Store::Redb => self.run_on_a_file(),
            Store::Postgres => {
                let faults = check::Faults {
                    kills: self.kills,
                    crashes: self.crashes,
                    cuts: self.cuts,
                    promotions: self.promotions,
                    quiet_kills: self.quiet_kills,
                };
                postgres::run(faults, self.seed, self.report.as_deref())
            }
        }
    }

    fn run_on_a_file(self) -> ExitCode {
        let temporary = tempfile::tempdir().expect("a folder to work in");
        let folder = self.folder.unwrap_or_else(|| temporary.path().to_owned());
        let place = match self.store {
            Store::Redb => Place::redb_in(&folder),
            _ => Place::file_in(&folder, self.alone),
        };
        nemesis::run(
            self.kills,
            self.seed,
            &folder,
            &place,
            self.report.as_deref(),
        )
    }
}

impl Worker {
    fn run(self) -> ExitCode {
        let place = self.place();
        let run = worker::WorkerRun::of(self.finish, self.soak, Pace::of(self.per_second));
        let skills = Skills::of(self.untagged, self.only_version, self.poison);
        worker::run(&self.folder, &place, run, &skills);
        ExitCode::SUCCESS
    }

    /// Where its store is.
    fn place(&self) -> Place {
        if let Some(url) = &self.postgres {
            return Place::Postgres(url.clone());
        }
        if self.redb {
            return Place::redb_in(&self.folder);
        }
        let file = Place::file_in(&self.folder, self.alone);
        match self.checkpoint_pages {
            Some(pages) => file.with_checkpoints_at(pages),
            None => file,
        }
    }
}
