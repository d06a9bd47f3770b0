//! Seeds that every change has to pass, and that a seed is a run. Long runs: `cargo xtask sim`, see docs/reliability.md.

use std::ops::Range;

use duroxide_sim::many;
use duroxide_sim::plan::Plan;
use duroxide_sim::world;

/// What programs do on purpose is not printed.
fn quiet() {
    std::panic::set_hook(Box::new(|_| {}));
}

fn pass(seeds: Range<u64>) {
    quiet();
    let totals = many::run(seeds, 2, 1);
    let failed = totals.failed.first().map(|report| {
        format!(
            "cargo xtask sim --seed {} --trace\n{}",
            report.seed,
            report.violations.join("\n")
        )
    });
    assert_eq!(failed, None);
}

#[test]
fn the_first_seeds_pass() {
    pass(0..1_000);
}

#[test]
fn seeds_that_once_failed_pass() {
    // A refused child's start answered to an earlier life of its parent; queue messages that overtook each other after an
    // outage; leases kept at shutdown; timers an hour late beside a clock that is off.
    for seed in [13_664, 3_383, 46, 17, 18] {
        pass(seed..seed + 1);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    quiet();
    for seed in 0..300 {
        let plan = Plan::draw(seed);
        let (first, again) = (world::run(&plan, false), world::run(&plan, false));
        assert_eq!(first.hash, again.hash, "seed {seed}");
    }
}

#[test]
fn a_run_has_crashes_and_faults() {
    quiet();
    let totals = many::run(0..300, 2, 1);
    assert!(totals.crashes >= 4 * totals.seeds, "{totals:?}");
    assert!(totals.faults >= 20 * totals.seeds, "{totals:?}");
}
