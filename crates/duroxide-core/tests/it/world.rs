//! A world small enough to see through: one instance, its history, and a clock that ticks once per turn.
//!
//! `turn` runs one turn and commits it. The execution stays in memory, as a dispatcher would keep it, until
//! `forget` drops it; the next turn then replays. Every commit is checked against the rules every history obeys.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use duroxide_core::provider::{KvEntry, fold_key_values};
use duroxide_core::replay::{
    Divergence, Execution, ExecutionStart, HostCall, HostRequest, Outcome, ParentLink, Progress,
    Turn, TurnLimits,
};
use duroxide_core::{
    Event, EventKind, FnOrchestration, Labels, OrchestrationContext, OrchestrationHandler,
    StartExtras, WorkItem, carried_labels,
};

use crate::history::{EPOCH_MS, INSTANCE};

/// One instance and everything a store would hold of it.
pub(crate) struct World {
    handler: Arc<dyn OrchestrationHandler>,
    start: ExecutionStart,
    /// History of the current execution.
    pub(crate) history: Vec<Event>,
    /// Histories of the executions before it.
    pub(crate) past: Vec<Vec<Event>>,
    /// How many events of the current execution were there after each of its turns.
    pub(crate) commits: Vec<usize>,
    /// Key-values at the end of the previous execution.
    pub(crate) kv: HashMap<String, KvEntry>,
    pub(crate) now_ms: u64,
    pub(crate) limits: TurnLimits,
    /// Whether questions to the host are answered within the turn.
    pub(crate) ask_host: bool,
    /// Whether completions that fit no schedule are left out.
    pub(crate) ignore_strays: bool,
    live: Option<Execution>,
}

/// A function as a handler.
pub(crate) fn handler<F, Fut>(f: F) -> Arc<dyn OrchestrationHandler>
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, String>> + Send + 'static,
{
    Arc::new(FnOrchestration(f))
}

