//! Messages: taken once, answered to the sender, from clients and from other orchestrations.

use std::time::Duration;

use duroxide::prelude::*;
use duroxide::testing::Harness;

const SECOND: Duration = Duration::from_secs(1);

/// Collects `count` messages, a few of them per execution.
#[duroxide::orchestration]
async fn collect(
    ctx: OrchestrationContext,
    count: u32,
    taken: Vec<String>,
) -> Result<Vec<String>, String> {
    let mut taken = taken;
    for _ in 0..2 {
        if taken.len() as u32 == count {
            return Ok(taken);
        }
        taken.push(
            ctx.receive::<String>("in")
                .await
                .map_err(|e| e.to_string())?,
        );
    }
    ctx.continue_with(collect, (&count, &taken)).await
}

#[duroxide::orchestration]
async fn forward(ctx: OrchestrationContext, to: String) -> Result<String, Undelivered> {
    ctx.send(&to, "in", "one").await?;
    ctx.sleep(SECOND).await;
    ctx.send(&to, "in", "two").await?;
    Ok("sent".to_owned())
}

/// Starts another one and sends it something in the same breath.
#[duroxide::orchestration]
async fn start_and_send(ctx: OrchestrationContext) -> Result<Vec<String>, String> {
    ctx.spawn(collect, (&1, &Vec::new())).id("spawned");
    ctx.send("spawned", "in", "at once")
        .await
        .map_err(|e| e.to_string())?;
    Ok(ctx.await_instance(collect, "spawned").await?)
}

#[duroxide::orchestration]
async fn awaiting(
    ctx: OrchestrationContext,
    id: String,
) -> Result<Vec<String>, OrchestrationError<String>> {
    ctx.await_instance(collect, id).await
}

#[duroxide::orchestration]
async fn failing(_ctx: OrchestrationContext) -> Result<Vec<String>, String> {
    Err("on purpose".to_owned())
}

/// Breaks a limit in the turn that sends.
#[duroxide::orchestration]
async fn too_much(ctx: OrchestrationContext, to: String) -> Result<(), String> {
    let sent = ctx.send(&to, "in", "never").await;
    sent.map_err(|e| e.to_string())?;
    ctx.set_kv_value("large", "x".repeat(100_000));
    Ok(())
}

async fn harness() -> Harness {
    let code = Handlers::new()
        .register(collect)
        .register(forward)
        .register(start_and_send)
        .register(awaiting)
        .register(failing)
        .register(too_much);
    Harness::builder().handlers(code).start().await
}

async fn collecting(harness: &Harness, id: &str, count: u32) {
    let start = harness
        .client()
        .start(collect, (&count, &Vec::new()))
        .id(id);
    start.await.unwrap();
}

fn is_ended<T>(sent: &Result<T, SendError>) -> bool {
    matches!(sent, Err(SendError::Undelivered(Undelivered::Ended { .. })))
}

fn is_not_found<T>(sent: &Result<T, SendError>) -> bool {
    matches!(
        sent,
        Err(SendError::Undelivered(Undelivered::NotFound { .. }))
    )
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|one| (*one).to_owned()).collect()
}

async fn result(harness: &mut Harness, id: &str) -> Vec<String> {
    harness.wait(id).await;
    harness.assert_deterministic(id).await;
    harness.client().handle(collect, id).result().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_repeated_message_is_taken_once() {
    let mut harness = harness().await;
    collecting(&harness, "c", 5).await;
    let client = harness.client();
    let send = |text: &str, key: &str| client.send("c", "in", text).dedup_key(key);
    send("a", "1").await.unwrap();
    send("a", "1").await.unwrap();
    // Another execution, and another life of the process.
    send("b", "2").await.unwrap();
    harness.crash_after_commit(1);
    send("c", "3").await.unwrap();
    tokio::time::sleep(SECOND).await;
    for (text, key) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")] {
        send(text, key).await.unwrap();
    }
    // The same key on another queue is another message, and no key is no repetition.
    client.send("c", "other", "x").dedup_key("5").await.unwrap();
    client.send("c", "in", "a").await.unwrap();
    assert_eq!(
        result(&mut harness, "c").await,
        texts(&["a", "b", "c", "d", "a"])
    );
}

#[tokio::test(start_paused = true)]
async fn the_sender_hears_of_an_instance_that_takes_nothing() {
    let mut harness = harness().await;
    let client = harness.client();
    let send = |id: &str| client.send(id, "in", "x");
    assert!(is_not_found(&send("nobody").await));
    collecting(&harness, "c", 1).await;
    send("c").await.unwrap();
    harness.wait("c").await;
    assert!(is_ended(&send("c").await));
    client.delete_instance("c", false).await.unwrap();
    assert!(is_not_found(&send("c").await), "deleted");
    let refused = client.send("c", "duroxide:keys", "[]").early().await;
    assert_eq!(refused.unwrap_err().code(), "D0152");
    assert_eq!(send("c").dedup_key("").await.unwrap_err().code(), "D0152");
}

