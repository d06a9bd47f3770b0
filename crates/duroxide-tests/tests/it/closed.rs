//! A store that an operator closes under its nodes, and opens again.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::providers::{Closing, Provider};
use duroxide::{ActivityContext, Client, OrchestrationContext};

use crate::faulty::{self, Faulty};
use crate::logs::Lines;
use crate::support::{Notes, activities, orchestrations, output, quick};

const MINUTE: Duration = Duration::from_secs(60);

async fn close(store: &Arc<Faulty>, expected: Option<&str>, reason: Option<&str>) {
    let admin = store.as_management_capability().unwrap();
    let closed = admin.close_store(expected, reason).await;
    assert_eq!(closed.unwrap(), Some(Closing::Done));
}

async fn running(notes: &Notes) -> (Arc<Faulty>, Arc<duroxide::Runtime>, Client) {
    let clock = Arc::new(TokioClock::new());
    let memory: Arc<dyn Provider> = Arc::new(MemoryProvider::with_clock(*clock));
    let store = faulty::over(memory);
    let notes = notes.clone();
    let work = activities().register("work", move |ctx: ActivityContext, _: String| {
        notes.add("begun");
        async move {
            // Longer than a lease, and it says so all the time.
            for step in 0..10 {
                ctx.heartbeat(&step);
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
            Ok("done".to_owned())
        }
    });
    let works = |ctx: OrchestrationContext, input: String| async move {
        ctx.schedule_activity("work", input).await
    };
    let runtime = duroxide::DuroxideRuntime::builder()
        .with_provider(store.clone())
        .with_activities(work.build())
        .with_orchestrations(
            orchestrations()
                .register("works", works)
                .register("echo", |_: OrchestrationContext, input: String| async {
                    Ok(input)
                })
                .build(),
        )
        .with_options(quick())
        .with_clock(clock)
        .build()
        .await
        .unwrap();
    let client = Client::new(store.clone());
    (store, runtime, client)
}

#[tokio::test(start_paused = true)]
async fn a_closed_store_is_told_once_and_looked_at_now_and_then() {
    let (lines, _guard) = Lines::collect();
    let (store, runtime, client) = running(&Notes::default()).await;
    client.start_orchestration("a", "echo", "1").await.unwrap();
    client.wait_for_orchestration("a", MINUTE).await.unwrap();
    close(&store, None, Some("for the night")).await;
    // The claims that wait already come to their end first.
    tokio::time::sleep(MINUTE).await;
    let before = store.layer().calls("claim_turns");
    tokio::time::sleep(MINUTE).await;
    let asked = store.layer().calls("claim_turns") - before;
    assert!(
        (10..=30).contains(&asked),
        "asked {asked} times in a minute"
    );
    let told = |line: &&crate::logs::Line| line.message.contains("until the store is opened again");
    let all = lines.all();
    assert_eq!(all.iter().filter(told).count(), 2, "turns and activities");
    close(&store, Some("for the night"), None).await;
    client.start_orchestration("b", "echo", "2").await.unwrap();
    let ended = client.wait_for_orchestration("b", MINUTE).await.unwrap();
    assert_eq!(output(&ended), "2");
    runtime.shutdown(None).await;
}

#[tokio::test(start_paused = true)]
async fn what_runs_while_a_store_is_closed_ends_when_it_is_opened_again() {
    let notes = Notes::default();
    let (store, runtime, client) = running(&notes).await;
    client.start_orchestration("a", "works", "").await.unwrap();
    while notes.all().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    close(&store, None, Some("for an import")).await;
    // The activity ends meanwhile, and its result is kept.
    tokio::time::sleep(5 * MINUTE).await;
    close(&store, Some("for an import"), None).await;
    let ended = client.wait_for_orchestration("a", 5 * MINUTE).await;
    assert_eq!(output(&ended.unwrap()), "done");
    assert_eq!(notes.all(), ["begun"], "it ran once");
    runtime.shutdown(None).await;
}