impl World {
    /// A world whose instance runs this function.
    pub(crate) fn of<F, Fut>(f: F) -> Self
    where
        F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        Self::with_handler(handler(f))
    }

    pub(crate) fn with_handler(handler: Arc<dyn OrchestrationHandler>) -> Self {
        Self {
            handler,
            start: ExecutionStart {
                instance: INSTANCE.into(),
                execution_id: 1,
                name: "Test".into(),
                version: "1.0.0".into(),
                ..ExecutionStart::default()
            },
            history: Vec::new(),
            past: Vec::new(),
            commits: Vec::new(),
            kv: HashMap::new(),
            now_ms: EPOCH_MS,
            limits: TurnLimits::default(),
            ask_host: true,
            ignore_strays: false,
            live: None,
        }
    }

    pub(crate) fn input(mut self, input: &str) -> Self {
        self.start.input = input.into();
        self
    }

    pub(crate) fn labelled(mut self, labels: &Labels) -> Self {
        self.start.carried.extend(carried_labels(labels));
        self
    }

    pub(crate) fn with_extras(mut self, extras: &StartExtras) -> Self {
        self.start.carried.extend(extras.carried());
        self
    }

    pub(crate) fn child_of(mut self, parent: &str, id: u64) -> Self {
        self.start.parent = Some(ParentLink {
            instance: parent.into(),
            id,
            execution_id: Some(1),
        });
        self
    }

    pub(crate) fn execution_id(&self) -> u64 {
        self.start.execution_id
    }

    /// Whether the instance came to its end for good.
    pub(crate) fn is_over(&self) -> bool {
        self.history.last().is_some_and(Event::is_terminal)
    }

    /// Drops the execution from memory.
    pub(crate) fn forget(&mut self) {
        self.live = None;
    }

    /// The execution that is kept in memory.
    pub(crate) fn live(&self) -> &Execution {
        self.live.as_ref().expect("it is kept in memory")
    }

    /// Takes the execution out of memory.
    pub(crate) fn take_live(&mut self) -> Option<Execution> {
        self.live.take()
    }

    /// The code is replaced while the instance waits.
    pub(crate) fn redeploy(&mut self, handler: Arc<dyn OrchestrationHandler>) {
        self.handler = handler;
        self.forget();
    }

    /// Runs one turn and commits it.
    pub(crate) fn turn(&mut self, messages: Vec<WorkItem>) -> Turn {
        self.try_turn(messages)
            .unwrap_or_else(|divergence| panic!("diverged: {divergence}"))
    }

    /// Runs one turn; nothing is committed if replay diverges.
    pub(crate) fn try_turn(&mut self, messages: Vec<WorkItem>) -> Result<Turn, Divergence> {
        self.now_ms += 1_000;
        let mut execution = match self.live.take() {
            Some(execution) => execution,
            None => self.open()?,
        };
        if self.ignore_strays {
            execution.ignore_strays();
        }
        let turn = run_turn(
            &mut execution,
            self.now_ms,
            messages,
            &self.limits,
            self.ask_host,
        );
        self.history.extend(turn.events.iter().cloned());
        self.commits.push(self.history.len());
        assert_well_formed(&self.history);
        if self.is_over() {
            assert_nothing_left(&self.history);
        }
        if turn.outcome == Outcome::Waiting {
            assert_eq!(execution.last_event_id(), self.history.len() as u64);
            self.live = Some(execution);
        }
        self.begin_next(&turn.outcome);
        Ok(turn)
    }

    /// A turn after the execution was dropped from memory.
    pub(crate) fn replayed_turn(&mut self, messages: Vec<WorkItem>) -> Turn {
        self.forget();
        self.turn(messages)
    }

    fn open(&self) -> Result<Execution, Divergence> {
        let handler = Arc::clone(&self.handler);
        if self.history.is_empty() {
            Ok(Execution::begin(
                self.start.clone(),
                handler,
                self.kv.clone(),
                self.now_ms,
            ))
        } else {
            Execution::load(&self.history, handler, self.kv.clone())
        }
    }

    fn begin_next(&mut self, outcome: &Outcome) {
        let Outcome::ContinuedAsNew {
            input,
            carried,
            custom_status,
            ..
        } = outcome
        else {
            return;
        };
        fold_key_values(&mut self.kv, &self.history);
        self.past.push(std::mem::take(&mut self.history));
        self.commits.clear();
        self.start.execution_id += 1;
        self.start.input.clone_from(input);
        self.start.carried.clone_from(carried);
        self.start.custom_status.clone_from(custom_status);
    }

    /// Kinds of the current history, by their wire names.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        kinds(&self.history)
    }
}

/// Wire names of events.
pub(crate) fn kinds(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind.wire_name()).collect()
}

/// Drives one turn to its end, answering questions to the host on the way.
pub(crate) fn run_turn(
    execution: &mut Execution,
    now_ms: u64,
    messages: Vec<WorkItem>,
    limits: &TurnLimits,
    ask_host: bool,
) -> Turn {
    execution.start_turn(now_ms, messages);
    loop {
        match execution.advance(limits, ask_host) {
            Progress::Done(turn) => return *turn,
            Progress::NeedsHost(calls) => {
                assert!(ask_host, "a host that must not be asked was asked");
                for call in calls {
                    let answer = host_answer(&call, now_ms);
                    execution.answer_host(&call, answer);
                }
            }
        }
    }
}

/// What the host says. The answers differ from turn to turn, so a replay that asks again is noticed.
fn host_answer(call: &HostCall, now_ms: u64) -> Result<String, String> {
    match &call.request {
        HostRequest::NewGuid => Ok(format!("guid-{}-{now_ms}", call.activity_id)),
        HostRequest::UtcNowMs => Ok(now_ms.to_string()),
        HostRequest::ReadKv { instance_id, key } => Ok(format!("\"{instance_id}/{key}@{now_ms}\"")),
        HostRequest::ActivityClaimed { activity_id } => Ok((activity_id % 2 == 0).to_string()),
        HostRequest::Patched { .. } => Ok("true".to_owned()),
        HostRequest::Send { .. } => Ok("null".to_owned()),
        HostRequest::RunInPlace { name } => Ok(format!("\"{name}@{now_ms}\"")),
        HostRequest::Malformed { error } => Err(error.clone()),
    }
}

