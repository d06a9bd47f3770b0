//! What is tried too often, and what cannot be read.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::providers::{Provider, WorkItem};
use duroxide::{
    ActivityContext, ActivityOptions, ErrorDetails, EventKind, OrchestrationContext,
    PoisonMessageType, RuntimeOptions,
};

use crate::faulty;
use crate::support::{
    Notes, World, activities, details, failure, in_memory, kinds, orchestrations, output, quick,
    until,
};

/// Claims the next turn this often and gives it back each time, as a node does that cannot run it.
async fn try_in_vain(store: &dyn Provider, times: usize) {
    const WAIT: Duration = Duration::from_secs(5);
    for _ in 0..times {
        let claimed = store.fetch_orchestration_item(WAIT, WAIT, None).await;
        let (_, token, _) = claimed.unwrap().unwrap();
        let given_back = store.abandon_orchestration_item(&token, None, false);
        given_back.await.unwrap();
    }
}

fn twice() -> RuntimeOptions {
    RuntimeOptions {
        max_attempts: 2,
        ..quick()
    }
}

#[tokio::test]
async fn an_activity_nobody_registers_ends_the_orchestration_unless_it_asks_to_see_that() {
    let world = World::with_options(
        activities().build(),
        orchestrations()
            .register("plain", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity("missing", "in").await
            })
            .register("careful", |ctx: OrchestrationContext, _| async move {
                let options = ActivityOptions::new().surface_system_failures();
                let failed = ctx
                    .schedule_activity_with_options("missing", "", options)
                    .await;
                Ok(format!("compensated after {}", failed.unwrap_err()))
            })
            .build(),
        twice(),
    )
    .await;
    match details(world.run("i", "plain", "").await) {
        ErrorDetails::Poison {
            attempt_count,
            max_attempts,
            message_type,
            message,
        } => {
            assert_eq!((attempt_count, max_attempts), (3, 2));
            let expected = PoisonMessageType::Activity {
                instance: "i".into(),
                execution_id: 1,
                activity_name: "missing".into(),
                activity_id: 2,
            };
            assert_eq!(message_type, expected);
            let item: WorkItem = serde_json::from_str(&message).unwrap();
            assert!(matches!(item, WorkItem::ActivityExecute { input, .. } if input == "in"));
        }
        other => panic!("{other:?}"),
    }
    let careful = world.run("j", "careful", "").await;
    assert_eq!(
        output(&careful),
        "compensated after poison: activity missing#2 exceeded 3 attempts (max 2)"
    );
    world.stop().await;
}

#[tokio::test]
async fn an_activity_that_was_cancelled_excuses_no_attempt_of_a_later_life() {
    let notes = Notes::default();
    let noted = notes.clone();
    let slow = move |ctx: ActivityContext, _: String| {
        let notes = noted.clone();
        async move {
            notes.add("begun");
            ctx.cancelled().await;
            notes.add("cancelled");
            Ok(String::new())
        }
    };
    let calls = |ctx: OrchestrationContext, name: String| async move {
        let call = ctx.schedule_activity(&name, "");
        if name == "missing" {
            return call.await;
        }
        ctx.schedule_wait("go").await;
        drop(call);
        Ok(name)
    };
    let world = World::with_options(
        activities().register("slow", slow).build(),
        orchestrations().register("calls", calls).build(),
        twice(),
    )
    .await;
    world.begin("i", "calls", "slow").await;
    notes.wait_for("begun").await;
    world.raise("i", "go", "").await;
    world.outcome("i").await;
    notes.wait_for("cancelled").await;
    world.client.delete_instance("i", false).await.unwrap();
    // Its activity has the same number as the one before.
    let ended = details(world.run("i", "calls", "missing").await);
    let ErrorDetails::Poison { attempt_count, .. } = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(attempt_count, 3);
    world.stop().await;
}

#[tokio::test]
async fn another_node_with_the_handler_takes_what_this_one_does_not_know() {
    let store = in_memory().await;
    let patient = RuntimeOptions {
        max_attempts: 1_000,
        ..quick()
    };
    let ignorant = World::on(
        store.clone(),
        activities().build(),
        orchestrations().build(),
        patient.clone(),
    )
    .await;
    ignorant.begin("i", "o", "").await;
    until("it was tried", async || {
        ignorant
            .runtime
            .metrics_snapshot()
            .unwrap()
            .orch_dispatcher_items_fetched
            > 2
    })
    .await;
    let knowing = World::on(
        store,
        activities()
            .register("a", |_, _| async { Ok("done".to_owned()) })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity("a", "").await
            })
            .build(),
        patient,
    )
    .await;
    assert_eq!(output(&knowing.outcome("i").await), "done");
    ignorant.stop().await;
    knowing.stop().await;
}