#[tokio::test(start_paused = true)]
async fn a_message_waits_for_the_start() {
    let mut harness = harness().await;
    let client = harness.client();
    client.send("early", "in", "first").early().await.unwrap();
    collecting(&harness, "early", 1).await;
    assert_eq!(result(&mut harness, "early").await, ["first"]);
    let later = client
        .start(collect, (&1, &Vec::new()))
        .id("later")
        .delay(60 * SECOND);
    later.await.unwrap();
    client.send("later", "in", "stored").await.unwrap();
    assert_eq!(result(&mut harness, "later").await, ["stored"]);
}

#[tokio::test(start_paused = true)]
async fn a_start_brings_its_messages() {
    let mut harness = harness().await;
    let client = harness.client();
    let start = || {
        client
            .start(collect, (&3, &Vec::new()))
            .id("c")
            .message("in", "plain")
            .keyed_message("in", "k", "keyed")
    };
    start().await.unwrap();
    tokio::time::sleep(SECOND).await;
    start().await.unwrap();
    assert_eq!(result(&mut harness, "c").await, ["plain", "keyed", "plain"]);
    let refused = start().await.unwrap_err();
    assert!(refused.to_string().contains("has ended"), "{refused}");
    let reserved = client
        .start(collect, (&1, &Vec::new()))
        .message("duroxide:x", &1);
    assert!(reserved.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_orchestration_sends_to_another_once() {
    let mut harness = harness().await;
    collecting(&harness, "c", 3).await;
    // Whatever commit the process dies after, each message is there once.
    harness.crash_after_commit(2);
    assert_eq!(harness.execute(forward, "c").await, Ok("sent".to_owned()));
    harness.client().send("c", "in", "end").await.unwrap();
    assert_eq!(result(&mut harness, "c").await, ["one", "two", "end"]);
    let ended = Undelivered::Ended {
        instance: "c".to_owned(),
    };
    let error = harness.execute(forward, "c").await.unwrap_err();
    assert_eq!(error, OrchestrationError::Failed(ended));
    let error = harness.execute(forward, "nobody").await.unwrap_err();
    assert!(matches!(error.failed(), Some(Undelivered::NotFound { .. })));
}

#[tokio::test(start_paused = true)]
async fn what_a_broken_turn_sent_is_not_sent() {
    let mut harness = harness().await;
    collecting(&harness, "c", 1).await;
    harness.execute(too_much, "c").await.unwrap_err();
    harness.client().send("c", "in", "first").await.unwrap();
    assert_eq!(result(&mut harness, "c").await, ["first"]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_started_in_the_same_turn_can_be_sent_to_and_awaited() {
    let mut harness = harness().await;
    assert_eq!(
        harness.execute(start_and_send, ()).await,
        Ok(texts(&["at once"]))
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_foreign_instance_is_awaited() {
    let mut harness = harness().await;
    collecting(&harness, "c", 1).await;
    let client = harness.client();
    let waits = client.start(awaiting, "c").id("waits").await.unwrap();
    tokio::time::sleep(3600 * SECOND).await;
    let before = client
        .read_execution_history("waits", 1)
        .await
        .unwrap()
        .len();
    assert_eq!(before, 2, "waiting adds nothing to the history");
    client.send("c", "in", "x").await.unwrap();
    assert_eq!(waits.result().await.unwrap(), ["x"]);
    harness.assert_deterministic("waits").await;

    let failed = client.start(failing, ()).id("f").await.unwrap();
    let waits = client.start(awaiting, "f").await.unwrap();
    assert!(
        waits
            .result()
            .await
            .unwrap_err()
            .to_string()
            .contains("on purpose")
    );
    drop(failed);
    let error = harness.execute(awaiting, "nobody").await.unwrap_err();
    let inner = error.failed().cloned();
    assert!(
        matches!(inner, Some(OrchestrationError::Unavailable { .. })),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_text_passes_for_a_key() {
    let mut harness = harness().await;
    collecting(&harness, "c", 3).await;
    for _ in 0..3 {
        let text = "duroxide:key:1:kx";
        harness
            .client()
            .enqueue_event("c", "in", text)
            .await
            .unwrap();
    }
    assert_eq!(result(&mut harness, "c").await, ["duroxide:key:1:kx"; 3]);
}

/// Waits for what its child sends.
#[duroxide::orchestration]
async fn listening(ctx: OrchestrationContext) -> Result<String, String> {
    let child = ctx.child(telling, ctx.instance_id());
    let said = ctx
        .receive::<String>("in")
        .await
        .map_err(|e| e.to_string())?;
    child.await.map_err(|e| e.to_string())?;
    Ok(said)
}
#[duroxide::orchestration]
async fn telling(ctx: OrchestrationContext, to: String) -> Result<(), Undelivered> {
    ctx.send(&to, "in", "first").await
}

/// Start, first turn, the child's start and its first turn share one transaction of the store.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_reaches_its_parent_in_its_first_turn() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("a.db").display());
    let app = Duroxide::open(&url)
        .register(listening)
        .register(telling)
        .start()
        .await
        .unwrap();
    for round in 0..50 {
        let id = format!("parent-{round}");
        let parent = app.client().start(listening, ()).id(id).await.unwrap();
        let said = tokio::time::timeout(60 * SECOND, parent.result()).await;
        assert_eq!(said.expect("the message arrives").unwrap(), "first");
    }
    app.shutdown().await;
}
