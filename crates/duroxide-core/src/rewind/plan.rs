//! What a rewind keeps, sends and asks for anew.

use std::collections::{BTreeMap, HashSet};

use semver::Version;

use super::{NoRewind, RewindMessage, RewindPoint, point};
use crate::event::{BUILD_VERSION, Event, EventKind};
use crate::ids::{INITIAL_EVENT_ID, build_child_instance_id};
use crate::label::{labels_after, recorded_change};
use crate::message::is_engine_queue;
use crate::rewound::{REWIND_QUEUE, Rewound};
use crate::start::{DEADLINE_MAX_MS, StartExtras};
use crate::work_item::WorkItem;

/// A rewind as it follows from the record, before anyone has looked at the children.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewind {
    /// The instance.
    pub instance: String,
    /// The execution that failed; the next one takes its place.
    pub failed_execution_id: u64,
    /// The first event that is dropped.
    pub from_event_id: u64,
    /// How many events are kept, and how many are dropped.
    pub kept: usize,
    /// See [`kept`](Self::kept).
    pub dropped: usize,
    /// How many activities and children had succeeded, were asked for in the dropped part, and would have to be asked for again.
    pub successes_dropped: usize,
    /// Activities and timers that are asked for anew.
    pub again: Vec<Work>,
    /// Children of the kept part of the record that have not told of a success; what becomes of each depends on how it stands.
    pub children: Vec<Child>,
    /// Answers and queue messages of the dropped part that the record of the next execution has behind the kept part, in order.
    pub arrivals: Vec<Event>,
    /// Signals of the dropped part, which are sent again: one counts if it is awaited when it comes.
    pub signals: Vec<WorkItem>,
    history: Vec<Event>,
    record: Rewound,
}

/// An activity or a timer that is asked for anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// Its scheduling event.
    pub event_id: u64,
    /// The activity; `None` for a timer.
    pub activity: Option<String>,
}

/// A child without a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its scheduling event.
    pub event_id: u64,
    /// Its instance.
    pub instance: String,
    /// The end of the failed execution asked it to cancel.
    pub cancelled: bool,
}

/// How a child stands at the time of the rewind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildStanding {
    /// There is none: it was never started, or is deleted. It is started.
    Unborn,
    /// It runs. What it tells in the end counts.
    Running,
    /// It ended with this value, which counts.
    Completed(String),
    /// Its execution of this number failed. It is rewound too.
    Failed(u64),
}

/// Plans the rewind of a failed execution.
///
/// ```
/// use duroxide_core::rewind::{NoRewind, RewindPoint, plan};
/// assert_eq!(plan(&[], RewindPoint::Failure), Err(NoRewind::NoHistory));
/// ```
///
/// # Errors
///
/// When there is nothing to rewind, or nothing at this point.
pub fn plan(history: &[Event], point: RewindPoint) -> Result<Rewind, NoRewind> {
    let began = history.iter().find_map(Event::started_handler);
    if began.is_some_and(|(_, version)| Version::parse(&version).is_err()) {
        return Err(NoRewind::NeverRan);
    }
    let place = point::find(history, point)?;
    let (kept, dropped) = history.split_at(place);
    let (Some(first), Some(from)) = (kept.first(), dropped.first()) else {
        return Err(NoRewind::NoHistory);
    };
    let (instance, failed) = (first.instance_id.clone(), first.execution_id);
    let last_kept = kept.last().map_or(0, |event| event.event_id);
    let open = Open::of(kept);
    let mut arrivals: Vec<_> = dropped
        .iter()
        .filter(|it| open.takes(it))
        .cloned()
        .collect();
    for (id, event) in (last_kept + 1..).zip(&mut arrivals) {
        event.event_id = id;
    }
    let signals = dropped.iter().filter_map(signal).collect();
    let answered: HashSet<u64> = arrivals
        .iter()
        .filter_map(|it| it.source_event_id)
        .collect();
    let unanswered = |id: &u64| !answered.contains(id);
    let mut again = open.work;
    again.retain(|work| unanswered(&work.event_id));
    let mut children = open.children;
    children.retain(|child| unanswered(&child.event_id));
    for child in &mut children {
        child.cancelled = dropped.iter().any(|event| {
            event.source_event_id == Some(child.event_id)
                && matches!(
                    event.kind,
                    EventKind::SubOrchestrationCancelRequested { .. }
                )
        });
    }
    Ok(Rewind {
        failed_execution_id: failed,
        from_event_id: from.event_id,
        kept: kept.len(),
        dropped: dropped.len(),
        successes_dropped: successes_of(dropped, from.event_id),
        record: Rewound {
            shares: shares(first, failed, last_kept),
            again: again.iter().map(|work| work.event_id).collect(),
            running: Vec::new(),
            labels: changed_labels(kept, dropped),
        },
        again,
        children,
        arrivals,
        signals,
        history: kept.to_vec(),
        instance,
    })
}

