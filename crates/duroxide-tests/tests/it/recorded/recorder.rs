//! Records a case: the real engine on the store in memory, in virtual time. The same case gives the same text each
//! time, but for what chance decides.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use duroxide::client::NewStart;
use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::providers::{Provider, ProviderError, TagFilter, WorkItem};
use duroxide::runtime::UnregisteredBackoffConfig;
use duroxide::runtime::observability::{Layer, Layered};
use duroxide::{Client, Event, OrchestrationRef, Runtime, RuntimeOptions, StartExtras};
use duroxide_core::clock::ClockRef;
use duroxide_core::rewind::RewindMessage;

use super::{Case, SECOND, Step, activities, orchestrations};

/// 2026-01-01 00:00:00 UTC.
const BEGINNING_MS: u64 = 1_767_225_600_000;
/// Longer than any case sleeps.
const AGES: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// Every instance of a case, as its list of executions. The instance that the case is about has the case's name.
pub(super) type Recording = BTreeMap<String, Vec<Vec<Event>>>;

/// Every commit of a turn takes a millisecond, so that no two turns of an instance have the same time.
struct SlowCommits;

impl Layer for SlowCommits {
    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> Result<T, ProviderError> {
        if operation == "ack_orchestration_item" {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        call.await
    }
}

fn options() -> RuntimeOptions {
    RuntimeOptions {
        dispatcher_long_poll_timeout: AGES,
        worker_tag_filter: TagFilter::default_and(["gpu"]),
        max_attempts: 2,
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: SECOND,
            max_delay: SECOND,
        },
        ..RuntimeOptions::default()
    }
}

/// Runs a case and reads what it left. Needs paused time.
pub(super) async fn record(case: &Case) -> Recording {
    let clock = TokioClock::starting_at(BEGINNING_MS);
    let store: Arc<dyn Provider> = Arc::new(MemoryProvider::with_clock(clock));
    let (client, clock): (_, ClockRef) = (Client::new(store.clone()), Arc::new(clock));
    // Everything is sent before the engine runs, to be seen at its time: what is due together is claimed together.
    begin(&client, case).await;
    let ends = send(&*store, case).await;
    let runtime = Runtime::builder()
        .with_provider(Arc::new(Layered::around(store, SlowCommits)))
        .with_activities(activities())
        .with_orchestrations(orchestrations())
        .with_options(options())
        .with_clock(clock)
        .build()
        .await
        .unwrap();
    if !case.stays_open {
        let ended = client.wait_for_orchestration(case.name, AGES).await;
        ended.unwrap_or_else(|error| panic!("{}: {error}", case.name));
    }
    // Children and detached orchestrations may still be at work.
    tokio::time::sleep(ends + SECOND).await;
    runtime.shutdown(None).await;
    read_all(&client).await
}

async fn begin(client: &Client, case: &Case) {
    if let Some(request) = case.request {
        let version = case.version.map(str::to_owned);
        let extras = StartExtras::default().with_request(request).unwrap();
        let start = NewStart {
            version,
            extras,
            ..NewStart::new(case.name, case.name, case.input)
        };
        return client.start_orchestration_with(start).await.unwrap();
    }
    let handler = OrchestrationRef::<String, String>::new(case.name);
    let start = client.start(handler, case.input).id(case.name);
    let start = match case.version {
        None => start,
        Some(version) => start.version(version),
    };
    (case.begun)(start).await.unwrap();
}

/// The request to retry the first execution.
fn rewind(from_event_id: Option<u64>) -> RewindMessage {
    RewindMessage::Rewind {
        execution_id: 1,
        from_event_id,
        failure: None,
    }
}

/// Sends what happens to the instance, each with its delay; returns when the last one is due.
async fn send(store: &dyn Provider, case: &Case) -> Duration {
    let mut due = Duration::ZERO;
    for step in case.steps {
        let instance = case.name.to_owned();
        let message = match *step {
            Step::Pass(time) => {
                due += time;
                continue;
            }
            Step::Raise(name, data) => WorkItem::ExternalRaised {
                instance,
                name: name.to_owned(),
                data: data.to_owned(),
            },
            Step::Post(queue, data) => WorkItem::QueueMessage {
                instance,
                name: queue.to_owned(),
                data: data.to_owned(),
            },
            Step::Cancel(reason) => WorkItem::CancelInstance {
                instance,
                reason: reason.to_owned(),
            },
            Step::Retry => rewind(None).to(instance),
            Step::RetryFrom(event) => rewind(Some(event)).to(instance),
            Step::Terminate(reason) => WorkItem::CancelInstance {
                instance,
                reason: format!("{}{reason}", duroxide_core::TERMINATE_PREFIX),
            },
        };
        let sent = store.enqueue_for_orchestrator(message, Some(due)).await;
        sent.unwrap();
    }
    due
}

async fn read_all(client: &Client) -> Recording {
    let mut recording = Recording::new();
    for instance in client.list_all_instances().await.unwrap() {
        let mut executions = Vec::new();
        for execution in client.list_executions(&instance).await.unwrap() {
            let history = client.read_execution_history(&instance, execution).await;
            executions.push(history.unwrap());
        }
        recording.insert(instance, executions);
    }
    recording
}

/// The text of a recording: one event per line.
pub(super) fn to_text(case: &Case, mut recording: Recording) -> String {
    let root = recording.remove(case.name).expect("the case has a root");
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    let mut text = format!(
        "{{\n  \"case\": {},\n  \"executions\": {}",
        quoted(case.name),
        executions(&root, "  ")
    );
    if !recording.is_empty() {
        text += ",\n  \"children\": {\n";
        let children: Vec<String> = recording
            .iter()
            .map(|(id, runs)| format!("    {}: {}", quoted(id), executions(runs, "    ")))
            .collect();
        text += &children.join(",\n");
        text += "\n  }";
    }
    text + "\n}\n"
}

fn executions(runs: &[Vec<Event>], indent: &str) -> String {
    let mut text = String::from("[\n");
    for (place, events) in runs.iter().enumerate() {
        let lines: Vec<String> = events
            .iter()
            .map(|event| format!("{indent}    {}", serde_json::to_string(event).unwrap()))
            .collect();
        let comma = if place + 1 < runs.len() { "," } else { "" };
        let number = place + 1;
        let lines = lines.join(",\n");
        writeln!(
            text,
            "{indent}  {{ \"execution_id\": {number}, \"events\": [\n{lines}\n{indent}  ] }}{comma}"
        )
        .unwrap();
    }
    text + indent + "]"
}
