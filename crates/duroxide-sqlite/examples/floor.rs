//! Provider operations of the `hello` workload without an engine: what the store alone can do.
//!
//! `cargo run --release -p duroxide-sqlite --example floor -- [relaxed|full] [in flight] [orchestrations]`

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use duroxide_core::event::{Event, EventKind};
use duroxide_core::provider::{
    CachedHistories, CachedHistory, ClaimedTurn, ExecutionMetadata, Incarnation, Provider,
    TagFilter, TurnClaim, WorkClaim, WorkItem,
};
use duroxide_sqlite::SqliteProvider;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LEASE: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(1);

/// Pretends that every instance is held in memory after its first turn.
#[derive(Default)]
struct Sticky(Mutex<HashMap<String, Incarnation>>);

impl Sticky {
    /// Keeps what began, forgets what is about to end.
    fn note(&self, turn: &ClaimedTurn) {
        let mut lives = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match turn.incarnation.filter(|_| turn.item.history.is_empty()) {
            Some(life) if lives.get(&turn.item.instance) != Some(&life) => {
                lives.insert(turn.item.instance.clone(), life);
            }
            _ => drop(lives.remove(&turn.item.instance)),
        }
    }
}

impl CachedHistories for Sticky {
    fn cached(&self, instance: &str) -> Option<CachedHistory> {
        let lives = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lives.get(instance).map(|incarnation| CachedHistory {
            incarnation: *incarnation,
            execution_id: 1,
            last_event_id: 2,
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let durability = args.next().unwrap_or_else(|| "relaxed".to_owned());
    let in_flight: usize = args.next().map_or(Ok(64), |text| text.parse())?;
    let total: u64 = args.next().map_or(Ok(20_000), |text| text.parse())?;

    let folder = tempfile::tempdir_in(".")?;
    let path = folder.path().join("floor.db");
    let url = format!("sqlite:{}?durability={durability}", path.display());
    let store = Arc::new(SqliteProvider::new(&url, None).await?);
    let turns = tokio::spawn(run_turns(Arc::clone(&store)));
    let work = tokio::spawn(run_work(Arc::clone(&store)));

    let began = Instant::now();
    let next = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..in_flight)
        .map(|_| tokio::spawn(client(Arc::clone(&store), Arc::clone(&next), total)))
        .collect();
    let mut latencies = Vec::new();
    for client in clients {
        latencies.extend(client.await??);
    }
    let elapsed = began.elapsed();
    turns.abort();
    work.abort();
    latencies.sort_unstable();
    let at = |part: f64| latencies[((latencies.len() - 1) as f64 * part) as usize];
    println!(
        "{durability}, {in_flight} in flight: {:.0} per s, p50 {:?}, p99 {:?}",
        latencies.len() as f64 / elapsed.as_secs_f64(),
        at(0.5),
        at(0.99)
    );
    Ok(())
}

async fn client(
    store: Arc<SqliteProvider>,
    next: Arc<AtomicU64>,
    total: u64,
) -> Result<Vec<Duration>, Failure> {
    let mut latencies = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= total {
            return Ok(latencies);
        }
        let began = Instant::now();
        let instance = format!("hello-{number}");
        let mut watch = store.watch_instance(&instance).ok_or("no watch")?;
        store
            .enqueue_for_orchestrator(start(&instance), None)
            .await?;
        loop {
            watch.changed().await;
            let outcome = store.read_outcome(&instance).await?;
            if outcome.is_some_and(|outcome| {
                outcome.status != duroxide_core::provider::OutcomeStatus::Running
            }) {
                break;
            }
        }
        latencies.push(began.elapsed());
    }
}

async fn run_turns(store: Arc<SqliteProvider>) -> Result<(), Failure> {
    let sticky = Arc::new(Sticky::default());
    loop {
        let claim = TurnClaim {
            cached: Some(sticky.clone()),
            ..TurnClaim::new(64, LEASE, WAIT)
        };
        for turn in store.claim_turns(claim).await? {
            sticky.note(&turn);
            tokio::spawn(run_turn(Arc::clone(&store), turn));
        }
    }
}

async fn run_turn(store: Arc<SqliteProvider>, turn: ClaimedTurn) -> Result<(), Failure> {
    let id = turn.item.instance;
    let event = |event_id, kind| Event::with_event_id(event_id, id.as_str(), 1, None, kind);
    let first = matches!(turn.item.messages[0], WorkItem::StartOrchestration { .. });
    let (events, work, metadata) = if first {
        let events = vec![
            event(
                1,
                EventKind::OrchestrationStarted {
                    name: "Hello".to_owned(),
                    version: "1.0.0".to_owned(),
                    input: "world".to_owned(),
                    parent_instance: None,
                    parent_id: None,
                    parent_execution_id: None,
                    carry_forward_events: None,
                    initial_custom_status: None,
                },
            ),
            event(
                2,
                EventKind::ActivityScheduled {
                    name: "Greet".to_owned(),
                    input: "world".to_owned(),
                    session_id: None,
                    tag: None,
                },
            ),
        ];
        let metadata = ExecutionMetadata {
            orchestration_name: Some("Hello".to_owned()),
            orchestration_version: Some("1.0.0".to_owned()),
            pinned_duroxide_version: Some(duroxide_core::provider::current_build_version()),
            ..ExecutionMetadata::default()
        };
        (events, vec![activity(&id)], metadata)
    } else {
        let events = vec![
            event(
                3,
                EventKind::ActivityCompleted {
                    result: "hello world".to_owned(),
                },
            ),
            event(
                4,
                EventKind::OrchestrationCompleted {
                    output: "hello world".to_owned(),
                },
            ),
        ];
        let metadata = ExecutionMetadata {
            status: Some("Completed".to_owned()),
            output: Some("hello world".to_owned()),
            ..ExecutionMetadata::default()
        };
        (events, vec![], metadata)
    };
    store
        .ack_orchestration_item(&turn.lock_token, 1, events, work, vec![], metadata, vec![])
        .await?;
    Ok(())
}

async fn run_work(store: Arc<SqliteProvider>) -> Result<(), Failure> {
    loop {
        let claim = WorkClaim {
            tag_filter: TagFilter::DefaultOnly,
            ..WorkClaim::new(64, LEASE, WAIT)
        };
        for work in store.claim_work(claim).await? {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let done = WorkItem::ActivityCompleted {
                    instance: work.item.target_instance().to_owned(),
                    execution_id: 1,
                    id: 2,
                    result: "hello world".to_owned(),
                };
                store.ack_work_item(&work.lock_token, Some(done)).await
            });
        }
    }
}

fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Hello".to_owned(),
        input: "world".to_owned(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

fn activity(instance: &str) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id: 1,
        id: 2,
        name: "Greet".to_owned(),
        input: "world".to_owned(),
        session_id: None,
        tag: None,
    }
}
