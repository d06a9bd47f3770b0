//! One verb for every instance that a query admits: in pages, resumable, and for the life that the query saw alone.

use std::path::Path;
use std::sync::Arc;

use duroxide::client::{Applied, Progress, Verb};
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::providers::{
    CountBy, InstanceQuery, InstanceStatus, Provider, ProviderError, Submission, Submitted,
};
use duroxide::runtime::observability::{Layer, Layered};
use duroxide::{Client, OrchestrationContext, OrchestrationStatus};

use crate::support::{World, activities, in_memory, orchestrations, quick, until};

/// More than two pages.
const MANY: usize = 450;

async fn waits(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    Ok(ctx.schedule_wait("go").await)
}

async fn fails(_: OrchestrationContext, _: String) -> Result<String, String> {
    Err("no".to_owned())
}

async fn world_on(store: Arc<dyn Provider>) -> World {
    let code = orchestrations()
        .register("waits", waits)
        .register("fails", fails)
        .build();
    World::on(store, activities().build(), code, quick()).await
}

async fn stores() -> Vec<Arc<dyn Provider>> {
    vec![in_memory().await, Arc::new(MemoryProvider::new())]
}

/// Instances that wait, of this name and number.
async fn waiting(world: &World, prefix: &str, count: usize) {
    for n in 0..count {
        world.begin(format!("{prefix}-{n}"), "waits", "").await;
    }
    until("they wait", async || {
        let query = InstanceQuery::new().with_id_prefix(prefix);
        counted(world, &query).await == count as u64
    })
    .await;
}

async fn counted(world: &World, query: &InstanceQuery) -> u64 {
    let counts = world.client.count_instances(query, CountBy::Nothing).await;
    counts.unwrap()[0].count
}

fn paused() -> InstanceQuery {
    InstanceQuery::new().with_paused(true)
}

#[tokio::test]
async fn a_verb_reaches_all_that_a_query_admits_and_a_second_call_the_rest() {
    for store in stores().await {
        let world = world_on(store).await;
        waiting(&world, "many", MANY).await;
        waiting(&world, "other", 1).await;
        let many = InstanceQuery::new().with_id_prefix("many");
        let mut dry = world.client.apply(&many, Verb::Pause).dry_run();
        assert_eq!(dry.count().await.unwrap(), MANY as u64);
        let would = dry.run(|_, _| {}).await.unwrap();
        assert_eq!((would.seen, would.reached), (MANY as u64, MANY as u64));
        assert_eq!(counted(&world, &paused()).await, 0, "it was a dry run");

        // The first caller stops halfway; the second one has only the cursor.
        let mut first = world.client.apply(&many, Verb::Pause);
        for _ in 0..300 {
            let (_, became) = first.next().await.unwrap().unwrap();
            assert_eq!(became, Applied::Reached { count: 1 });
        }
        let cursor = first.cursor().cloned().unwrap();
        drop(first);
        assert_eq!(counted(&world, &paused()).await, 300);
        let rest = many.clone().after(cursor);
        let mut second = world.client.apply(&rest, Verb::Pause);
        let mut told = 0;
        let done = second.run(|_, _| told += 1).await.unwrap();
        assert_eq!((done.reached, told), (150, 150));
        assert_eq!(counted(&world, &paused()).await, MANY as u64);
        // A third one has nothing, and finds that nothing is left.
        let mut third = world.client.apply(&many, Verb::Pause);
        assert_eq!(third.run(|_, _| {}).await.unwrap().seen, 0);

        let all = InstanceQuery::new();
        let mut resumed = world.client.apply(&all, Verb::Resume);
        assert_eq!(resumed.run(|_, _| {}).await.unwrap().reached, MANY as u64);
        let reason = "enough".to_owned();
        let mut ended = world.client.apply(&many, Verb::Terminate { reason });
        assert_eq!(ended.run(|_, _| {}).await.unwrap().reached, MANY as u64);
        until("they have ended", async || {
            let running = many.clone().with_status(InstanceStatus::Running);
            counted(&world, &running).await == 0
        })
        .await;
        let other = world.client.get_orchestration_status("other-0").await;
        assert!(matches!(other, Ok(OrchestrationStatus::Running { .. })));
        world.stop().await;
    }
}