/// The rules every committed history obeys.
pub(crate) fn assert_well_formed(history: &[Event]) {
    let mut completed = HashSet::new();
    let mut cancelled = HashSet::new();
    for (place, event) in history.iter().enumerate() {
        assert_eq!(event.event_id, place as u64 + 1, "event ids are dense");
        let is_start = matches!(event.kind, EventKind::OrchestrationStarted { .. });
        assert_eq!(is_start, place == 0, "exactly one start, and it is first");
        if event.is_terminal() {
            assert_eq!(
                place + 1,
                history.len(),
                "nothing follows the terminal event"
            );
        }
        if let Some(previous) = place.checked_sub(1) {
            let earlier = history[previous].timestamp_ms;
            assert!(
                earlier <= event.timestamp_ms,
                "recorded times do not go back"
            );
        }
        let Some(wanted) = schedule_of(event) else {
            assert_eq!(event.source_event_id, None, "{event:?}");
            continue;
        };
        let source = event.source_event_id.expect("it names its schedule");
        assert!(source < event.event_id, "a schedule comes first: {event:?}");
        let schedule = &history[source as usize - 1].kind;
        // A deadline is a timer of the start.
        let is_deadline = source == 1 && wanted == "TimerCreated";
        let wanted = if is_deadline {
            "OrchestrationStarted"
        } else {
            wanted
        };
        assert_eq!(schedule.wire_name(), wanted, "{event:?}");
        let answered = if is_cancel(&event.kind) {
            assert!(
                !completed.contains(&source),
                "cancelled after its answer: {event:?}"
            );
            cancelled.insert(source)
        } else {
            completed.insert(source)
        };
        assert!(
            answered,
            "a schedule is answered or cancelled once: {event:?}"
        );
    }
}

/// An execution that is over leaves no activity and no wait behind. (A child may be forgotten on purpose.)
fn assert_nothing_left(history: &[Event]) {
    let settled: HashSet<u64> = history.iter().filter_map(|e| e.source_event_id).collect();
    for event in history {
        if let EventKind::ActivityScheduled { .. } = event.kind {
            assert!(settled.contains(&event.event_id), "left behind: {event:?}");
        }
    }
}

/// The kind of schedule that an event belongs to.
fn schedule_of(event: &Event) -> Option<&'static str> {
    match &event.kind {
        // A signal from before a rewind names its wait.
        EventKind::ExternalEvent { .. } if event.source_event_id.is_some() => {
            Some("ExternalSubscribed")
        }
        EventKind::ActivityCompleted { .. }
        | EventKind::ActivityFailed { .. }
        | EventKind::ActivityCancelRequested { .. } => Some("ActivityScheduled"),
        EventKind::TimerFired { .. } => Some("TimerCreated"),
        EventKind::SubOrchestrationCompleted { .. }
        | EventKind::SubOrchestrationFailed { .. }
        | EventKind::SubOrchestrationCancelRequested { .. } => Some("SubOrchestrationScheduled"),
        EventKind::ExternalSubscribedCancelled { .. } => Some("ExternalSubscribed"),
        EventKind::QueueSubscriptionCancelled { .. } => Some("ExternalSubscribedPersistent"),
        _ => None,
    }
}

fn is_cancel(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityCancelRequested { .. }
            | EventKind::SubOrchestrationCancelRequested { .. }
            | EventKind::ExternalSubscribedCancelled { .. }
            | EventKind::QueueSubscriptionCancelled { .. }
    )
}

/// The output of a turn that completed.
pub(crate) fn output(turn: &Turn) -> &str {
    match &turn.outcome {
        Outcome::Completed { output } => output,
        other => panic!("not completed: {other:?}"),
    }
}

/// The text of the failure that a turn ended with.
pub(crate) fn failure(turn: &Turn) -> String {
    match &turn.outcome {
        Outcome::Failed { details } => details.display_message(),
        other => panic!("not failed: {other:?}"),
    }
}
