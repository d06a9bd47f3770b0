//! Seeds that every change has to pass, and that a seed is a run. Long runs: `cargo xtask sim`, see
//! docs/reliability.md.

mod crash_points;
mod fuzz;
mod power_loss;

use std::ops::Range;
use std::time::Duration;

use duroxide_sim::many;
use duroxide_sim::plan::{
    Code, LifeEnd, LifePlan, Nemesis, NodePlan, Plan, Rates, RootPlan, StartPlan, Strike,
};
use duroxide_sim::program::{Op, Program, Step};
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
    pass(0..400);
}

/// Of 94,713 seeds ten failed: a retry asked where a child stands that had yet to be cancelled once more, behind an
/// earlier retry.
#[test]
fn a_retry_waits_for_a_child_that_is_cancelled_behind_an_earlier_retry() {
    for seed in [18_531, 33_688, 42_543, 56_665, 76_376] {
        pass(seed..seed + 1);
    }
}

/// The first two of these four of 200,000 seeds failed for good reasons.
#[test]
fn seeds_of_the_longest_run_pass() {
    // A retry read where a child stood before and after the child was cancelled once more.
    pass(124_722..124_723);
    // An activity that had lost its lease heard what an activity of the next instance of its id had said.
    pass(154_002..154_003);
    // The checker blamed a node that was told late what it had been granted, twice.
    pass(71_816..71_817);
    pass(110_185..110_186);
}

/// One node, one instance, and nothing else goes wrong than what the test adds.
fn calm(program: Program) -> Plan {
    let mut plan = Plan::draw(0);
    plan.nodes.truncate(1);
    plan.nodes[0] = NodePlan {
        code: vec![Code::ALL],
        skew_ms: 0,
        slots: 4,
        sticky: 16,
        sessions_max: 10,
        serves_tag: true,
        stable_id: false,
        blocks: false,
        lock_timeout: Duration::from_millis(1_500),
        worker_lock_timeout: Duration::from_secs(3),
    };
    plan.rates = Rates::default();
    plan.nemesis.clear();
    plan.heal_at = Duration::from_secs(20);
    plan.roots = vec![RootPlan {
        id: "i".to_owned(),
        lives: vec![LifePlan {
            program,
            start_after: Duration::ZERO,
            message_pause: Duration::from_millis(150),
            signal_pause: Duration::from_millis(700),
            end: LifeEnd::Alone,
            pauses: None,
            retries: false,
            start: StartPlan::Plain,
            restarts: false,
            prunes: false,
            reads: false,
        }],
    }];
    plan
}

fn passes(plan: &Plan) {
    quiet();
    for seed in 0..100 {
        let report = world::run(
            &Plan {
                seed,
                ..plan.clone()
            },
            true,
        );
        assert!(report.violations.is_empty(), "{:#?}", report.timeline);
    }
}

#[test]
fn timers_are_right_on_a_node_whose_clock_is_an_hour_off() {
    for skew_ms in [-3_600_000, 3_600_000] {
        let mut plan = calm(Program {
            steps: vec![Step::Do(Op::Timer(2_000)), Step::Do(Op::Timer(500))],
            ..Program::default()
        });
        plan.nodes[0].skew_ms = skew_ms;
        passes(&plan);
    }
}

#[test]
fn queue_messages_keep_their_order_when_an_outage_spoils_a_commit() {
    let mut plan = calm(Program {
        steps: vec![Step::Dequeue(30)],
        ..Program::default()
    });
    // Two nodes, of which one cannot commit for longer than it tries, while clients go on sending.
    plan.nodes.push(plan.nodes[0].clone());
    plan.nodes
        .iter_mut()
        .for_each(|node| node.lock_timeout = Duration::from_secs(5));
    plan.nemesis = [310, 5_000]
        .into_iter()
        .map(|at| Strike {
            at: Duration::from_millis(at),
            what: Nemesis::Partition {
                node: 0,
                length: Duration::from_millis(3_950),
            },
        })
        .collect();
    plan.rates.slow = 500;
    passes(&plan);
}

#[test]
fn an_id_that_a_child_of_an_earlier_life_has_taken_is_refused_to_the_life_that_asks() {
    for seed in (7..1_500).step_by(29) {
        pass(seed..seed + 1);
    }
}

/// The awaited instance began and ended between two looks of the worker, which took it for one that never was.
#[test]
fn an_awaited_instance_that_begins_and_ends_between_two_looks_is_found() {
    for seed in [1_210, 1_480] {
        pass(seed..seed + 1);
    }
}

/// The repetition came in one batch with the start of the next execution, which did not know the keys of the one before
/// yet.
#[test]
fn a_message_with_a_key_that_is_repeated_while_its_instance_continues_is_taken_once() {
    for seed in [947, 1_877] {
        pass(seed..seed + 1);
    }
}

/// Its first turn was committed between the look at its row and the one at its queue.
#[test]
fn a_message_to_an_instance_that_begins_at_that_moment_is_taken() {
    pass(1_892..1_893);
}

#[test]
fn the_same_seed_is_the_same_run() {
    quiet();
    for seed in 0..100 {
        let plan = Plan::draw(seed);
        let (first, again) = (world::run(&plan, false), world::run(&plan, false));
        assert_eq!(first.hash, again.hash, "seed {seed}");
    }
}

#[test]
fn a_run_has_crashes_and_faults() {
    quiet();
    let totals = many::run(0..100, 2, 1);
    assert!(totals.crashes >= 4 * totals.seeds, "{totals:?}");
    assert!(totals.faults >= 20 * totals.seeds, "{totals:?}");
}

/// The refusal of a start, sent by a turn that continues as new, was taken for the end of the instance and given the
/// life of its parent.
#[test]
fn a_start_that_is_refused_while_the_instance_continues_is_answered_to_who_asked() {
    pass(6_394..6_395);
}

/// A request to cancel came with the result that ended the code, and the store was away for long after that.
#[test]
fn a_child_whose_code_has_returned_when_it_hears_of_its_cancellation_may_be_committed_after_an_outage()
 {
    pass(2_911..2_912);
}
