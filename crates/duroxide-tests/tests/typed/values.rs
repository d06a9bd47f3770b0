//! Deterministic values, messages, time limits, the length of the history.

use std::collections::BTreeSet;
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::testing::Harness;
use duroxide::{CONTINUE_AS_NEW_EVENTS, Undecodable};
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Drawn {
    numbers: Vec<u64>,
    ids: Vec<String>,
    seconds: u64,
    lengths: Vec<u64>,
}

#[duroxide::orchestration]
async fn draw(ctx: OrchestrationContext) -> Result<Drawn, String> {
    let began = ctx.now();
    let mut drawn = Drawn {
        numbers: vec![ctx.random(), ctx.random_below(6)],
        ids: vec![ctx.uuid().to_string()],
        seconds: 0,
        lengths: vec![ctx.history_length()],
    };
    ctx.sleep(Duration::from_secs(90)).await;
    drawn.numbers.push(ctx.random());
    drawn.ids.push(ctx.uuid().to_string());
    drawn.seconds = ctx.now().duration_since(began).unwrap().as_secs();
    drawn.lengths.push(ctx.history_length());
    // What was drawn is a decision that a replay must repeat.
    ctx.set_custom_status(format!("{drawn:?}"));
    ctx.sleep(Duration::from_secs(1)).await;
    Ok(drawn)
}

#[duroxide::orchestration]
async fn long_runner(ctx: OrchestrationContext, mut rounds: u64) -> Result<(u64, u64), String> {
    while !ctx.should_continue_as_new() {
        if rounds == 0 {
            return Ok((ctx.execution_id(), ctx.history_length()));
        }
        ctx.sleep(Duration::from_secs(1)).await;
        rounds -= 1;
    }
    ctx.continue_with(long_runner, rounds).await
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Approval {
    granted: bool,
}

type Answer = Result<Result<Approval, Undecodable>, Elapsed>;

#[duroxide::orchestration]
async fn approval(ctx: OrchestrationContext) -> Result<String, String> {
    let answer: Answer = ctx
        .timeout(Duration::from_secs(86_400), ctx.receive("approval"))
        .await;
    Ok(match answer {
        Ok(Ok(approval)) => format!("granted: {}", approval.granted),
        Ok(Err(strange)) => format!("strange: {}", strange.text),
        Err(elapsed) => format!("{elapsed}"),
    })
}

#[duroxide::orchestration]
async fn selecting(ctx: OrchestrationContext) -> Result<String, String> {
    let word = "late".to_owned();
    duroxide::select! {
        Ok(approval) | Err(approval) = async {
            let answer = ctx.receive::<Approval>("approval").await;
            answer.map(|a| a.granted).map_err(|_| false)
        } => Ok(approval.to_string()),
        () = ctx.sleep(Duration::from_secs(10)) => Ok(word),
    }
}

async fn harness() -> Harness {
    let code = Handlers::new()
        .register(draw)
        .register(long_runner)
        .register(approval)
        .register(selecting);
    Harness::builder().handlers(code).start().await
}

#[tokio::test(start_paused = true)]
async fn values_are_the_same_in_every_replay_and_leave_no_event() {
    let mut harness = harness().await;
    let handle = harness.client().start(draw, ()).id("draw").await.unwrap();
    harness.advance(Duration::from_secs(30)).await;
    // What follows is decided by a process that replays.
    harness.crash().await;
    harness.wait("draw").await;
    harness.assert_deterministic("draw").await;
    let drawn = handle.result().await.unwrap();
    assert_eq!(drawn.seconds, 90);
    // Started; then with the timer and its firing.
    assert_eq!(drawn.lengths, [1, 3]);
    assert!(drawn.numbers[1] < 6);
    let kinds: Vec<_> = harness.history("draw").await;
    let kinds: Vec<&str> = kinds.iter().map(|e| e.kind.wire_name()).collect();
    assert_eq!(
        kinds,
        [
            "OrchestrationStarted",
            "TimerCreated",
            "TimerFired",
            "CustomStatusUpdated",
            "TimerCreated",
            "TimerFired",
            "OrchestrationCompleted"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn values_differ_between_calls_and_instances() {
    let mut harness = harness().await;
    let (one, two) = (
        harness.execute(draw, ()).await.unwrap(),
        harness.execute(draw, ()).await.unwrap(),
    );
    let ids: BTreeSet<&String> = one.ids.iter().chain(&two.ids).collect();
    assert_eq!(ids.len(), 4);
    assert_ne!(one.numbers[0], two.numbers[0]);
    assert_ne!(one.numbers[0], one.numbers[2]);
}

#[tokio::test(start_paused = true)]
async fn a_long_runner_is_told_when_to_begin_a_fresh_history() {
    let mut harness = harness().await;
    let rounds = CONTINUE_AS_NEW_EVENTS / 2 + 10;
    let (execution, length) = harness.execute(long_runner, rounds).await.unwrap();
    assert_eq!(execution, 2);
    assert!(length < 30, "{length}");
}

#[tokio::test(start_paused = true)]
async fn a_message_is_received_by_type_or_time_passes() {
    let mut harness = harness().await;
    assert_eq!(
        harness.execute(approval, ()).await.unwrap(),
        "not done within 86400s"
    );
    let client = harness.client();
    let handle = client.start(approval, ()).id("asked").await.unwrap();
    handle
        .send("approval", &Approval { granted: true })
        .await
        .unwrap();
    harness.wait("asked").await;
    assert_eq!(handle.result().await.unwrap(), "granted: true");
    let handle = client.start(approval, ()).id("strange").await.unwrap();
    handle.send("approval", &7).await.unwrap();
    harness.wait("strange").await;
    assert_eq!(handle.result().await.unwrap(), "strange: 7");
}

#[tokio::test(start_paused = true)]
async fn select_takes_the_first_and_drops_the_rest() {
    let mut harness = harness().await;
    assert_eq!(harness.execute(selecting, ()).await.unwrap(), "late");
    let handle = harness
        .client()
        .start(selecting, ())
        .id("early")
        .await
        .unwrap();
    handle
        .send("approval", &Approval { granted: true })
        .await
        .unwrap();
    harness.wait("early").await;
    assert_eq!(handle.result().await.unwrap(), "true");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_start_begins_at_its_time() {
    let mut harness = harness().await;
    let began = harness.now_ms();
    let start = harness.client().start(long_runner, 1).id("later");
    let handle = start.delay(Duration::from_secs(60)).await.unwrap();
    harness.wait("later").await;
    assert_eq!((harness.now_ms() - began) / 1000, 61);
    assert_eq!(handle.result().await.unwrap().0, 1);
}
