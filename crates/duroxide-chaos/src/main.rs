//! `duroxide-chaos`: a worker process runs real orchestrations whose side effects go to a ledger; it is killed with
//! SIGKILL again and again, at random moments and at named points; at the end a checker reads histories, queues and
//! ledger.

mod check;
mod ledger;
mod nemesis;
mod random;
mod worker;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Kills real processes and checks that nothing was lost")]
struct Args {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// Kills a worker again and again, then checks.
    Run {
        /// How often to kill.
        #[arg(long, default_value_t = 20)]
        kills: u32,
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
    },
}

fn main() -> std::process::ExitCode {
    match Args::parse().command {
        What::Worker { folder, finish } => {
            worker::run(&folder, finish);
            std::process::ExitCode::SUCCESS
        }
        What::Run {
            kills,
            seed,
            folder,
            report,
        } => nemesis::run(kills, seed, folder, report.as_deref()),
    }
}
