//! The harness as its users use it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{FnOrchestration, OrchestrationContext};
use duroxide_runtime::OrchestrationStatus;
use duroxide_runtime::registry::OrchestrationRegistry;
use duroxide_testing::{Harness, block_on, check_determinism, check_execution, replay};

mod faults;
mod replays;
mod retries;
mod seeds;
mod stuck;

const DAY: Duration = Duration::from_secs(86_400);

async fn reminders(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    for day in 1..=30 {
        ctx.schedule_timer(DAY).await;
        ctx.schedule_activity("remind", format!("{input} {day}"))
            .await?;
    }
    Ok("reminded 30 times".into())
}

async fn approval(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    let answer = ctx.schedule_wait("approved");
    match ctx.select2(answer, ctx.schedule_timer(DAY)).await {
        duroxide_core::Either2::First(who) => Ok(format!("approved by {who}")),
        duroxide_core::Either2::Second(()) => Ok("nobody answered".into()),
    }
}

async fn careless(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    let fields: HashMap<String, u32> = (0..64).map(|n| (format!("field-{n}"), n)).collect();
    let order: Vec<String> = fields.keys().cloned().collect();
    ctx.schedule_activity("remind", order.join(",")).await
}

/// Three executions; each reads what the one before it wrote and asks for something else because of it.
async fn counting(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let seen = ctx.get_kv_value("count").unwrap_or_default();
    let count: u32 = input.parse().map_err(|e| format!("{e}"))?;
    ctx.schedule_activity("remind", format!("after {seen}"))
        .await?;
    ctx.set_kv_value("count", (count + 1).to_string());
    if count < 2 {
        return ctx.continue_as_new((count + 1).to_string()).await;
    }
    Ok(format!("counted {}", count + 1))
}

async fn late_careless(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    if input.is_empty() {
        return ctx.continue_as_new("again").await;
    }
    careless(ctx, input).await
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("reminders", reminders)
        .register("approval", approval)
        .register("careless", careless)
        .register("counting", counting)
        .register("late_careless", late_careless)
        .build()
}

