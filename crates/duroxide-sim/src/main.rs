//! The command line of the simulator. `cargo xtask sim` builds and calls it.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use duroxide_sim::many::{self, Totals};
use duroxide_sim::plan::Plan;
use duroxide_sim::shrink;
use duroxide_sim::world::{self, Report};

/// Runs simulated deployments from seeds.
#[derive(Parser)]
struct Args {
    /// One seed.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, from `--from` on.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Runs on this many threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Prints the plan and the timeline of the one seed.
    #[arg(long)]
    trace: bool,
    /// Makes the one seed smaller before it is shown.
    #[arg(long)]
    shrink: bool,
    /// Runs everything twice and compares what happened.
    #[arg(long)]
    twice: bool,
    /// Puts each defect back whose name contains this, and counts the seeds that it takes to see it; all of them
    /// without a text. Needs a build with `--cfg duroxide_mutants`.
    #[arg(long, num_args = 0..=1, default_missing_value = "")]
    defects: Option<String>,
    /// Stops after this many seeds with violations.
    #[arg(long, default_value_t = 10)]
    failures: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    // What programs do on purpose is no news.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(only) = &args.defects {
        return defects(&args, only);
    }
    match args.seed {
        Some(seed) if args.shrink => {
            show_smaller(seed);
            ExitCode::SUCCESS
        }
        Some(seed) => one(seed, args.trace),
        None => several(&args),
    }
}

#[cfg(duroxide_mutants)]
fn defects(args: &Args, only: &str) -> ExitCode {
    use duroxide_sim::defects::{hunt, table};
    let hunts = hunt(args.seeds, args.threads, only);
    print!("{}", table(&hunts));
    let missed = hunts.iter().filter(|hunt| hunt.seeds.is_none()).count();
    println!(
        "\n{} of {} found within {} seeds",
        hunts.len() - missed,
        hunts.len(),
        args.seeds
    );
    code(missed == 0)
}

#[cfg(not(duroxide_mutants))]
fn defects(_args: &Args, _only: &str) -> ExitCode {
    println!("this build has no defects to put back; use cargo xtask sim --defects");
    ExitCode::FAILURE
}

fn one(seed: u64, trace: bool) -> ExitCode {
    let plan = Plan::draw(seed);
    if trace {
        println!("{plan:#?}");
    }
    let report = world::run(&plan, trace);
    for line in &report.timeline {
        println!("{line}");
    }
    complain(&report);
    println!(
        "seed {seed}: {} violations, {} faults, {} crashes, {} virtual ms, trace {:016x}",
        report.violations.len(),
        report.faults,
        report.crashes,
        report.length_ms,
        report.hash
    );
    code(report.violations.is_empty())
}

fn several(args: &Args) -> ExitCode {
    let seeds = args.from..args.from + args.seeds;
    let began = Instant::now();
    let totals = many::run(seeds, args.threads, args.failures);
    let took = began.elapsed();
    for report in &totals.failed {
        complain(report);
    }
    if let Some(first) = totals.failed.first() {
        show_smaller(first.seed);
    }
    let per_minute = totals.seeds as f64 / took.as_secs_f64() * 60.0;
    let per_seed = |sum: u64| sum as f64 / totals.seeds.max(1) as f64;
    println!(
        "{} seeds in {took:.1?} ({per_minute:.0} per minute), {} with violations; per seed {:.1} faults, {:.1} crashes, \
         {:.0} polls, {:.0} virtual s",
        totals.seeds,
        totals.failed.len(),
        per_seed(totals.faults),
        per_seed(totals.crashes),
        per_seed(totals.polls),
        per_seed(totals.length_ms) / 1_000.0
    );
    code(totals.failed.is_empty() && (!args.twice || is_same(args, &totals)))
}

fn is_same(args: &Args, first: &Totals) -> bool {
    let seeds = args.from..args.from + args.seeds;
    let again = many::run(seeds, args.threads, args.failures);
    println!(
        "trace of all {:016x}, again {:016x}",
        first.hash, again.hash
    );
    first.hash == again.hash
}

/// The first failing seed, made smaller, as a timeline.
fn show_smaller(seed: u64) {
    let (plan, report) = shrink::shrink(&Plan::draw(seed));
    println!("\nseed {seed}, made smaller:\n{plan:#?}");
    for line in &report.timeline {
        println!("{line}");
    }
    complain(&report);
}

fn complain(report: &Report) {
    if report.violations.is_empty() {
        return;
    }
    println!(
        "seed {} (cargo xtask sim --seed {} --trace):",
        report.seed, report.seed
    );
    for violation in report.violations.iter().take(8) {
        println!("    {violation}");
    }
}

fn code(is_well: bool) -> ExitCode {
    if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