/// What a deployment that forgot a handler leaves of an instance `c`, which has a parent, a child and an activity.
struct Forgotten {
    after: World,
    worker: World,
    notes: Notes,
}

impl Forgotten {
    async fn stop(self) {
        self.after.stop().await;
        self.worker.stop().await;
    }
}

async fn a_forgotten_handler() -> Forgotten {
    let store = in_memory().await;
    let notes = Notes::default();
    let seen = notes.clone();
    let parent = |ctx: OrchestrationContext, _: String| async move {
        let child = ctx.schedule_sub_orchestration_with_id("dies", "c", "");
        Ok(child.surface_system_failures().await.unwrap_err())
    };
    let waits =
        |ctx: OrchestrationContext, _: String| async move { Ok(ctx.schedule_wait("go").await) };
    let dies = |ctx: OrchestrationContext, _: String| async move {
        let child = ctx.schedule_sub_orchestration_with_id("waits", "grandchild", "");
        let work = ctx.schedule_activity("hangs", "");
        ctx.schedule_wait("go").await;
        ctx.join2(child, work).await.0
    };
    let hangs = activities()
        .register("hangs", move |ctx: ActivityContext, _| {
            let seen = seen.clone();
            async move {
                seen.add("runs");
                ctx.cancelled().await;
                seen.add("cancelled");
                Ok(String::new())
            }
        })
        .build();
    let all = orchestrations()
        .register("parent", parent)
        .register("waits", waits)
        .register("dies", dies);
    let turns = RuntimeOptions {
        worker_concurrency: 0,
        ..twice()
    };
    let work = RuntimeOptions {
        orchestration_concurrency: 0,
        activity_cancellation_check_interval: Duration::from_millis(20),
        ..twice()
    };
    let worker = World::on(store.clone(), hangs, orchestrations().build(), work).await;
    let before = World::on(
        store.clone(),
        activities().build(),
        all.build(),
        turns.clone(),
    )
    .await;
    before.begin("p", "parent", "").await;
    before.waits_for("grandchild", "go").await;
    notes.wait_for("runs").await;
    before.stop().await;

    // The next deployment forgot one handler.
    let rest = orchestrations()
        .register("parent", parent)
        .register("waits", waits)
        .build();
    let after = World::on(store, activities().build(), rest, turns).await;
    after.raise("c", "go", "").await;
    Forgotten {
        after,
        worker,
        notes,
    }
}

#[tokio::test]
async fn the_parent_of_a_poisoned_orchestration_hears_of_it() {
    let forgotten = a_forgotten_handler().await;
    let text = output(&forgotten.after.outcome("p").await).to_owned();
    assert_eq!(text, "poison: orchestration c exceeded 3 attempts (max 2)");
    forgotten.stop().await;
}

#[tokio::test]
async fn a_poisoned_orchestration_cancels_its_children() {
    let forgotten = a_forgotten_handler().await;
    let child = forgotten.after.outcome("grandchild").await;
    assert_eq!(failure(&child), "canceled: parent failed");
    forgotten.stop().await;
}

#[tokio::test]
async fn a_poisoned_orchestration_cancels_its_activities() {
    let forgotten = a_forgotten_handler().await;
    forgotten.notes.wait_for("cancelled").await;
    forgotten.stop().await;
}

#[tokio::test]
async fn the_history_of_a_poisoned_orchestration_ends_with_its_failure() {
    let forgotten = a_forgotten_handler().await;
    forgotten.after.outcome("p").await;
    let history = forgotten.after.history("c").await;
    let ends = history
        .last()
        .is_some_and(|e| matches!(e.kind, EventKind::OrchestrationFailed { .. }));
    assert!(ends, "{history:?}");
    forgotten.stop().await;
}

/// Takes one queue message and answers with it.
fn takes_a_message() -> duroxide::OrchestrationRegistry {
    orchestrations()
        .register("o", |ctx: OrchestrationContext, _| async move {
            Ok(ctx.dequeue_event("q").await)
        })
        .build()
}