impl Rewind {
    /// The number of the execution that goes on.
    #[must_use]
    pub fn execution_id(&self) -> u64 {
        self.failed_execution_id + 1
    }

    /// Whether a child that names this operation of this execution of the instance as the one that awaits it is awaited by it.
    #[must_use]
    pub fn awaits(&self, execution_id: Option<u64>, child: &Child) -> bool {
        execution_id.is_none_or(|execution_id| self.record.shares(execution_id, child.event_id))
    }

    /// What is to be written: the history of the next execution, and the messages that it, and children that are rewound with it, are
    /// sent. `standing` tells how each of [`children`](Self::children) stands; `waiting` are messages that were claimed with the request.
    /// Of these, failures of the failed execution are not passed on: what they are about is asked for anew. A time limit that is not
    /// over by `now_ms` goes on; one that is begins anew.
    #[must_use]
    pub fn decided(
        mut self,
        standing: impl Fn(&Child) -> ChildStanding,
        waiting: Vec<WorkItem>,
        now_ms: u64,
    ) -> (Vec<Event>, Vec<WorkItem>) {
        let execution_id = self.execution_id();
        let mut messages = std::mem::take(&mut self.signals);
        self.history.append(&mut self.arrivals);
        for child in &self.children {
            match standing(child) {
                ChildStanding::Unborn => self.record.again.push(child.event_id),
                ChildStanding::Running => self.record.running.push(child.event_id),
                ChildStanding::Completed(result) => {
                    let event = arrival(&self.history, child.event_id, result, now_ms);
                    self.history.extend(event);
                }
                ChildStanding::Failed(execution_id) => {
                    let request = RewindMessage::Rewind {
                        execution_id,
                        from_event_id: None,
                    };
                    messages.push(request.to(&child.instance));
                }
            }
        }
        messages.extend(still_wanted(waiting));
        // Also if nothing is asked for: it gives the execution its first turn. It comes last: what stands before it in the queue is
        // older than the rewind.
        messages.push(RewindMessage::AskAgain.to(&self.instance));
        for event in &mut self.history {
            event.execution_id = execution_id;
        }
        if let Some(first) = self.history.first_mut() {
            let deadline_ms = carry(&mut first.kind, &self.record, now_ms);
            messages.extend(deadline_ms.map(|fire_at_ms| WorkItem::TimerFired {
                instance: self.instance.clone(),
                execution_id,
                id: INITIAL_EVENT_ID,
                fire_at_ms,
            }));
        }
        (self.history, messages)
    }
}

/// The operations that are open where a history ends.
struct Open {
    work: Vec<Work>,
    children: Vec<Child>,
    /// All of them.
    ids: HashSet<u64>,
}

impl Open {
    fn of(kept: &[Event]) -> Self {
        let closed: HashSet<u64> = kept
            .iter()
            .filter_map(|event| event.source_event_id)
            .collect();
        let mut open = Self {
            work: Vec::new(),
            children: Vec::new(),
            ids: HashSet::new(),
        };
        for event in kept.iter().filter(|one| !closed.contains(&one.event_id)) {
            let event_id = event.event_id;
            match &event.kind {
                EventKind::ActivityScheduled { name, .. } => open.work.push(Work {
                    event_id,
                    activity: Some(name.clone()),
                }),
                EventKind::TimerCreated { .. } => open.work.push(Work {
                    event_id,
                    activity: None,
                }),
                EventKind::SubOrchestrationScheduled { instance, .. } => {
                    open.children.push(Child {
                        event_id,
                        instance: build_child_instance_id(&event.instance_id, instance),
                        cancelled: false,
                    })
                }
                _ => continue,
            }
            open.ids.insert(event_id);
        }
        open
    }

