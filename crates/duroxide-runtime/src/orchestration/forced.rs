//! An end without running code: poison, a cancelled instance whose code cannot run, a history that does not fit. In: a
//! claim and the reason. Out: one commit that ends the instance, cancels what is open and notifies the parent.

use duroxide_core::clock::Clock;
use duroxide_core::provider::{Incarnation, OrchestrationItem, ProviderError};
use duroxide_core::replay::{
    EndOf, ParentLink, Turn, count_turns, fail_without_replay, terminate_without_replay,
};
use duroxide_core::{
    BUILD_VERSION, ErrorDetails, Event, EventKind, INITIAL_EVENT_ID, INITIAL_EXECUTION_ID,
    REWIND_QUEUE, StartExtras, WorkItem, build_child_instance_id, is_start_queue, sent_by_parent,
    termination_reason,
};

use super::after::{AfterCommit, TurnSummary};
use super::blocked::block;
use super::claim_in_hand::ClaimInHand;
use super::commit::{Committed, commit};
use super::give_back::{INSTANCE_REST, give_back};
use super::plan::{ExecutionRef, TurnCommit, plan};
use super::rewind;
use super::sort::{Batch, Beginning, HistoryEnd};
use super::spans::Placed;
use super::turn_log::{StartedBy, TurnReport};
use crate::engine::{BlockCause, Engine};
use crate::leases::Held;

/// Event ids of a failure appended to a history that does not decode: beyond what is likely there, then beyond what can
/// be there.
const CORRUPT_HISTORY_EVENT_IDS: [u64; 2] = [99_999, 1 << 53];

/// What stands for the version of an execution that ended before any node chose one. No version reads like this.
const NO_VERSION: &str = "unknown";

/// How an execution is ended.
#[derive(Debug, Clone)]
pub(super) enum ForcedEnd {
    Fail(ErrorDetails),
    /// At once, with its children.
    Terminate(String),
}

/// What asks for an end that needs no code.
#[derive(Debug, Clone)]
pub(super) enum CancelRequest {
    /// A client, or the parent, asked to cancel.
    Cancel(String),
    /// A client, or the parent, asked to terminate.
    Terminate(String),
    /// The time of the instance is up.
    TimeIsUp(ErrorDetails),
}

impl CancelRequest {
    /// The request among these messages; one to terminate counts before one to cancel.
    pub(super) fn among(messages: &[WorkItem]) -> Option<Self> {
        let requests = messages.iter().filter_map(|message| match message {
            WorkItem::CancelInstance { reason, .. } => {
                sent_by_parent(reason).is_none().then_some(reason)
            }
            _ => None,
        });
        let mut found = None;
        for reason in requests {
            if let Some(plain) = termination_reason(reason) {
                return Some(Self::Terminate(plain.to_owned()));
            }
            found.get_or_insert(Self::Cancel(reason.clone()));
        }
        found
    }

    /// The request among these messages, or the deadline of the execution with this history.
    pub(super) fn of(history: &[Event], messages: &[WorkItem]) -> Option<Self> {
        Self::among(messages).or_else(|| {
            let first = history.first()?;
            let extras = StartExtras::recorded_in(&first.kind);
            let is_deadline = |message: &WorkItem| match message {
                WorkItem::TimerFired {
                    execution_id,
                    id: INITIAL_EVENT_ID,
                    fire_at_ms,
                    ..
                } => *execution_id == first.execution_id && extras.deadline_ms == Some(*fire_at_ms),
                _ => false,
            };
            let is_up = messages.iter().any(is_deadline);
            is_up.then(|| Self::TimeIsUp(extras.time_is_up()))
        })
    }

    /// Whether it ends the instance at once, without asking its code.
    pub(super) fn terminates(&self) -> bool {
        matches!(self, Self::Terminate(_))
    }

    /// The request among the claimed messages, if the code has not had one: code that was asked to cancel once is
    /// winding down, and asking again changes nothing. A request to terminate always counts.
    pub(super) fn unheard(item: &OrchestrationItem) -> Option<Self> {
        let asked =
            |event: &Event| matches!(event.kind, EventKind::OrchestrationCancelRequested { .. });
        let is_winding_down = item.history.iter().any(asked);
        Self::among(&item.messages).filter(|request| request.terminates() || !is_winding_down)
    }