#[tokio::test]
async fn a_later_life_of_an_id_is_left_alone() {
    let reason = || "enough".to_owned();
    for store in stores().await {
        let world = world_on(store).await;
        for verb in [
            Verb::Cancel { reason: reason() },
            Verb::Terminate { reason: reason() },
            Verb::Pause,
        ] {
            waiting(&world, "i", 2).await;
            let query = InstanceQuery::new().with_id_prefix("i-");
            let mut applying = world.client.apply(&query, verb.clone());
            // The page is read; the other one dies and lives again before it is its turn.
            let (first, became) = applying.next().await.unwrap().unwrap();
            assert_eq!(became, Applied::Reached { count: 1 }, "{verb:?}");
            let other = if first.instance_id == "i-0" {
                "i-1"
            } else {
                "i-0"
            };
            world.client.delete_instance(other, true).await.unwrap();
            world.begin(other, "waits", "").await;
            world.waits_for(other, "go").await;
            let (_, became) = applying.next().await.unwrap().unwrap();
            assert_eq!(became, Applied::Unchanged, "{verb:?}");
            assert!(applying.next().await.unwrap().is_none());
            // Everything that was sent to it comes before the signal.
            world.raise(other, "go", "untouched").await;
            let ended = world.outcome(other).await;
            assert!(
                matches!(&ended, OrchestrationStatus::Completed { output, .. } if output == "untouched"),
                "{verb:?}: {ended:?}"
            );
            for id in ["i-0", "i-1"] {
                world.client.delete_instance(id, true).await.unwrap();
            }
        }
        world.stop().await;
    }
}

#[tokio::test]
async fn what_failed_is_retried_and_restarted_once() {
    for store in stores().await {
        let world = world_on(store).await;
        for n in 0..3 {
            world.run(&format!("f-{n}"), "fails", "").await;
        }
        let failed = InstanceQuery::new().with_name("fails");
        let mut retried = world.client.apply(&failed, Verb::Retry);
        assert_eq!(retried.run(|_, _| {}).await.unwrap().reached, 3);
        until("they were taken", async || {
            let query = failed.clone().with_status(InstanceStatus::Failed);
            let page = world.client.query_instances(&query).await.unwrap();
            page.items
                .iter()
                .filter(|one| one.execution_id == 2)
                .count()
                == 3
        })
        .await;
        let suffix = || "-again".to_owned();
        let restart = Verb::Restart { suffix: suffix() };
        let mut restarted = world.client.apply(&failed, restart.clone());
        assert_eq!(restarted.run(|_, _| {}).await.unwrap().reached, 3);
        for n in 0..3 {
            world.outcome(&format!("f-{n}-again")).await;
        }
        let mut again = world.client.apply(&failed, restart);
        let done = again.run(|_, _| {}).await.unwrap();
        assert_eq!((done.seen, done.reached, done.unchanged), (6, 0, 6));
        let nothing = Verb::Restart {
            suffix: String::new(),
        };
        let refused = world.client.apply(&failed, nothing).next().await;
        assert!(refused.is_err(), "all of them would be taken");
        world.stop().await;
    }
}

/// Opens a file.
async fn on_file(path: &Path) -> Arc<SqliteProvider> {
    let url = format!("sqlite:{}", path.display());
    Arc::new(SqliteProvider::new(&url, None).await.unwrap())
}

