//! Turns that take the process down with them. The children are this test binary itself, told by variables what to do.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityContext, ErrorDetails, Event, EventKind, OrchestrationContext, OrchestrationStatus,
    PoisonMessageType, RuntimeOptions,
};
use futures::future::{Either, select};

use crate::support::{World, activities, orchestrations, quick, until};

const FILE: &str = "DUROXIDE_TEST_FILE";
const MOMENT: &str = "DUROXIDE_TEST_MOMENT";
const ATTEMPTS: u32 = 3;
/// Lives in which the attempts must have been used up: one that is not counted yet, and one that finds the poison.
const LIVES: u32 = ATTEMPTS + 4;

/// One life of a process that asks for the orchestration that ends it, again in every life; whether it survived.
fn lives(file: &Path, moment: &str) -> bool {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process_ends::child", "--ignored"])
        .env(FILE, file)
        .env(MOMENT, moment)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap()
        .success()
}

#[tokio::test]
#[ignore = "run by its parent test"]
async fn child() {
    let file = std::env::var(FILE).expect("started by a test");
    let moment = std::env::var(MOMENT).expect("started by a test");
    let store = SqliteProvider::new(&format!("sqlite:{file}"), None).await;
    let lease = Duration::from_millis(300);
    let options = RuntimeOptions {
        max_attempts: ATTEMPTS,
        orchestrator_lock_timeout: lease,
        worker_lock_timeout: lease,
        worker_lock_renewal_buffer: lease / 4,
        ..quick()
    };
    let world = World::on(
        Arc::new(store.unwrap()),
        activities()
            .register("work", |_: ActivityContext, _| async { Ok(String::new()) })
            .build(),
        orchestrations()
            .register(
                "ends-its-process",
                |ctx: OrchestrationContext, moment| async move {
                    if moment == "after work" {
                        ctx.schedule_activity("work", "").await?;
                    }
                    if moment == "while it beats" {
                        beat_until_told(&ctx).await;
                    }
                    std::process::abort()
                },
            )
            .build(),
        options,
    )
    .await;
    // In a later life it is there already.
    let _ = world
        .client
        .start_orchestration("i", "ends-its-process", &moment)
        .await;
    if moment == "while it beats" {
        let before = beats(&world).await;
        until("a beat", async || beats(&world).await > before).await;
        // The message that was tried too often is dead-lettered, and the orchestration goes on without it.
        if !world.client.list_dead_letters(9).await.unwrap().is_empty() {
            return;
        }
        world.raise("i", "stop", "").await;
    }
    match world.outcome("i").await {
        OrchestrationStatus::Failed { details, .. } => assert!(
            matches!(
                details,
                ErrorDetails::Poison {
                    message_type: PoisonMessageType::Orchestration { .. },
                    ..
                }
            ),
            "{details:?}"
        ),
        other => panic!("{other:?}"),
    }
    world.stop().await;
}

/// A timer again and again, until the event comes.
async fn beat_until_told(ctx: &OrchestrationContext) {
    let mut told = Box::pin(ctx.schedule_wait("stop"));
    loop {
        let beat = Box::pin(ctx.schedule_timer(Duration::from_millis(50)));
        match select(told, beat).await {
            Either::Left(_) => return,
            Either::Right((_, rest)) => told = rest,
        }
    }
}

async fn beats(world: &World) -> usize {
    let fired = |event: &&Event| matches!(event.kind, EventKind::TimerFired { .. });
    world.history("i").await.iter().filter(fired).count()
}

fn is_found_poisonous(moment: &str) {
    let folder = tempfile::tempdir().unwrap();
    is_found_poisonous_in(&folder.path().join("a.db"), moment);
}

fn is_found_poisonous_in(file: &Path, moment: &str) {
    let survived = (1..=LIVES).find(|_| lives(file, moment));
    let survived = survived.expect("some process lives long enough to call it poisonous");
    assert!(survived > ATTEMPTS, "it was tried as often as it may be");
}

#[test]
fn a_first_turn_that_brings_the_process_down_is_given_up_after_its_attempts() {
    is_found_poisonous("at once");
}

#[test]
fn a_later_turn_that_brings_the_process_down_is_given_up_after_its_attempts() {
    is_found_poisonous("after work");
}

#[test]
fn a_turn_that_brings_the_process_down_among_others_that_do_not_is_given_up_after_its_attempts() {
    is_found_poisonous("while it beats");
}

#[tokio::test]
async fn the_very_first_transaction_on_a_file_that_was_closed_counts_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    let closed = SqliteProvider::new(&format!("sqlite:{}", file.display()), None).await;
    drop(closed.unwrap());
    is_found_poisonous_in(&file, "at once");
}