    /// The end that was asked for, without running code.
    pub(super) fn into_end(self) -> ForcedEnd {
        match self {
            Self::Terminate(reason) => ForcedEnd::Terminate(reason),
            Self::Cancel(reason) => ForcedEnd::Fail(ErrorDetails::cancelled(reason)),
            Self::TimeIsUp(details) => ForcedEnd::Fail(details),
        }
    }
}

/// Where a failure is recorded.
pub(super) struct FailurePoint {
    pub(super) of: ExecutionRef,
    /// What must be written first if the execution never began: its start, and the messages that it carries.
    pub(super) beginning: Vec<Event>,
    /// The history the failure follows.
    pub(super) base: Vec<Event>,
    /// The history does not decode; `base` is empty.
    pub(super) undecodable: bool,
    /// Messages that were claimed with it. What the code would have got of them is recorded.
    pub(super) arrived: Vec<WorkItem>,
    /// Answers to starts that came too late, which parents wait for.
    pub(super) late_start_answers: Vec<WorkItem>,
}

/// Ends the claimed instance, wherever it stands.
pub(super) async fn end(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    mut item: OrchestrationItem,
    how: ForcedEnd,
) {
    if !claim.is_loaded {
        let history = engine
            .store
            .read_with_execution(&item.instance, item.execution_id);
        match history.await {
            Ok(history) => item.history = history,
            Err(error) => {
                tracing::warn!(target: "duroxide::runtime", instance_id = %item.instance, %error, "the history of an instance that is to be ended could not be read");
                give_back(engine, claim.lease, Some(INSTANCE_REST)).await;
                return;
            }
        }
    }
    let history_end = HistoryEnd::of(&item.history);
    if history_end == HistoryEnd::Ended {
        // Nothing can be ended any more; the messages are consumed, and starts that came too late are answered.
        let parent = ParentLink::recorded_in(&item.history);
        let answers = rewind::answers_without_rewind(&item, parent.as_ref());
        let mut to_send = Batch::sort(&mut item, history_end, parent.as_ref()).late_start_answers;
        to_send.extend(answers);
        let writes = TurnCommit::sending(item.execution_id, to_send);
        consume(engine, claim.incarnation, claim.lease, item, writes).await;
        return;
    }
    let parent = match &item.history_error {
        None => ParentLink::recorded_in(&item.history),
        Some(_) => match parent_from_store(engine, &item.instance).await {
            Ok(parent) => parent,
            Err(error) => {
                // Ended now, it would leave its parent waiting for ever.
                tracing::warn!(target: "duroxide::runtime", instance_id = %item.instance, %error, "the parent of an instance that is to be ended could not be read");
                give_back(engine, claim.lease, Some(INSTANCE_REST)).await;
                return;
            }
        },
    };
    let incarnation = claim.incarnation;
    let mut point = locate_failure(item, history_end, parent, engine.clock.now_ms());
    point.of.incarnation = incarnation;
    end_at(engine, claim, point, &how).await;
}

/// Commits a turn that only consumes its messages. If the store refuses even that, the instance is blocked: given back
/// as it is, it would be claimed and refused without a pause.
pub(super) async fn consume(
    engine: &Engine,
    incarnation: Option<Incarnation>,
    lease: Held,
    item: OrchestrationItem,
    writes: TurnCommit,
) -> Consumed {
    let of = ExecutionRef::of(item, incarnation);
    match commit(engine, of.whose(), lease, writes).await {
        Committed::Yes => Consumed::Yes,
        Committed::No | Committed::Unknown => Consumed::No,
        Committed::Refused(refused) => {
            let report = format!(
                "the store refuses to consume its messages: {}",
                refused.error
            );
            block(engine, refused.lease, &of, BlockCause::MayPass, report).await;
            Consumed::No
        }
    }
}

/// Whether messages without effect are gone from the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consumed {
    Yes,
    No,
}