/// A store with an instance of `takes_a_message` and a queue message that was tried twice already.
async fn with_a_bad_message() -> Arc<dyn Provider> {
    let store = in_memory().await;
    let code = takes_a_message();
    let before = World::on(store.clone(), activities().build(), code.clone(), twice()).await;
    before.begin("i", "o", "").await;
    before
        .recorded("i", |kind| {
            matches!(kind, EventKind::QueueSubscribed { .. })
        })
        .await;
    before.stop().await;

    // A message that nobody could process, again and again.
    let client = duroxide::Client::new(store.clone());
    client.enqueue_event("i", "q", "bad").await.unwrap();
    try_in_vain(&*store, 2).await;
    store
}

#[tokio::test]
async fn one_bad_message_is_dead_lettered_and_the_instance_goes_on() {
    let store = with_a_bad_message().await;
    let client = duroxide::Client::new(store.clone());
    client.enqueue_event("i", "q", "good").await.unwrap();
    let after = World::on(store, activities().build(), takes_a_message(), twice()).await;
    assert_eq!(output(&after.outcome("i").await), "good");
    let letters = after.client.list_dead_letters(10).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert!(letters[0].payload.contains("bad"), "{letters:?}");
    assert!(
        after
            .client
            .delete_dead_letter(letters[0].id)
            .await
            .unwrap()
    );
    after.stop().await;
}

#[tokio::test]
async fn a_store_that_is_away_while_a_message_is_dead_lettered_ends_no_instance() {
    let store = faulty::over(with_a_bad_message().await);
    store.layer().unavailable("dead_letter_messages", 2);
    let client = duroxide::Client::new(store.clone());
    client.enqueue_event("i", "q", "good").await.unwrap();
    let world = World::on(store, activities().build(), takes_a_message(), twice()).await;
    assert_eq!(output(&world.outcome("i").await), "good");
    world.stop().await;
}

#[tokio::test]
async fn an_instance_in_memory_that_becomes_poison_ends_once_and_tells_its_parent() {
    let store = faulty::over(in_memory().await);
    let code = orchestrations()
        .register("parent", |ctx: OrchestrationContext, _| async move {
            let child = ctx.schedule_sub_orchestration_with_id("child", "c", "");
            Ok(child.surface_system_failures().await.unwrap_err())
        })
        .register("child", |ctx: OrchestrationContext, _| async move {
            ctx.schedule_activity("nobody runs it", "").await
        })
        .build();
    let options = RuntimeOptions {
        worker_concurrency: 0,
        dispatcher_long_poll_timeout: Duration::from_millis(50),
        ..twice()
    };
    let world = World::on(store.clone(), activities().build(), code, options).await;
    world.begin("p", "parent", "").await;
    world
        .recorded("c", |kind| {
            matches!(kind, EventKind::ActivityScheduled { .. })
        })
        .await;
    // While this node cannot claim, others claim the answer and give it back, again and again.
    store.layer().unavailable("claim_turns", usize::MAX);
    let before = store.layer().calls("claim_turns");
    until("no claim waits in the store", async || {
        store.layer().calls("claim_turns") > before + 1
    })
    .await;
    let answer = WorkItem::ActivityCompleted {
        instance: "c".to_owned(),
        execution_id: 1,
        id: 2,
        result: "late".to_owned(),
    };
    store.enqueue_for_orchestrator(answer, None).await.unwrap();
    // Twice as often as it may be tried: claims of this node that failed may have been attempts, as far as it knows.
    try_in_vain(&*store, 4).await;
    store.layer().heal("claim_turns");
    let told = world.outcome("p").await;
    assert!(output(&told).starts_with("poison"), "{told:?}");
    let history = world.history("c").await;
    let ids: Vec<u64> = history.iter().map(|event| event.event_id).collect();
    assert_eq!(ids, (1..=history.len() as u64).collect::<Vec<_>>());
    assert_eq!(
        kinds(&history)
            .iter()
            .filter(|k| *k == "OrchestrationStarted")
            .count(),
        1
    );
    world.stop().await;
}

/// A store in a file that tests can damage.
async fn in_file(folder: &Path) -> (Arc<dyn Provider>, rusqlite::Connection) {
    let path = folder.join("store.db");
    let store = SqliteProvider::new(&format!("sqlite:{}", path.display()), None)
        .await
        .unwrap();
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.busy_timeout(Duration::from_secs(10)).unwrap();
    (Arc::new(store), raw)
}

