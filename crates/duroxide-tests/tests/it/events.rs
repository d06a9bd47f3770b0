//! Signals and queues.

use duroxide::{EventKind, OrchestrationContext};

use crate::support::{World, activities, failure, in_memory, kinds, orchestrations, output, quick};

#[tokio::test]
async fn signals_resolve_waits_of_their_name_in_the_order_of_the_waits() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let (first, second) = (ctx.schedule_wait("a"), ctx.schedule_wait("a"));
                let other = ctx.schedule_wait("b");
                // Awaited in another order than scheduled.
                let (second, first) = (second.await, first.await);
                Ok(format!("{first} {second} {}", other.await))
            })
            .build(),
    )
    .await;
    world.begin("i", "o", "").await;
    world.waits_for("i", "b").await;
    world.raise("i", "b", "B").await;
    world.raise("i", "a", "1").await;
    world.raise("i", "a", "2").await;
    assert_eq!(output(&world.outcome("i").await), "1 2 B");
    world.stop().await;
}

#[tokio::test]
async fn a_signal_before_its_wait_is_kept_in_the_history_and_delivered_to_nobody() {
    let store = in_memory().await;
    let client = duroxide::Client::new(store.clone());
    client.start_orchestration("i", "o", "").await.unwrap();
    client.raise_event("i", "go", "early").await.unwrap();
    let world = World::on(
        store,
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_wait("first").await;
                Ok(ctx.schedule_wait("go").await)
            })
            .build(),
        quick(),
    )
    .await;
    world.waits_for("i", "first").await;
    world.raise("i", "first", "").await;
    world.waits_for("i", "go").await;
    world.raise("i", "go", "late").await;
    assert_eq!(output(&world.outcome("i").await), "late");
    let early = |e: &duroxide::Event| matches!(&e.kind, EventKind::ExternalEvent { data, .. } if data == "early");
    assert!(world.history("i").await.iter().any(early));
    world.stop().await;
}

#[tokio::test]
async fn signals_that_are_claimed_together_arrive_like_signals_that_are_claimed_one_by_one() {
    let store = in_memory().await;
    let client = duroxide::Client::new(store.clone());
    client.start_orchestration("i", "o", "").await.unwrap();
    for (name, data) in [("a", "1"), ("b", "2"), ("b", "3"), ("a", "4")] {
        client.raise_event("i", name, data).await.unwrap();
    }
    let world = World::on(
        store,
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let mut got = String::new();
                for _ in 0..4 {
                    let either = [ctx.schedule_wait("a"), ctx.schedule_wait("b")];
                    got += &ctx.select(either.into()).await.1;
                }
                Ok(got)
            })
            .build(),
        quick(),
    )
    .await;
    assert_eq!(output(&world.outcome("i").await), "1234");
    world.stop().await;
}

#[tokio::test]
async fn queue_messages_wait_until_they_are_taken_in_order() {
    let store = in_memory().await;
    let client = duroxide::Client::new(store.clone());
    client.start_orchestration("i", "o", "").await.unwrap();
    for n in 0..3 {
        client.enqueue_event_typed("i", "q", &n).await.unwrap();
    }
    // The same name as a signal is another thing.
    client.raise_event("i", "q", "signal").await.unwrap();
    let world = World::on(
        store,
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let mut sum = Vec::new();
                for _ in 0..4 {
                    sum.push(ctx.dequeue_event_typed::<u32>("q").await);
                }
                Ok(format!("{sum:?}"))
            })
            .build(),
        quick(),
    )
    .await;
    #[expect(deprecated, reason = "the older name must keep working")]
    world
        .client
        .raise_event_persistent("i", "q", "3")
        .await
        .unwrap();
    assert_eq!(output(&world.outcome("i").await), "[0, 1, 2, 3]");
    world.stop().await;
}