    /// Whether an event of the dropped part is an answer to one of them, or a queue message.
    fn takes(&self, event: &Event) -> bool {
        let answers = || {
            event
                .source_event_id
                .is_some_and(|id| self.ids.contains(&id))
        };
        match &event.kind {
            EventKind::ActivityCompleted { .. }
            | EventKind::TimerFired { .. }
            | EventKind::SubOrchestrationCompleted { .. } => answers(),
            EventKind::QueueEventDelivered { name, .. } => !is_engine_queue(name),
            _ => false,
        }
    }
}

/// A signal of the dropped part as a message.
fn signal(event: &Event) -> Option<WorkItem> {
    match &event.kind {
        EventKind::ExternalEvent { name, data } => Some(WorkItem::ExternalRaised {
            instance: event.instance_id.clone(),
            name: name.clone(),
            data: data.clone(),
        }),
        _ => None,
    }
}

/// The event that a child completed, behind a history.
fn arrival(history: &[Event], child: u64, result: String, now_ms: u64) -> Option<Event> {
    let last = history.last()?;
    Some(Event {
        event_id: last.event_id + 1,
        source_event_id: Some(child),
        timestamp_ms: now_ms.max(last.timestamp_ms),
        duroxide_version: BUILD_VERSION.to_owned(),
        kind: EventKind::SubOrchestrationCompleted { result },
        ..last.clone()
    })
}

/// What was claimed with the request and is not older than the rewind: no answers of failed operations, which are asked for anew, none
/// of children, who were asked how they stand, and no request to cancel that the operator knew of.
fn still_wanted(waiting: Vec<WorkItem>) -> Vec<WorkItem> {
    let is_rewind = |item: &WorkItem| RewindMessage::of(item).is_some();
    let request = waiting.iter().position(is_rewind).unwrap_or(0);
    let waiting = waiting.into_iter().enumerate();
    waiting
        .filter(|(place, item)| match item {
            WorkItem::ActivityFailed { .. }
            | WorkItem::SubOrchFailed { .. }
            | WorkItem::SubOrchCompleted { .. } => false,
            WorkItem::CancelInstance { .. } => *place > request,
            other => !is_rewind(other),
        })
        .map(|(_, item)| item)
        .collect()
}

fn successes_of(dropped: &[Event], from_event_id: u64) -> usize {
    let is_lost = |event: &&Event| {
        point::is_success(event) && event.source_event_id.is_some_and(|id| id >= from_event_id)
    };
    dropped.iter().filter(is_lost).count()
}

/// The failed execution and those that it shared its beginning with.
fn shares(first: &Event, failed: u64, last_kept: u64) -> Vec<(u64, u64)> {
    let earlier = Rewound::recorded_in(&first.kind).unwrap_or_default();
    let still = |(execution, last): (u64, u64)| (execution, last.min(last_kept));
    let mut shares = vec![(failed, last_kept)];
    shares.extend(earlier.shares.into_iter().map(still));
    shares
}

/// The labels that the dropped part changed, as the kept part left them.
fn changed_labels(kept: &[Event], dropped: &[Event]) -> BTreeMap<String, Option<String>> {
    let before = labels_after(kept);
    let changes = dropped
        .iter()
        .filter_map(|event| recorded_change(&event.kind));
    changes
        .map(|change| {
            let value = before.get(&change.key).cloned();
            (change.key, value)
        })
        .collect()
}

/// Writes into the first event what the execution is; returns when its time is up, if it has a time limit.
fn carry(started: &mut EventKind, record: &Rewound, now_ms: u64) -> Option<u64> {
    let EventKind::OrchestrationStarted {
        carry_forward_events,
        ..
    } = started
    else {
        return None;
    };
    let carried = carry_forward_events.get_or_insert_default();
    carried.retain(|(queue, _)| queue != REWIND_QUEUE);
    let mut extras = StartExtras::take_from(carried);
    if extras
        .deadline_ms
        .is_some_and(|deadline| deadline <= now_ms)
    {
        let again = |timeout_ms: u64| now_ms.saturating_add(timeout_ms).min(DEADLINE_MAX_MS);
        extras.deadline_ms = extras.timeout_ms.map(again);
    }
    carried.extend(extras.carried());
    carried.push((REWIND_QUEUE.to_owned(), record.written()));
    extras.deadline_ms
}
