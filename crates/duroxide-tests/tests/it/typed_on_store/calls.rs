//! Calls of activities, and effects in place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use duroxide::prelude::*;
use duroxide::{EventKind, Timeout};
use serde::{Deserialize, Serialize};

use super::{AGES, SOON, world};
use crate::support::Notes;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum ChargeError {
    Busy { attempt: u32 },
    Declined,
}

impl Retryable for ChargeError {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}

/// Busy twice, then it works; the card of nobody is declined.
#[duroxide::activity]
async fn charge(
    ctx: ActivityContext,
    keys: State<Notes>,
    who: String,
) -> Result<String, ChargeError> {
    keys.add(ctx.idempotency_key());
    match keys.count(&ctx.idempotency_key()) as u32 {
        _ if who == "nobody" => Err(ChargeError::Declined),
        attempt @ 1..=2 => Err(ChargeError::Busy { attempt }),
        _ => Ok(format!("charged {who}")),
    }
}

#[duroxide::orchestration]
async fn pay(ctx: OrchestrationContext, who: String) -> Result<String, ActivityError<ChargeError>> {
    ctx.call(charge, &who).retry(Retry::fixed(5, SOON)).await
}

#[tokio::test]
async fn a_call_is_tried_again_under_one_key_until_it_works_or_its_error_is_final() {
    let keys = Notes::default();
    let code = Handlers::new().state(keys.clone());
    let world = world(code.register(charge).register(pay)).await;
    let paid = world.client.start(pay, "Ada").id("ada").await.unwrap();
    assert_eq!(paid.result().await.unwrap(), "charged Ada");
    assert_eq!(keys.all(), ["ada/1/2", "ada/1/2", "ada/1/2"]);
    let declined = world.client.start(pay, "nobody").id("none").await.unwrap();
    let error = declined.result().await.unwrap_err();
    let own = ActivityError::Failed(ChargeError::Declined);
    assert_eq!(error.failed(), Some(&own));
    assert_eq!(keys.count("none/1/2"), 1);
    world.stop().await;
}

/// Says how far it is, and fails; the next attempt goes on.
#[duroxide::activity]
async fn import(ctx: ActivityContext) -> Result<u64, String> {
    let done = ctx.last_heartbeat::<u64>().await;
    match done.map_err(|error| error.to_string())? {
        Some(done) => Ok(done),
        None => {
            ctx.heartbeat(&70);
            Err("the connection broke".to_owned())
        }
    }
}

/// Never answers.
#[duroxide::activity]
async fn hang(ctx: ActivityContext) -> Result<(), String> {
    ctx.alive();
    std::future::pending().await
}

#[duroxide::orchestration]
async fn importing(ctx: OrchestrationContext) -> Result<u64, String> {
    Ok(ctx.call(import, ()).retry(Retry::fixed(2, SOON)).await?)
}

#[duroxide::orchestration]
async fn limited(ctx: OrchestrationContext) -> Result<Vec<Timeout>, String> {
    let mut passed = Vec::new();
    let calls = [
        ctx.call(hang, ()).heartbeat_timeout(SOON),
        ctx.call(hang, ()).timeout(SOON),
        ctx.call(hang, ()).schedule_to_close(SOON),
        ctx.call(hang, ())
            .tag("nobody takes it")
            .queue_timeout(SOON),
    ];
    for call in calls {
        match call.await {
            Err(ActivityError::TimedOut { which }) => passed.push(which),
            other => return Err(format!("{other:?}")),
        }
    }
    Ok(passed)
}

#[tokio::test]
async fn heartbeats_reach_the_next_attempt_and_every_limit_is_kept() {
    let code = Handlers::new().register(import).register(hang);
    let world = world(code.register(importing).register(limited)).await;
    let done = world.client.start(importing, ()).await.unwrap();
    assert_eq!(done.result().await.unwrap(), 70);
    let passed = world.client.start(limited, ()).await.unwrap();
    let all = [
        Timeout::Heartbeat,
        Timeout::StartToClose,
        Timeout::ScheduleToClose,
        Timeout::Queue,
    ];
    assert_eq!(passed.result().await.unwrap(), all);
    world.stop().await;
}