/// Ends an execution at a known point.
pub(super) async fn end_at(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    point: FailurePoint,
    how: &ForcedEnd,
) {
    let of = &point.of;
    let begun = point
        .beginning
        .first()
        .map(|_| StartedBy::of(of.execution_id > INITIAL_EXECUTION_ID));
    let worker_id = claim.worker_id;
    let mut lease = claim.lease;
    let mut refusal = String::new();
    for corrupt_id in CORRUPT_HISTORY_EVENT_IDS {
        let turn = point.turn(how, corrupt_id, engine.clock.now_ms());
        let report = point.report(&turn, worker_id);
        let summary = TurnSummary::forced(&turn);
        let mut planned = plan(of, turn);
        let first = || point.first().and_then(Placed::of_first);
        let after = AfterCommit::of(engine, of, report, first, &planned.writes, summary);
        let to_send = &mut planned.writes.to_orchestrators;
        to_send.extend(point.late_start_answers.clone());
        lease = match commit(engine, of.whose(), lease, planned).await {
            Committed::Yes => return after.committed(engine, of, begun),
            Committed::No => return after.take_back(engine),
            Committed::Unknown => return,
            Committed::Refused(refused) => {
                after.take_back(engine);
                refusal = refused.error.to_string();
                refused.lease
            }
        };
        if !point.undecodable {
            break;
        }
    }
    let report = format!("the store refuses to record its end: {refusal}");
    block(engine, lease, of, BlockCause::MayPass, report).await;
}

impl FailurePoint {
    /// The end of an execution with this history, of which nothing else is to be written.
    pub(super) fn after(of: ExecutionRef, base: Vec<Event>) -> Self {
        Self {
            of,
            beginning: Vec::new(),
            base,
            undecodable: false,
            arrived: Vec::new(),
            late_start_answers: Vec::new(),
        }
    }

    /// The turn that ends the execution here.
    fn turn(&self, how: &ForcedEnd, corrupt_id: u64, now_ms: u64) -> Turn {
        let known: Vec<Event> = self.base.iter().chain(&self.beginning).cloned().collect();
        let of = EndOf {
            instance_id: &self.of.instance,
            execution_id: self.of.execution_id,
            history: &known,
            now_ms,
        };
        let arrived = self.arrived.clone();
        let mut turn = match how {
            ForcedEnd::Fail(details) => fail_without_replay(of, arrived, details.clone()),
            ForcedEnd::Terminate(reason) => terminate_without_replay(of, arrived, reason),
        };
        if self.undecodable {
            for (event, id) in turn.events.iter_mut().zip(corrupt_id..) {
                event.event_id = id;
            }
        }
        turn.events.splice(0..0, self.beginning.clone());
        turn
    }

    /// The event that the execution begins with.
    fn first(&self) -> Option<&Event> {
        self.base.first().or(self.beginning.first())
    }

    fn report<'a>(&self, turn: &Turn, worker_id: &'a str) -> TurnReport<'a> {
        let first = self.first();
        let handler = first.and_then(Event::started_handler);
        TurnReport {
            version: handler.map_or_else(|| NO_VERSION.to_owned(), |(_, version)| version),
            started_at_ms: first.map_or(0, |event| event.timestamp_ms),
            history_events: turn.events.last().map_or(0, |event| event.event_id),
            turns: count_turns(&self.base) + 1,
            worker_id,
        }
    }
}

fn locate_failure(
    mut item: OrchestrationItem,
    history_end: HistoryEnd,
    parent: Option<ParentLink>,
    now_ms: u64,
) -> FailurePoint {
    if history_end == HistoryEnd::Running || item.history_error.is_some() {
        return failure_of_a_running_one(item, parent);
    }
    let batch = Batch::sort(&mut item, history_end, parent.as_ref());
    let follows = history_end == HistoryEnd::BetweenExecutions;
    let execution_id = item.execution_id + u64::from(follows);
    let beginning = batch.beginning.unwrap_or_else(|| Beginning {
        execution_id,
        name: item.orchestration_name,
        version: None,
        input: String::new(),
        parent: None,
        carried: Vec::new(),
        custom_status: None,
        continues: follows,
    });
    let of = ExecutionRef {
        instance: item.instance,
        execution_id,
        name: beginning.name.clone(),
        parent: beginning.parent.clone().or(parent),
        incarnation: None,
    };
    FailurePoint {
        beginning: beginning_with(&start_of(&of, beginning, now_ms)),
        of,
        base: Vec::new(),
        undecodable: false,
        arrived: batch.messages,
        late_start_answers: batch.late_start_answers,
    }
}

