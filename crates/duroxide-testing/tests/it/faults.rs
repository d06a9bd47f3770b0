//! Workers that die, stores that fail, answers that come late or twice.

use std::time::Duration;

use duroxide_core::{ActivityOptions, OrchestrationContext};
use duroxide_runtime::registry::OrchestrationRegistry;
use duroxide_testing::{Harness, HarnessBuilder, Moment, block_on};

use crate::output;

async fn steps(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    let mut all = String::new();
    for step in ["a", "b", "c"] {
        all += &ctx.schedule_activity("step", step).await?;
    }
    Ok(all)
}

async fn fan_out(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    let calls = ["a", "b", "c", "d"].map(|step| ctx.schedule_activity("step", step));
    let answers = ctx.join(calls.into()).await;
    answers.into_iter().collect()
}

fn builder() -> HarnessBuilder {
    with_code(Harness::builder())
}

fn with_code(builder: HarnessBuilder) -> HarnessBuilder {
    let registry = OrchestrationRegistry::builder()
        .register("steps", steps)
        .register("fan_out", fan_out);
    builder
        .orchestrations(registry.build())
        .stub("step", |call| Ok(call.input.clone()))
}

#[test]
fn a_crash_at_any_call_changes_nothing() {
    let calls = [
        "claim_turns",
        "ack_orchestration_item",
        "claim_work",
        "ack_work_item",
    ];
    for call in calls {
        for moment in [Moment::Before, Moment::After] {
            Harness::many(0..5, |harness| async move {
                let mut harness = with_code(harness).start().await;
                harness.crash_at(call, 2, moment);
                let status = harness.run("steps", "").await;
                assert_eq!(output(&status), "abc", "{call} {moment:?}");
                assert_eq!(harness.crashes(), 1, "{call} {moment:?}");
            });
        }
    }
}

#[test]
fn a_store_that_fails_any_call_once_changes_nothing() {
    let calls = [
        "claim_turns",
        "ack_orchestration_item",
        "claim_work",
        "ack_work_item",
    ];
    for call in calls {
        for moment in [Moment::Before, Moment::After] {
            block_on(async {
                let mut harness = builder().start().await;
                harness.fail_store(call, 2, moment);
                let status = harness.run("steps", "").await;
                assert_eq!(output(&status), "abc", "{call} {moment:?}");
                assert_eq!(harness.crashes(), 0);
                assert!(harness.store_calls(call) > 2, "{call} was tried again");
            });
        }
    }
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a worker never calls \"claim_turn\"")]
async fn a_call_that_nobody_makes_is_a_mistake() {
    builder()
        .start()
        .await
        .crash_at("claim_turn", 1, Moment::Before);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_does_not_notice_a_crash() {
    let harness = builder().start().await;
    harness.crash_before_commit(2);
    harness.start("i", "steps", "").await;
    let status = harness
        .client()
        .wait_for_orchestration("i", Duration::from_secs(3_600))
        .await
        .expect("the dead worker is started again");
    assert_eq!(output(&status), "abc");
    assert_eq!(harness.crashes(), 1);
}

#[test]
fn answers_that_come_twice_or_late_are_taken_once_each() {
    let late = Duration::from_secs(5);
    let manners: [fn(HarnessBuilder, Duration) -> HarnessBuilder; 3] = [
        |harness, _| harness.deliver_twice(),
        HarnessBuilder::deliver_late,
        |harness, late| harness.deliver_twice().deliver_late(late),
    ];
    for manner in manners {
        Harness::many(0..10, |harness| async move {
            let mut harness = manner(with_code(harness), late).start().await;
            let status = harness.run("fan_out", "").await;
            assert_eq!(output(&status), "abcd");
            assert_eq!(harness.calls("step").len(), 4);
        });
    }
}

#[test]
fn the_seed_decides_the_order_of_late_answers() {
    let order_of_answers = |seed| {
        block_on(async move {
            let builder = builder().deliver_late(Duration::from_secs(5));
            let mut harness = builder.seed(seed).start().await;
            harness.run("fan_out", "").await;
            let history = harness.history("run-1").await;
            let answers = history.iter().filter_map(|event| match &event.kind {
                duroxide_core::EventKind::ActivityCompleted { result } => Some(result.clone()),
                _ => None,
            });
            answers.collect::<String>()
        })
    };
    let orders: Vec<String> = (0..10).map(order_of_answers).collect();
    let again: Vec<String> = (0..10).map(order_of_answers).collect();
    assert_eq!(orders, again, "a seed always gives the same order");
    let is_overtaken = |order: &String| order.find('b') < order.find('a');
    assert!(orders.iter().any(is_overtaken), "{orders:?}");
}

#[test]
fn two_workers_share_the_work_and_one_of_them_may_die() {
    Harness::many(0..10, |harness| async move {
        let mut harness = with_code(harness).workers(2).start().await;
        for number in 0..6 {
            harness.start(&format!("i{number}"), "fan_out", "").await;
        }
        harness.crash_worker(1).await;
        for number in 0..6 {
            assert_eq!(output(&harness.wait(&format!("i{number}")).await), "abcd");
        }
        assert_eq!(harness.crashes(), 1);
    });
}

#[tokio::test(start_paused = true)]
async fn a_call_says_who_ran_it_how_often_and_where() {
    async fn routed(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
        let options = ActivityOptions::new().on_session("desk");
        ctx.schedule_activity_with_options("step", "", options)
            .await
    }
    let registry = OrchestrationRegistry::builder().register("routed", routed);
    let mut harness = Harness::builder()
        .orchestrations(registry.build())
        .stub_value("step", "")
        .start()
        .await;
    harness.crash_at("ack_work_item", 1, Moment::Before);
    harness.run("routed", "").await;
    let calls = harness.calls("step");
    let attempts: Vec<u32> = calls.iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, [1, 2]);
    assert!(
        calls
            .iter()
            .all(|call| call.session_id.as_deref() == Some("desk"))
    );
    assert!(calls.iter().all(|call| call.tag.is_none()));
    assert!(calls.iter().all(|call| !call.worker_id.is_empty()));
}