static TRIED: AtomicU32 = AtomicU32::new(0);

#[duroxide::orchestration]
async fn in_place(ctx: OrchestrationContext) -> Result<(u32, u32), String> {
    let tried = ctx
        .run("flaky", || async {
            match TRIED.fetch_add(1, Ordering::SeqCst) + 1 {
                1 => Err("not at first".to_owned()),
                n => Ok(n),
            }
        })
        .retry(Retry::fixed(3, SOON))
        .await?;
    let other = if ctx.patched("a step more") {
        ctx.run("more", || async { Ok::<u32, String>(7) }).await?
    } else {
        0
    };
    ctx.sleep(SOON).await;
    Ok((tried, other))
}

#[tokio::test]
async fn effects_in_place_and_patches_are_recorded_once() {
    let world = world(Handlers::new().register(in_place)).await;
    let started = world.client.start(in_place, ()).id("i").await.unwrap();
    assert_eq!(started.result().await.unwrap(), (2, 7));
    assert_eq!(TRIED.load(Ordering::SeqCst), 2);
    let patches = world.history("i").await;
    let patches = patches.iter().filter(|event| {
        matches!(&event.kind, EventKind::ActivityScheduled { name, .. } if name.ends_with(":patched"))
    });
    assert_eq!(patches.count(), 1);
    world.stop().await;
}

#[duroxide::activity]
async fn note(notes: State<Notes>, what: String) -> Result<(), String> {
    notes.add(what);
    Ok(())
}

#[duroxide::orchestration]
async fn trip(ctx: OrchestrationContext) -> Result<(), String> {
    let saga = ctx.saga();
    let steps = async {
        for step in ["hotel", "train"] {
            ctx.call(note, step).await?;
            saga.undo(note, format!("no {step}"));
        }
        ctx.sleep(AGES).await;
        Ok::<(), String>(())
    };
    saga.run(steps).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_request_to_cancel_undoes_a_saga_in_reverse() {
    let notes = Notes::default();
    let code = Handlers::new().state(notes.clone());
    let world = world(code.register(note).register(trip)).await;
    let trip = world.client.start(trip, ()).id("trip").await.unwrap();
    let sleeps = |kind: &EventKind| matches!(kind, EventKind::TimerCreated { .. });
    world.recorded("trip", sleeps).await;
    trip.cancel("the weather").await.unwrap();
    let error = trip.result().await.unwrap_err();
    assert_eq!(error.code(), "D0912", "{error}");
    assert_eq!(notes.all(), ["hotel", "train", "no train", "no hotel"]);
    world.stop().await;
}

#[tokio::test]
async fn a_state_may_be_shared_by_programs_on_one_store() {
    let (one, other) = (Notes::default(), Notes::default());
    let code = |notes: &Notes| {
        let code = Handlers::new().state(notes.clone());
        code.register(charge).register(pay).build().unwrap()
    };
    let store = crate::support::in_memory().await;
    let mut nodes = Vec::new();
    for notes in [&one, &other] {
        let (activities, orchestrations) = code(notes);
        let store = Arc::clone(&store);
        let options = crate::support::quick();
        nodes.push(crate::support::World::on(store, activities, orchestrations, options).await);
    }
    let client = &nodes[0].client;
    for n in 0..8 {
        client
            .start(pay, "nobody")
            .id(format!("p-{n}"))
            .await
            .unwrap();
    }
    for n in 0..8 {
        let paid = client.handle(pay, format!("p-{n}")).result().await;
        assert!(paid.is_err_and(|error| error.failed().is_some()));
    }
    assert_eq!(one.all().len() + other.all().len(), 8, "each call ran once");
    for node in nodes {
        node.stop().await;
    }
}