/// An execution that has begun ends behind its last event.
fn failure_of_a_running_one(
    mut item: OrchestrationItem,
    parent: Option<ParentLink>,
) -> FailurePoint {
    let batch = Batch::sort(&mut item, HistoryEnd::Running, parent.as_ref());
    let (base, undecodable) = (
        std::mem::take(&mut item.history),
        item.history_error.is_some(),
    );
    let of = ExecutionRef {
        parent,
        ..ExecutionRef::of(item, None)
    };
    FailurePoint {
        late_start_answers: batch.late_start_answers,
        arrived: batch.messages,
        undecodable,
        ..FailurePoint::after(of, base)
    }
}

/// The first event of an execution that ends before its code runs.
fn start_of(of: &ExecutionRef, beginning: Beginning, now_ms: u64) -> Event {
    let (parent, carried) = (of.parent.as_ref(), beginning.carried);
    Event {
        event_id: INITIAL_EVENT_ID,
        source_event_id: None,
        instance_id: of.instance.clone(),
        execution_id: of.execution_id,
        timestamp_ms: now_ms,
        duroxide_version: BUILD_VERSION.to_owned(),
        kind: EventKind::OrchestrationStarted {
            name: beginning.name,
            // A retry leaves the version to the node that begins it.
            version: beginning.version.unwrap_or_else(|| NO_VERSION.to_owned()),
            input: beginning.input,
            parent_instance: parent.map(|p| p.instance.clone()),
            parent_id: parent.map(|p| p.id),
            parent_execution_id: parent.and_then(|p| p.execution_id),
            carry_forward_events: (!carried.is_empty()).then_some(carried),
            initial_custom_status: beginning.custom_status,
        },
    }
}

/// The first events of an execution: its start, and the queue messages that it carries.
pub(super) fn beginning_with(start: &Event) -> Vec<Event> {
    let carried = match &start.kind {
        EventKind::OrchestrationStarted {
            carry_forward_events: Some(carried),
            ..
        } => carried.clone(),
        _ => Vec::new(),
    };
    let is_queue_message =
        |(queue, _): &(String, String)| !is_start_queue(queue) && queue != REWIND_QUEUE;
    let messages = carried.into_iter().filter(is_queue_message);
    let mut events = vec![start.clone()];
    events.extend(
        messages
            .zip(INITIAL_EVENT_ID + 1..)
            .map(|((name, data), event_id)| Event {
                event_id,
                kind: EventKind::QueueEventDelivered { name, data },
                ..start.clone()
            }),
    );
    events
}

/// Who awaits an instance whose own history cannot be read: the store knows the parent, and the parent's history knows
/// where it scheduled the child.
async fn parent_from_store(
    engine: &Engine,
    instance: &str,
) -> Result<Option<ParentLink>, ProviderError> {
    let Some(admin) = engine.store.as_management_capability() else {
        return Ok(None);
    };
    let parent = match admin.get_parent_id(instance).await {
        Ok(Some(parent)) => parent,
        Ok(None) => return Ok(None),
        Err(error) if error.is_retryable() => return Err(error),
        // The store has no row of it, or none that can be read: no parent is known.
        Err(_) => return Ok(None),
    };
    let history = match engine.store.read(&parent).await {
        Ok(history) => history,
        Err(error) if error.is_retryable() => return Err(error),
        // The parent's history cannot be read either: where it waits is not known.
        Err(_) => return Ok(None),
    };
    let link = history.iter().rev().find_map(|event| match &event.kind {
        EventKind::SubOrchestrationScheduled {
            instance: child, ..
        } if build_child_instance_id(&parent, child) == instance => Some(ParentLink {
            instance: parent.clone(),
            id: event.event_id,
            execution_id: Some(event.execution_id.max(INITIAL_EXECUTION_ID)),
        }),
        _ => None,
    });
    Ok(link)
}