pub(crate) fn output(status: &OrchestrationStatus) -> &str {
    match status {
        OrchestrationStatus::Completed { output, .. } => output,
        other => panic!("not completed: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn thirty_days_pass_in_a_moment() {
    let mut harness = Harness::builder()
        .orchestrations(orchestrations())
        .stub_value("remind", "sent")
        .start()
        .await;
    let before = harness.now_ms();
    let status = harness.run("reminders", "drink water").await;
    assert_eq!(output(&status), "reminded 30 times");
    assert!(harness.now_ms() - before >= 30 * 86_400_000);
    assert_eq!(harness.calls("remind").len(), 30);
    assert_eq!(harness.calls("remind")[4].input, "drink water 5");
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_arrives_at_its_moment_or_the_deadline_passes() {
    let mut harness = Harness::builder()
        .orchestrations(orchestrations())
        .start()
        .await;
    harness.start("a", "approval", "").await;
    harness.raise_after(DAY / 2, "a", "approved", "Ada");
    assert_eq!(output(&harness.wait("a").await), "approved by Ada");
    assert_eq!(
        output(&harness.run("approval", "").await),
        "nobody answered"
    );
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn time_can_be_moved_step_by_step() {
    let mut harness = Harness::builder()
        .orchestrations(orchestrations())
        .stub_value("remind", "sent")
        .start()
        .await;
    harness.start("r", "reminders", "x").await;
    harness.advance(3 * DAY + Duration::from_secs(60)).await;
    assert_eq!(harness.calls("remind").len(), 3);
    harness.stop().await;
}

#[test]
fn the_second_call_fails_and_the_error_is_the_outcome() {
    block_on(async {
        let mut harness = Harness::builder()
            .orchestrations(orchestrations())
            .stub_value("remind", "sent")
            .fail_call("remind", 2, "mail server down")
            .start()
            .await;
        let status = harness.run("reminders", "x").await;
        assert!(
            matches!(&status, OrchestrationStatus::Failed { details, .. } if details.display_message() == "mail server down"),
            "{status:?}"
        );
        harness.stop().await;
    });
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_changes_nothing_but_repeats() {
    for nth in 1..=12 {
        for after in [false, true] {
            let mut harness = Harness::builder()
                .orchestrations(orchestrations())
                .stub_value("remind", "sent")
                .start()
                .await;
            if after {
                harness.crash_after_commit(nth);
            } else {
                harness.crash_before_commit(nth);
            }
            let status = harness.run("reminders", "x").await;
            assert_eq!(output(&status), "reminded 30 times");
            assert_eq!(harness.crashes(), 1, "commit {nth}, after: {after}");
            let calls = harness.calls("remind").len();
            assert!((30..=31).contains(&calls), "{calls} calls");
            harness.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn code_that_depends_on_hash_order_is_caught() {
    let harness = Harness::builder()
        .orchestrations(orchestrations())
        .stub_value("remind", "sent")
        .start()
        .await;
    let started = duroxide_core::Event::with_event_id(
        1,
        "i",
        1,
        None,
        duroxide_core::EventKind::OrchestrationStarted {
            name: "careless".into(),
            version: "1.0.0".into(),
            input: String::new(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: None,
        },
    );
    let report = check_determinism(&[started], &orchestrations()).unwrap_err();
    assert!(report.contains("one run decides"), "{report}");
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn executions_after_continue_as_new_are_run_twice_with_the_key_values_they_began_with() {
    let mut harness = Harness::builder()
        .orchestrations(orchestrations())
        .stub("remind", |call| Ok(call.input.clone()))
        .start()
        .await;
    let status = harness.run("counting", "0").await;
    assert_eq!(output(&status), "counted 3");

    let history = harness.full_history("run-1").await;
    assert_eq!(history.last().map(|event| event.execution_id), Some(3));
    let later: Vec<_> = history.into_iter().filter(|e| e.execution_id > 1).collect();
    let report = check_determinism(&later, &orchestrations()).unwrap_err();
    assert!(report.contains("begins with execution 2"), "{report}");
    let second: Vec<_> = later.into_iter().filter(|e| e.execution_id == 2).collect();
    let report = check_execution(&second, &HashMap::new(), &orchestrations()).unwrap_err();
    assert!(
        report.contains("schedule mismatch"),
        "it reads what execution 1 wrote: {report}"
    );
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "late is not deterministic")]
async fn code_that_depends_on_hash_order_is_caught_in_a_later_execution() {
    let harness = Harness::builder()
        .orchestrations(orchestrations())
        .start()
        .await;
    harness.start("late", "late_careless", "").await;
    // The second execution asks for an activity in hash order; no later run asks for the same.
    while harness
        .full_history("late")
        .await
        .iter()
        .all(|e| e.execution_id < 2)
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    harness.assert_deterministic("late").await;
}

#[tokio::test(start_paused = true)]
async fn a_recorded_history_replays_against_the_code_that_made_it_and_not_against_other_code() {
    let mut harness = Harness::builder()
        .orchestrations(orchestrations())
        .stub_value("remind", "sent")
        .start()
        .await;
    harness.run("reminders", "x").await;
    let json = serde_json::to_string(&harness.history("run-1").await).unwrap();
    let same = replay(&json, Arc::new(FnOrchestration(reminders))).unwrap();
    assert_eq!(same.executions, 1);
    let other = replay(&json, Arc::new(FnOrchestration(approval))).unwrap_err();
    assert!(other.to_string().contains("schedule mismatch"), "{other}");
    let none = replay("{}", Arc::new(FnOrchestration(approval))).unwrap_err();
    assert!(
        none.to_string().contains("not a recorded history"),
        "{none}"
    );
    harness.stop().await;
}

#[tokio::test]
#[should_panic(expected = "froz")]
async fn time_that_is_not_paused_is_noticed_at_the_start() {
    let _harness = Harness::builder().start().await;
}

async fn endless(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    loop {
        ctx.schedule_timer(Duration::from_secs(1)).await;
        if ctx.history_length() > 500 {
            return ctx.continue_as_new("").await;
        }
    }
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "did not end within 60s")]
async fn an_orchestration_that_does_not_end_in_time_fails_its_test() {
    let registry = OrchestrationRegistry::builder().register("endless", endless);
    let builder = Harness::builder().orchestrations(registry.build());
    let mut harness = builder.start().await;
    harness.start("i", "endless", "").await;
    harness.wait_within("i", Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "in an action")]
async fn a_panic_in_what_was_to_be_done_later_is_a_panic_of_the_test() {
    let mut harness = Harness::builder()
        .orchestrations(orchestrations())
        .start()
        .await;
    harness.start("i", "approval", "").await;
    harness.after(Duration::from_secs(1), |_| async { panic!("in an action") });
    harness.wait("i").await;
}

/// A child whose order of two keys decides what it asks for.
async fn careless_child(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    let fields: HashMap<&str, u32> = [("a", 1), ("b", 2)].into_iter().collect();
    let order: Vec<&str> = fields.keys().copied().collect();
    ctx.schedule_activity("remind", order.join(",")).await
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "is not deterministic")]
async fn a_child_that_depends_on_the_order_of_two_keys_is_caught() {
    let registry = OrchestrationRegistry::builder()
        .register("child", careless_child)
        .register(
            "parent",
            |ctx: OrchestrationContext, _: String| async move {
                ctx.schedule_sub_orchestration("child", "").await
            },
        );
    let builder = Harness::builder().orchestrations(registry.build());
    let mut harness = builder.stub_value("remind", "").start().await;
    harness.run("parent", "").await;
}

async fn patient(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    let letter = ctx.dequeue_event("mail").await;
    ctx.schedule_wait("never").await;
    Ok(letter)
}

#[tokio::test(start_paused = true)]
async fn messages_and_requests_to_cancel_come_at_their_moment() {
    let registry = OrchestrationRegistry::builder().register("patient", patient);
    let builder = Harness::builder().orchestrations(registry.build());
    let mut harness = builder.start().await;
    harness.start("i", "patient", "").await;
    harness.enqueue_after(DAY, "i", "mail", "a letter");
    harness.cancel_after(2 * DAY, "i", "enough");
    let status = harness.wait_within("i", 3 * DAY).await;
    assert!(matches!(status, OrchestrationStatus::Failed { .. }));
    let names: Vec<_> = harness.history("i").await;
    let names: Vec<_> = names.iter().map(|event| event.kind.wire_name()).collect();
    assert!(names.contains(&"ExternalEventPersistent"), "{names:?}");
}
