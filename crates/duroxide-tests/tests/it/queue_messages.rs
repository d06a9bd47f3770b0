//! Queue messages of an instance that rests: they come in their order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use duroxide::providers::{Provider, ProviderError};
use duroxide::runtime::UnregisteredBackoffConfig;
use duroxide::runtime::observability::{Layer, Layered};
use duroxide::runtime::registry::OrchestrationRegistry;
use duroxide::{ActivityContext, EventKind, OrchestrationContext, RuntimeOptions};

use crate::support::{World, activities, in_memory, orchestrations, output, quick, until};

#[tokio::test]
async fn later_queue_messages_do_not_overtake_those_of_a_blocked_instance() {
    let store = in_memory().await;
    let code = |first: &'static str| {
        orchestrations()
            .register("o", move |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity(first, "").await?;
                let one = ctx.dequeue_event("q").await;
                Ok(one + &ctx.dequeue_event("q").await)
            })
            .build()
    };
    let work = |_: ActivityContext, input: String| async move { Ok(input) };
    let work = || activities().register("a", work).register("b", work).build();
    let hour = Duration::from_secs(3600);
    let blocking = || RuntimeOptions {
        on_divergence: duroxide::OnDivergence::Block,
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: hour,
            max_delay: hour,
        },
        ..quick()
    };
    let right = World::on(store.clone(), work(), code("a"), blocking()).await;
    right.begin("i", "o", "").await;
    until("it waits", async || {
        let history = right.history("i").await;
        let waits = |kind: &EventKind| matches!(kind, EventKind::QueueSubscribed { .. });
        history.iter().any(|event| waits(&event.kind))
    })
    .await;
    right.stop().await;
    let wrong = World::on(store.clone(), work(), code("b"), blocking()).await;
    let client = duroxide::Client::new(store.clone());
    client.enqueue_event("i", "q", "1").await.unwrap();
    until("it is blocked", async || {
        !wrong.runtime.blocked_instances().is_empty()
    })
    .await;
    wrong.stop().await;
    let right = World::on(store, work(), code("a"), blocking()).await;
    client.enqueue_event("i", "q", "2").await.unwrap();
    assert_eq!(output(&right.outcome("i").await), "12");
    right.stop().await;
}

/// Code that reads `messages` messages and panics on every turn that brings one while `is_broken`.
fn fragile(
    messages: usize,
    is_broken: &Arc<AtomicBool>,
    attempts: &Arc<AtomicUsize>,
) -> OrchestrationRegistry {
    let (is_broken, attempts) = (Arc::clone(is_broken), Arc::clone(attempts));
    orchestrations()
        .register("o", move |ctx: OrchestrationContext, _| {
            let (is_broken, attempts) = (Arc::clone(&is_broken), Arc::clone(&attempts));
            async move {
                let mut read = ctx.dequeue_event("q").await;
                attempts.fetch_add(1, Ordering::SeqCst);
                assert!(!is_broken.load(Ordering::SeqCst), "broken for now");
                for _ in 1..messages {
                    read += &ctx.dequeue_event("q").await;
                }
                Ok(read)
            }
        })
        .build()
}

fn trying_again_after(pause: Duration, retries: u32) -> RuntimeOptions {
    RuntimeOptions {
        orchestration_panic_retries: retries,
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: pause,
            max_delay: pause,
        },
        ..quick()
    }
}

#[tokio::test]
async fn later_queue_messages_do_not_overtake_those_of_a_turn_that_panicked() {
    let (is_broken, attempts) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let code = fragile(2, &is_broken, &attempts);
    let options = trying_again_after(Duration::from_millis(300), 3);
    let store = Arc::new(Layered::around(in_memory().await, Rests::default()));
    let world = World::on(store.clone(), activities().build(), code, options).await;
    world.begin("i", "o", "").await;
    world.client.enqueue_event("i", "q", "1").await.unwrap();
    until("it rests", async || {
        store.layer().0.load(Ordering::SeqCst) == 1
    })
    .await;
    is_broken.store(false, Ordering::SeqCst);
    world.client.enqueue_event("i", "q", "2").await.unwrap();
    assert_eq!(output(&world.outcome("i").await), "12");
    world.stop().await;
}

/// Counts turns that are given back until a message comes.
#[derive(Default)]
struct Rests(AtomicUsize);

impl Layer for Rests {
    async fn rest_orchestration_item(
        &self,
        next: &dyn Provider,
        lock_token: &str,
        rest: Duration,
        ignore_attempt: bool,
    ) -> Result<bool, ProviderError> {
        let rested = next.rest_orchestration_item(lock_token, rest, ignore_attempt);
        let rested = rested.await;
        self.0.fetch_add(1, Ordering::SeqCst);
        rested
    }
}