/// The store is away for a moment: the call says so, and the next one goes on with the same instance.
#[tokio::test]
async fn a_verb_goes_on_after_the_store_was_away() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("a.db"), folder.path().join("away"));
    let world = world_on(on_file(&path).await).await;
    waiting(&world, "i", 3).await;
    let query = InstanceQuery::new().with_id_prefix("i-");
    let reason = "enough".to_owned();
    let mut applying = world.client.apply(&query, Verb::Cancel { reason });
    applying.next().await.unwrap().unwrap();
    std::fs::rename(&path, &away).unwrap();
    for _ in 0..3 {
        let out_of_reach = applying.next().await.unwrap_err();
        assert!(out_of_reach.is_retryable(), "{out_of_reach}");
    }
    std::fs::rename(&away, &path).unwrap();
    assert_eq!(applying.progress().seen, 1);
    assert_eq!(applying.run(|_, _| {}).await.unwrap().reached, 3);
    for n in 0..3 {
        let ended = world.outcome(&format!("i-{n}")).await;
        assert!(matches!(ended, OrchestrationStatus::Failed { .. }));
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_can_be_read_and_not_written_has_no_instance_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let world = world_on(on_file(&path).await).await;
    waiting(&world, "i", 1).await;
    let query = InstanceQuery::new().with_id_prefix("i-");
    let reason = "enough".to_owned();
    let mut applying = world.client.apply(&query, Verb::Cancel { reason });
    // Another program holds the lock of the file: readers are not kept waiting, and no write succeeds.
    let holder = rusqlite::Connection::open(&path).unwrap();
    holder
        .busy_timeout(std::time::Duration::from_secs(10))
        .unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let busy = applying.next().await.unwrap_err();
    assert!(busy.is_retryable(), "{busy}");
    holder.execute_batch("ROLLBACK").unwrap();
    let done = applying.run(|_, _| {}).await.unwrap();
    assert_eq!((done.seen, done.reached, done.refused), (1, 1, 0));
    world.stop().await;
}

/// A store that cannot write one instance.
struct Stuck(&'static str);

impl Layer for Stuck {
    async fn submit(
        &self,
        next: &dyn Provider,
        submission: Submission,
    ) -> Result<Submitted, ProviderError> {
        if submission.instance() == self.0 {
            return Err(ProviderError::retryable("submit", "a damaged page"));
        }
        next.submit(submission).await
    }
}

#[tokio::test]
async fn an_instance_that_cannot_be_written_keeps_no_verb_from_the_others() {
    let store = Arc::new(Layered::around(in_memory().await, Stuck("i-1")));
    let world = world_on(store).await;
    waiting(&world, "i", 3).await;
    let query = InstanceQuery::new().with_id_prefix("i-");
    let reason = "enough".to_owned();
    let mut cancelled = world.client.apply(&query, Verb::Cancel { reason });
    let done = cancelled.run(|_, _| {}).await.unwrap();
    assert_eq!((done.seen, done.reached, done.refused), (3, 2, 1));
    world.stop().await;
}

/// Overwrites the page of the history of `f-1`, on which no other instance is.
fn damage_history_of_f_1(path: &Path) {
    const MARK: &str = "this row is on the page that will be damaged ";
    let row = |mark: &str| format!("{mark}{}", "x".repeat(3_600));
    let file = rusqlite::Connection::open(path).unwrap();
    for n in 0..50 {
        for between in ["f-0b", "f-1b"] {
            file.execute(
                "INSERT INTO history VALUES (?1, 1, 1, 'e', ?2, 1)",
                (format!("{between}{n}"), row("")),
            )
            .unwrap();
        }
    }
    file.execute(
        "UPDATE history SET event_data = ?1 WHERE instance_id = 'f-1' AND event_id = 1",
        [row(MARK)],
    )
    .unwrap();
    file.pragma_update(None, "journal_mode", "DELETE").unwrap();
    file.execute_batch("VACUUM").unwrap();
    drop(file);
    let mut bytes = std::fs::read(path).unwrap();
    let mut windows = bytes.windows(MARK.len());
    let at = windows.position(|window| window == MARK.as_bytes());
    let page = at.expect("a page holds the mark") / 4_096 * 4_096;
    bytes[page..page + 8].fill(0xFF);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_history_that_cannot_be_read_keeps_no_verb_from_the_instances_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = on_file(&path).await;
    let world = world_on(store.clone()).await;
    for n in 0..3 {
        world.run(&format!("f-{n}"), "fails", "").await;
    }
    world.stop().await;
    store.close().await;
    damage_history_of_f_1(&path);

    let client = Client::new(on_file(&path).await);
    let failed = InstanceQuery::new().with_name("fails");
    let suffix = "-again".to_owned();
    for verb in [Verb::Restart { suffix }, Verb::Retry] {
        let Progress {
            seen,
            reached,
            refused,
            ..
        } = client
            .apply(&failed, verb.clone())
            .run(|_, _| {})
            .await
            .unwrap();
        assert_eq!((seen, reached, refused), (3, 2, 1), "{verb:?}");
    }
}