#[tokio::test]
async fn a_history_that_cannot_be_read_ends_its_instance_and_its_parent_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (store, raw) = in_file(folder.path()).await;
    let options = RuntimeOptions {
        max_attempts: 1,
        sticky_instances_max: 0,
        ..quick()
    };
    let world = World::on(
        store,
        activities().build(),
        orchestrations()
            .register("waits", |ctx: OrchestrationContext, _| async move {
                Ok(ctx.schedule_wait("go").await)
            })
            .register("parent", |ctx: OrchestrationContext, _| async move {
                let child = ctx.schedule_sub_orchestration_with_id("waits", "c", "");
                Ok(child.surface_system_failures().await.unwrap_err())
            })
            .build(),
        options,
    )
    .await;
    world.begin("p", "parent", "").await;
    world.begin("healthy", "waits", "").await;
    world.waits_for("c", "go").await;
    world.waits_for("healthy", "go").await;
    raw.execute(
        "UPDATE history SET event_data = '{\"broken' WHERE instance_id = 'c' AND event_id = 2",
        [],
    )
    .unwrap();
    world.raise("c", "go", "").await;
    world.raise("healthy", "go", "fine").await;
    assert_eq!(output(&world.outcome("healthy").await), "fine");
    let text = output(&world.outcome("p").await).to_owned();
    assert!(
        text.starts_with(
            "poison: orchestration c history deserialization failed after 2 attempts (max 1): "
        ),
        "{text}"
    );
    world.stop().await;
}

#[tokio::test]
async fn a_damaged_row_in_the_worker_queue_stops_no_worker() {
    let folder = tempfile::tempdir().unwrap();
    let (store, raw) = in_file(folder.path()).await;
    // One that is no JSON, one that is no activity.
    for (id, row) in [
        (1, "garbage"),
        (
            2,
            r#"{"TimerFired":{"instance":"x","execution_id":1,"id":2,"fire_at_ms":5}}"#,
        ),
    ] {
        raw.execute(
            "INSERT INTO worker_queue (instance_id, execution_id, activity_id, work_item, visible_at, created_at)
             VALUES ('x', 1, ?1, ?2, 0, 0)",
            (id, row),
        )
        .unwrap();
    }
    let options = RuntimeOptions {
        worker_concurrency: 1,
        ..quick()
    };
    let world = World::on(
        store,
        activities()
            .register("a", |_, input| async move { Ok(input) })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                ctx.schedule_activity("a", "fine").await
            })
            .build(),
        options,
    )
    .await;
    assert_eq!(output(&world.run("i", "o", "").await), "fine");
    let client = world.client.clone();
    until("both are dead-lettered", async || {
        client.list_dead_letters(10).await.unwrap().len() == 2
    })
    .await;
    let letters = client.list_dead_letters(10).await.unwrap();
    for (said, reason) in [
        ("garbage", "does not decode"),
        ("TimerFired", "not an activity"),
    ] {
        let letter = letters.iter().find(|l| l.payload.contains(said)).unwrap();
        assert_eq!(letter.queue, "worker");
        assert!(letter.reason.contains(reason), "{letter:?}");
    }
    assert_eq!(client.get_queue_depths().await.unwrap().worker_queue, 0);
    assert_eq!(
        world.stopped().await.dead_lettered_messages,
        1,
        "by the runtime"
    );
}

#[tokio::test]
async fn a_completion_that_comes_twice_or_both_ways_is_ignored() {
    let world = World::start(
        activities()
            .register("fails", |_, _| async { Err("no".to_owned()) })
            .build(),
        orchestrations()
            .register("o", |ctx: OrchestrationContext, _| async move {
                let failed = ctx.schedule_activity("fails", "").await.unwrap_err();
                ctx.schedule_wait("go").await;
                Ok(failed)
            })
            .build(),
    )
    .await;
    world.begin("i", "o", "").await;
    world.waits_for("i", "go").await;
    let again = WorkItem::ActivityFailed {
        instance: "i".into(),
        execution_id: 1,
        id: 2,
        details: ErrorDetails::Application {
            kind: duroxide::AppErrorKind::ActivityFailed,
            message: "no".into(),
            retryable: false,
        },
    };
    let after_all = WorkItem::ActivityCompleted {
        instance: "i".into(),
        execution_id: 1,
        id: 2,
        result: "yes".into(),
    };
    let stale = WorkItem::ActivityCompleted {
        instance: "i".into(),
        execution_id: 7,
        id: 2,
        result: "stale".into(),
    };
    for item in [again.clone(), after_all, stale, again] {
        world
            .store
            .enqueue_for_orchestrator(item, None)
            .await
            .unwrap();
    }
    world.raise("i", "go", "").await;
    assert_eq!(output(&world.outcome("i").await), "no");
    world.stop().await;
}
