//! The calls of one `hello` made on a provider, without any engine: start, claim and commit a turn, claim and complete
//! an activity, claim and commit the last turn. What a provider costs, and what the adapter adds to a store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duroxide_core::provider::{ExecutionMetadata, OrchestrationItem, Provider, TagFilter};
use duroxide_core::{Event, EventKind, WorkItem};

use crate::measure::{Latencies, Sample};
use crate::open;
use crate::report::Row;
use crate::system::Subject;
use crate::timed::Inside;

/// Names of the workloads, with the number of callers.
pub(crate) const NAMES: &[(&str, usize)] = &[("turn@1", 1), ("turn@64", 64)];
/// Turns of one `hello`.
const TURNS: u32 = 2;
const LEASE: Duration = Duration::from_secs(30);
const WAIT: Duration = Duration::from_secs(1);

/// Runs the calls for about so long. For a store with a stopwatch only the time inside the store counts.
pub(crate) async fn run(
    subject: Subject,
    name: &str,
    callers: usize,
    folder: &Path,
    time: Duration,
) -> Row {
    let (store, inside) = open::store_with_stopwatch(subject, folder).await;
    let number = Arc::new(AtomicU64::new(0));
    closed_loop(&store, &number, callers, time / 5, inside.as_ref()).await;
    let sample = Sample::begin(TURNS);
    let seen = closed_loop(&store, &number, callers, time, inside.as_ref()).await;
    let mut sample = sample.finish(Latencies::of(seen));
    if inside.is_some() {
        // A store in memory never waits, so the time inside it is processor time.
        sample.seconds = sample.latencies.total_seconds();
        sample.cpu_seconds = sample.seconds;
    }
    Row::of(subject, name, &sample, folder)
}

async fn closed_loop(
    store: &Arc<dyn Provider>,
    number: &Arc<AtomicU64>,
    callers: usize,
    time: Duration,
    inside: Option<&Inside>,
) -> Vec<f64> {
    let until = Instant::now() + time;
    let tasks = (0..callers).map(|_| {
        let (store, number) = (Arc::clone(store), Arc::clone(number));
        let inside = inside.cloned();
        tokio::spawn(async move {
            let mut seen = Vec::new();
            while Instant::now() < until {
                let id = format!("turns-{}", number.fetch_add(1, Ordering::Relaxed));
                let (began, before) = (Instant::now(), read(inside.as_ref()));
                hello(&*store, &id).await;
                seen.push(match inside {
                    Some(_) => read(inside.as_ref()) - before,
                    None => began.elapsed().as_secs_f64(),
                });
                // A store in memory never waits; without this, one caller would keep its thread to itself.
                tokio::task::yield_now().await;
            }
            seen
        })
    });
    let mut all = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        all.extend(task.await.expect("a caller"));
    }
    all
}

fn read(inside: Option<&Inside>) -> f64 {
    inside.map_or(0.0, |sum| sum.load(Ordering::Relaxed) as f64 / 1e9)
}

/// Starts one and does as much work as one takes; with many callers, whosever it is.
async fn hello(store: &dyn Provider, id: &str) {
    let start = WorkItem::StartOrchestration {
        instance: id.to_owned(),
        orchestration: "hello".into(),
        input: "\"you\"".into(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    };
    store
        .enqueue_for_orchestrator(start, None)
        .await
        .expect("start");
    turn(store).await;
    activity(store).await;
    turn(store).await;
}

async fn turn(store: &dyn Provider) {
    let (item, token) = loop {
        let claim = store.fetch_orchestration_item(LEASE, WAIT, None);
        if let Some((item, token, _)) = claim.await.expect("a claim") {
            break (item, token);
        }
    };
    let first = item.history.is_empty();
    let (events, work, metadata) = if first { begin(&item) } else { end(&item) };
    store
        .ack_orchestration_item(&token, 1, events, work, vec![], metadata, vec![])
        .await
        .expect("a commit");
}

type Decision = (Vec<Event>, Vec<WorkItem>, ExecutionMetadata);

fn begin(item: &OrchestrationItem) -> Decision {
    let event = |id, kind| Event::with_event_id(id, item.instance.as_str(), 1, None, kind);
    let started = EventKind::OrchestrationStarted {
        name: "hello".into(),
        version: "1.0.0".into(),
        input: "\"you\"".into(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    let scheduled = EventKind::ActivityScheduled {
        name: "greet".into(),
        input: "\"you\"".into(),
        session_id: None,
        tag: None,
    };
    let work = WorkItem::ActivityExecute {
        instance: item.instance.clone(),
        execution_id: 1,
        id: 2,
        name: "greet".into(),
        input: "\"you\"".into(),
        session_id: None,
        tag: None,
    };
    let metadata = ExecutionMetadata {
        orchestration_name: Some("hello".into()),
        orchestration_version: Some("1.0.0".into()),
        ..ExecutionMetadata::default()
    };
    let events = vec![event(1, started), event(2, scheduled)];
    (events, vec![work], metadata)
}

fn end(item: &OrchestrationItem) -> Decision {
    let output = String::from("\"Hello, you!\"");
    let event =
        |id, source, kind| Event::with_event_id(id, item.instance.as_str(), 1, source, kind);
    let answered = EventKind::ActivityCompleted {
        result: output.clone(),
    };
    let completed = EventKind::OrchestrationCompleted {
        output: output.clone(),
    };
    let metadata = ExecutionMetadata {
        status: Some("Completed".into()),
        output: Some(output),
        ..ExecutionMetadata::default()
    };
    let events = vec![event(3, Some(2), answered), event(4, None, completed)];
    (events, vec![], metadata)
}

async fn activity(store: &dyn Provider) {
    let (item, token) = loop {
        let claim = store.fetch_work_item(LEASE, WAIT, None, &TagFilter::DefaultOnly);
        if let Some((item, token, _)) = claim.await.expect("a claim") {
            break (item, token);
        }
    };
    let done = WorkItem::ActivityCompleted {
        instance: item.target_instance().to_owned(),
        execution_id: 1,
        id: 2,
        result: "\"Hello, you!\"".into(),
    };
    store
        .ack_work_item(&token, Some(done))
        .await
        .expect("a completion");
}
