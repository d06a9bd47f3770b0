//! The command line of the simulator: `cargo xtask sim --help` says the same.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use duroxide_sim::plan::Plan;
use duroxide_sim::world;

/// Runs simulated deployments from seeds.
#[derive(Parser)]
struct Args {
    /// One seed.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, from `--from` on.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Prints the timeline.
    #[arg(long)]
    trace: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    // What programs do on purpose is no news.
    std::panic::set_hook(Box::new(|_| {}));
    let seeds = match args.seed {
        Some(seed) => seed..seed + 1,
        None => args.from..args.from + args.seeds,
    };
    let began = Instant::now();
    let (mut failed, mut polls, mut faults, mut crashes, mut ms) = (0, 0, 0, 0, 0);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let report = world::run(&Plan::draw(seed), args.trace);
        polls += report.polls;
        faults += report.faults;
        crashes += report.crashes;
        ms += report.length_ms;
        for line in &report.timeline {
            println!("{line}");
        }
        if !report.violations.is_empty() {
            failed += 1;
            println!("seed {seed}:");
            for violation in report.violations.iter().take(5) {
                println!("    {violation}");
            }
        }
    }
    println!(
        "{count} seeds in {:.1?}, {failed} with violations; per seed {} polls, {} faults, {} crashes, {} virtual s",
        began.elapsed(), polls / count, faults / count, crashes / count, ms / count / 1000
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
