//! One seed decides every order.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duroxide_core::{Either2, OrchestrationContext};
use duroxide_runtime::registry::OrchestrationRegistry;
use duroxide_testing::{Harness, HarnessBuilder, block_on};

async fn fan_out(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    let names = ["a", "b", "c", "d", "e"];
    let calls = names.map(|name| ctx.schedule_activity("work", name));
    ctx.join(calls.into()).await;
    Ok(String::new())
}

/// Which of two comes first is chance.
async fn race(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    let (left, right) = (
        ctx.schedule_activity("work", "left"),
        ctx.schedule_activity("work", "right"),
    );
    Ok(match ctx.select2(left, right).await {
        Either2::First(_) => "left".to_owned(),
        Either2::Second(_) => "right".to_owned(),
    })
}

fn builder() -> HarnessBuilder {
    let registry = OrchestrationRegistry::builder()
        .register("fan_out", fan_out)
        .register("race", race);
    Harness::builder()
        .orchestrations(registry.build())
        .stub_value("work", "done")
}

async fn order(builder: HarnessBuilder) -> String {
    let mut harness = builder.start().await;
    harness.run("fan_out", "").await;
    let calls = harness.calls("work").into_iter();
    calls.map(|call| call.input).collect()
}

#[test]
fn the_same_seed_is_the_same_order_and_other_seeds_are_others() {
    let run = |seed| block_on(order(builder().seed(seed)));
    let first: Vec<String> = (0..40).map(run).collect();
    let again: Vec<String> = (0..40).map(run).collect();
    assert_eq!(first, again);
    let orders: BTreeSet<&String> = first.iter().collect();
    assert!(orders.len() > 10, "{orders:?}");
}

#[test]
fn the_same_seed_makes_the_same_history() {
    let histories = |seed| {
        block_on(async move {
            let mut harness = builder().seed(seed).workers(2).start().await;
            harness.crash_after_commit(3);
            harness.run("fan_out", "").await;
            let history = harness.history("run-1").await;
            assert_eq!(harness.crashes(), 1);
            serde_json::to_string(&history).expect("events are plain data")
        })
    };
    for seed in 0..5 {
        assert_eq!(histories(seed), histories(seed), "seed {seed}");
    }
}

#[test]
fn many_seeds_see_both_ends_of_a_race() {
    let left = AtomicU64::new(0);
    Harness::many(0..40, |harness| {
        let left = &left;
        async move {
            let registry = OrchestrationRegistry::builder().register("race", race);
            let mut harness = harness
                .orchestrations(registry.build())
                .stub_value("work", "")
                .start()
                .await;
            let status = harness.run("race", "").await;
            left.fetch_add(
                u64::from(crate::output(&status) == "left"),
                Ordering::Relaxed,
            );
        }
    });
    let left = left.into_inner();
    assert!((1..40).contains(&left), "{left} of 40");
}

#[test]
#[should_panic(expected = "this seed")]
fn a_seed_that_fails_fails_the_test() {
    Harness::many(0..10, |harness| async move {
        let harness = harness.start().await;
        assert!(harness.seed() != 7, "this seed");
    });
}

#[test]
#[should_panic(expected = "tests nothing")]
fn no_seeds_are_no_test() {
    Harness::many([], |_| async {});
}

#[tokio::test(start_paused = true)]
async fn time_moves_by_what_was_asked_for() {
    let mut harness = builder().start().await;
    let before = harness.now_ms();
    harness.start("i", "fan_out", "").await;
    harness.settle().await;
    assert_eq!(harness.now_ms(), before);
    assert_eq!(harness.calls("work").len(), 5);
    harness.advance(Duration::from_secs(3)).await;
    assert_eq!(harness.now_ms(), before + 3_000);
}