#[tokio::test]
async fn a_backlog_of_any_size_is_drained_in_one_go() {
    const BACKLOG: usize = 300;
    let store = in_memory().await;
    let client = duroxide::Client::new(store.clone());
    client.start_orchestration("i", "drain", "").await.unwrap();
    for n in 0..BACKLOG {
        client.enqueue_event("i", "q", n.to_string()).await.unwrap();
    }
    let world = World::on(
        store,
        activities().build(),
        orchestrations()
            .register("drain", |ctx: OrchestrationContext, _| async move {
                for n in 0..BACKLOG {
                    assert_eq!(ctx.dequeue_event("q").await, n.to_string());
                }
                Ok("drained".to_owned())
            })
            .build(),
        quick(),
    )
    .await;
    assert_eq!(output(&world.outcome("i").await), "drained");
    world.stop().await;
}

#[tokio::test]
async fn a_malformed_payload_is_an_error_for_code_that_asks_for_one() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let wait = ctx.try_schedule_wait_typed::<u32>("n");
                let message = ctx.try_dequeue_event_typed::<u32>("q");
                let (n, m) = ctx.join2(wait, message).await;
                let after: u32 = ctx.schedule_wait_typed("n").await;
                Ok(format!("{} {} {after}", n.is_err(), m.is_err()))
            })
            .build(),
    )
    .await;
    world.begin("i", "o", "").await;
    world.waits_for("i", "n").await;
    world.raise("i", "n", "{not json").await;
    world.client.enqueue_event("i", "q", "[]").await.unwrap();
    let waits = |history: &[duroxide::Event]| {
        kinds(history)
            .iter()
            .filter(|k| *k == "ExternalSubscribed")
            .count()
    };
    crate::support::until("second wait", async || {
        waits(&world.history("i").await) == 2
    })
    .await;
    world.client.raise_event_typed("i", "n", &7).await.unwrap();
    assert_eq!(output(&world.outcome("i").await), "true true 7");
    world.stop().await;
}

#[tokio::test]
async fn a_malformed_payload_fails_only_the_orchestration_that_waits_for_it_typed() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                Ok(ctx.schedule_wait_typed::<u32>("n").await.to_string())
            })
            .build(),
    )
    .await;
    for id in ["bad", "good"] {
        world.begin(id, "o", "").await;
        world.waits_for(id, "n").await;
    }
    world.raise("bad", "n", "x").await;
    world.raise("good", "n", "1").await;
    let text = failure(&world.outcome("bad").await);
    assert!(
        text.starts_with("orchestration panicked: decode: "),
        "{text}"
    );
    assert_eq!(output(&world.outcome("good").await), "1");
    world.stop().await;
}

#[tokio::test]
async fn events_for_an_ended_instance_change_nothing() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("o", |_: OrchestrationContext, input: String| async move {
                Ok(input)
            })
            .build(),
    )
    .await;
    assert_eq!(output(&world.run("i", "o", "x").await), "x");
    let history = world.history("i").await;
    world.raise("i", "go", "").await;
    world.client.enqueue_event("i", "q", "").await.unwrap();
    world.cancel("i", "late").await;
    assert_eq!(output(&world.run("j", "o", "y").await), "y");
    crate::support::until("queues are empty", async || {
        world
            .client
            .get_queue_depths()
            .await
            .unwrap()
            .orchestrator_queue
            == 0
    })
    .await;
    assert_eq!(world.history("i").await, history);
    assert_eq!(output(&world.outcome("i").await), "x");
    world.stop().await;
}

#[tokio::test]
async fn a_sender_can_ask_whether_its_signal_would_be_lost() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                Ok(ctx.schedule_wait("go").await)
            })
            .build(),
    )
    .await;
    let client = &world.client;
    let early = client.raise_event_if_awaited("i", "go", "lost").await;
    assert!(!early.unwrap(), "nothing waits before the start");
    client.start_orchestration("i", "o", "").await.unwrap();
    world.waits_for("i", "go").await;
    let other = client.raise_event_if_awaited("i", "stop", "x").await;
    assert!(!other.unwrap(), "nobody waits for another name");
    assert!(
        client
            .raise_event_if_awaited("i", "go", "now")
            .await
            .unwrap()
    );
    assert_eq!(output(&world.outcome("i").await), "now");
    world.stop().await;
}
