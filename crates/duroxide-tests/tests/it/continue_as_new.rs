//! Beginning again with a fresh history.

use std::time::Duration;

use duroxide::{EventKind, OrchestrationContext, PruneOptions};

use crate::support::{World, activities, in_memory, orchestrations, output, quick};

/// An instance that reads one of five messages in each of five executions, keeps a log and a status, and returns what
/// it sees.
async fn five_executions() -> World {
    let store = in_memory().await;
    let client = duroxide::Client::new(store.clone());
    client.start_orchestration("i", "o", "0").await.unwrap();
    for n in 0..5 {
        client.enqueue_event("i", "q", n.to_string()).await.unwrap();
    }
    let world = World::on(
        store,
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, round: String| async move {
                let message = ctx.dequeue_event("q").await;
                assert_eq!(message, round, "one message each, in order");
                let log = ctx.get_kv_value("log").unwrap_or_default();
                ctx.set_kv_value("log", format!("{log}{message}"));
                if round == "0" {
                    ctx.set_custom_status("began");
                }
                match round.parse::<u64>().unwrap() {
                    4 => Ok(format!(
                        "{:?} {:?} {}",
                        ctx.get_custom_status(),
                        ctx.get_kv_value("log"),
                        ctx.execution_id()
                    )),
                    round => ctx.continue_as_new((round + 1).to_string()).await,
                }
            })
            .build(),
        quick(),
    )
    .await;
    world.outcome("i").await;
    world
}

#[tokio::test]
async fn messages_status_and_key_values_cross_into_the_next_execution() {
    let world = five_executions().await;
    let status = world.outcome("i").await;
    assert_eq!(output(&status), "Some(\"began\") Some(\"01234\") 5");
    world.stop().await;
}

#[tokio::test]
async fn a_client_sees_the_status_that_an_earlier_execution_set() {
    let world = five_executions().await;
    let duroxide::OrchestrationStatus::Completed {
        custom_status,
        custom_status_version,
        ..
    } = world.outcome("i").await
    else {
        panic!("it completes");
    };
    assert_eq!(custom_status.as_deref(), Some("began"));
    assert_eq!(custom_status_version, 1);
    world.stop().await;
}

#[tokio::test]
async fn unread_messages_are_recorded_with_the_start_of_the_next_execution() {
    let world = five_executions().await;
    let second = world.client.read_execution_history("i", 2).await.unwrap();
    let EventKind::OrchestrationStarted {
        carry_forward_events: Some(carried),
        ..
    } = &second[0].kind
    else {
        panic!("{:?}", second[0]);
    };
    assert_eq!(carried[0], ("q".to_owned(), "1".to_owned()));
    world.stop().await;
}

#[tokio::test]
async fn executions_that_continued_can_be_listed_and_pruned() {
    let world = five_executions().await;
    let listed = world.client.list_executions("i").await.unwrap();
    assert_eq!(listed, [1, 2, 3, 4, 5]);
    let keep_two = PruneOptions {
        keep_last: Some(2),
        ..PruneOptions::default()
    };
    let pruned = world.client.prune_executions("i", keep_two).await.unwrap();
    assert_eq!(pruned.executions_deleted, 3);
    world.stop().await;
}

#[tokio::test]
async fn no_message_is_lost_around_many_continuations() {
    const MESSAGES: usize = 60;
    let world = World::start(
        activities().build(),
        orchestrations()
            .register_typed(
                "collect",
                |ctx: OrchestrationContext, mut seen: Vec<u32>| async move {
                    seen.push(ctx.dequeue_event_typed("q").await);
                    if seen.len() == MESSAGES {
                        return Ok(seen);
                    }
                    ctx.continue_as_new_typed(&seen).await?;
                    Ok(seen)
                },
            )
            .build(),
    )
    .await;
    world.begin("i", "collect", "[]").await;
    crate::support::until("it runs", async || !world.history("i").await.is_empty()).await;
    for n in 0..MESSAGES {
        world
            .client
            .enqueue_event("i", "q", n.to_string())
            .await
            .unwrap();
    }
    let expected: Vec<u32> = (0..MESSAGES as u32).collect();
    let seen: Result<Vec<u32>, String> = world
        .client
        .wait_for_orchestration_typed("i", crate::support::PATIENCE)
        .await
        .unwrap();
    assert_eq!(seen.unwrap(), expected);
    world.stop().await;
}

#[tokio::test]
async fn a_decision_to_continue_wins_over_a_returned_value_and_over_a_second_decision() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, input: String| async move {
                if input.is_empty() {
                    drop(ctx.continue_as_new("first"));
                    drop(ctx.continue_as_new("second"));
                    return Ok("value".to_owned());
                }
                Ok(input)
            })
            .build(),
    )
    .await;
    assert_eq!(output(&world.run("i", "o", "").await), "first");
    world.stop().await;
}

#[tokio::test]
async fn a_late_completion_of_an_earlier_execution_does_not_reach_the_next() {
    let world = World::start(
        activities()
            .register("slow", |ctx: duroxide::ActivityContext, _| async move {
                ctx.cancelled().await;
                Ok("late".to_owned())
            })
            .register("echo", |_, input| async move { Ok(input) })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, round: String| async move {
                let slow = ctx.schedule_activity("slow", "");
                if round == "0" {
                    ctx.schedule_timer(Duration::from_millis(20)).await;
                    return ctx.continue_as_new("1").await;
                }
                // The same event id as the slow one of the first execution.
                drop(slow);
                ctx.schedule_activity("echo", "second").await
            })
            .build(),
    )
    .await;
    assert_eq!(output(&world.run("i", "o", "0").await), "second");
    world.stop().await;
}