#[tokio::test]
async fn messages_that_come_between_two_attempts_use_up_none() {
    let (is_broken, attempts) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let code = fragile(5, &is_broken, &attempts);
    let options = trying_again_after(Duration::from_secs(2), 2);
    let store = Arc::new(Layered::around(in_memory().await, Rests::default()));
    let world = World::on(store.clone(), activities().build(), code, options).await;
    world.begin("i", "o", "").await;
    until("it waits", async || !world.history("i").await.is_empty()).await;
    for message in 1..=5 {
        let data = message.to_string();
        world.client.enqueue_event("i", "q", &data).await.unwrap();
        until("it rests again", async || {
            store.layer().0.load(Ordering::SeqCst) >= message
        })
        .await;
    }
    is_broken.store(false, Ordering::SeqCst);
    assert_eq!(output(&world.outcome("i").await), "12345");
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    world.stop().await;
}

/// Reads `left` queue messages, one per execution, each with a second turn.
async fn reader(ctx: OrchestrationContext, left: String) -> Result<String, String> {
    let left: u64 = left.parse().map_err(|_| "a number")?;
    if left == 0 {
        return Ok("read".to_owned());
    }
    let message = ctx.dequeue_event("q").await;
    ctx.schedule_activity("work", message).await?;
    ctx.continue_as_new((left - 1).to_string()).await
}

#[tokio::test]
async fn an_actor_with_an_activity_per_message_does_not_carry_its_backlog() {
    // A server takes longer for each of them.
    let is_server = std::env::var("DUROXIDE_TEST_STORE").as_deref() == Ok("postgres");
    let total: u64 = if is_server { 120 } else { 2_000 };
    let seen: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let store = in_memory().await;
    let work = {
        let seen = Arc::clone(&seen);
        move |_: ActivityContext, input: String| {
            let seen = Arc::clone(&seen);
            async move {
                seen.lock().unwrap().push(input);
                Ok(String::new())
            }
        }
    };
    let client = duroxide::Client::new(store.clone());
    client
        .start_orchestration("i", "actor", total.to_string())
        .await
        .unwrap();
    for number in 0..total / 2 {
        client
            .enqueue_event("i", "q", number.to_string())
            .await
            .unwrap();
    }
    let code = orchestrations().register("actor", reader).build();
    let world = World::on(
        store.clone(),
        activities().register("work", work).build(),
        code,
        quick(),
    )
    .await;
    for number in total / 2..total {
        client
            .enqueue_event("i", "q", number.to_string())
            .await
            .unwrap();
    }
    // A file that is synced for each of them takes longer than other tests wait.
    let patience = std::time::Duration::from_secs(120);
    let outcome = client.wait_for_orchestration("i", patience).await;
    assert_eq!(output(&outcome.unwrap()), "read");
    let expected: Vec<String> = (0..total).map(|number| number.to_string()).collect();
    assert!(*seen.lock().unwrap() == expected, "all were read, in order");
    let mut most = 0;
    for execution in 1..=total + 1 {
        let history = store.read_with_execution("i", execution).await.unwrap();
        let EventKind::OrchestrationStarted {
            carry_forward_events,
            ..
        } = &history[0].kind
        else {
            panic!("execution {execution} begins with its start");
        };
        most = most.max(carry_forward_events.as_ref().map_or(0, Vec::len));
    }
    assert!(most <= 200, "an execution began with {most} messages");
    world.stop().await;
}

#[tokio::test]
async fn code_that_waits_for_another_queue_gets_its_message_behind_many() {
    let store = in_memory().await;
    let code = |ctx: OrchestrationContext, _| async move {
        let key = ctx.dequeue_event("key").await;
        let mut read = 0;
        while ctx.dequeue_event("many").await != "last" {
            read += 1;
        }
        Ok(format!("{key} {read}"))
    };
    let code = orchestrations().register("o", code).build();
    let world = World::on(store.clone(), activities().build(), code, quick()).await;
    world.begin("i", "o", "").await;
    let client = duroxide::Client::new(store);
    for _ in 0..300 {
        client.enqueue_event("i", "many", "one").await.unwrap();
    }
    client.enqueue_event("i", "key", "found").await.unwrap();
    client.enqueue_event("i", "many", "last").await.unwrap();
    assert_eq!(output(&world.outcome("i").await), "found 300");
    world.stop().await;
}
