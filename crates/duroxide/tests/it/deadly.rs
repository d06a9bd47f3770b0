//! Turns that take the process down with them. The children are this test binary itself, told by variables what to do.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityContext, ErrorDetails, OrchestrationContext, OrchestrationStatus, PoisonMessageType,
    RuntimeOptions,
};

use crate::support::{World, activities, orchestrations, quick};

const FILE: &str = "DUROXIDE_TEST_FILE";
const MOMENT: &str = "DUROXIDE_TEST_MOMENT";
const ATTEMPTS: u32 = 3;
/// Lives in which the attempts must have been used up: one that is not counted yet, and one that finds the poison.
const LIVES: u32 = ATTEMPTS + 4;

/// One life of a process that asks for the deadly orchestration, again in every life; whether it survived.
fn lives(file: &Path, moment: &str) -> bool {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "deadly::child", "--ignored"])
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
            .register("deadly", |ctx: OrchestrationContext, moment| async move {
                if moment == "after work" {
                    ctx.schedule_activity("work", "").await?;
                }
                std::process::abort()
            })
            .build(),
        options,
    )
    .await;
    // In a later life it is there already.
    let _ = world
        .client
        .start_orchestration("i", "deadly", &moment)
        .await;
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

fn is_found_poisonous(moment: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    let survived = (1..=LIVES).find(|_| lives(&file, moment));
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
