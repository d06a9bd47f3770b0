//! What a rewind keeps, sends and asks for anew.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{NoRewind, RewindMessage, RewindPoint, point};
use crate::event::{Event, EventKind};
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
    /// Answers, signals and queue messages of the dropped part that the next execution gets again, in order.
    pub messages: Vec<WorkItem>,
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
    let place = point::find(history, point)?;
    let (kept, dropped) = history.split_at(place);
    let (Some(first), Some(from)) = (kept.first(), dropped.first()) else {
        return Err(NoRewind::NoHistory);
    };
    let (instance, failed) = (first.instance_id.clone(), first.execution_id);
    let last_kept = kept.last().map_or(0, |event| event.event_id);
    let open = Open::of(kept);
    let comes_again = |event| message(event, &open, &instance, failed + 1);
    let messages: Vec<_> = dropped.iter().filter_map(comes_again).collect();
    let answered: HashSet<u64> = messages
        .iter()
        .filter_map(|one| one.answers().map(|(_, id)| id))
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
        messages,
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
        let mut messages = std::mem::take(&mut self.messages);
        for child in &self.children {
            match standing(child) {
                ChildStanding::Unborn => self.record.again.push(child.event_id),
                ChildStanding::Running => self.record.running.push(child.event_id),
                ChildStanding::Completed(result) => messages.push(WorkItem::SubOrchCompleted {
                    parent_instance: self.instance.clone(),
                    parent_execution_id: execution_id,
                    parent_id: child.event_id,
                    result,
                }),
                ChildStanding::Failed(execution_id) => {
                    let request = RewindMessage::Rewind {
                        execution_id,
                        from_event_id: None,
                    };
                    messages.push(request.to(&child.instance));
                }
            }
        }
        let is_old_failure = |item: &WorkItem| {
            matches!(
                item,
                WorkItem::ActivityFailed { .. } | WorkItem::SubOrchFailed { .. }
            )
        };
        let waits = |item: &WorkItem| RewindMessage::of(item).is_none() && !is_old_failure(item);
        messages.extend(waiting.into_iter().filter(waits));
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
    timers: HashMap<u64, u64>,
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
            timers: HashMap::new(),
            ids: HashSet::new(),
        };
        for event in kept.iter().filter(|one| !closed.contains(&one.event_id)) {
            let event_id = event.event_id;
            match &event.kind {
                EventKind::ActivityScheduled { name, .. } => open.work.push(Work {
                    event_id,
                    activity: Some(name.clone()),
                }),
                EventKind::TimerCreated { fire_at_ms } => {
                    open.timers.insert(event_id, *fire_at_ms);
                    open.work.push(Work {
                        event_id,
                        activity: None,
                    });
                }
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
}

/// An event of the dropped part as a message, if the kept part can take it.
fn message(event: &Event, open: &Open, instance: &str, execution_id: u64) -> Option<WorkItem> {
    let source = event.source_event_id.filter(|id| open.ids.contains(id));
    let instance = instance.to_owned();
    Some(match &event.kind {
        EventKind::ActivityCompleted { result } => WorkItem::ActivityCompleted {
            instance,
            execution_id,
            id: source?,
            result: result.clone(),
        },
        EventKind::TimerFired { .. } => {
            let id = source?;
            WorkItem::TimerFired {
                instance,
                execution_id,
                id,
                fire_at_ms: *open.timers.get(&id)?,
            }
        }
        EventKind::SubOrchestrationCompleted { result } => WorkItem::SubOrchCompleted {
            parent_instance: instance,
            parent_execution_id: execution_id,
            parent_id: source?,
            result: result.clone(),
        },
        EventKind::ExternalEvent { name, data } => WorkItem::ExternalRaised {
            instance,
            name: name.clone(),
            data: data.clone(),
        },
        EventKind::QueueEventDelivered { name, data } if !is_engine_queue(name) => {
            WorkItem::QueueMessage {
                instance,
                name: name.clone(),
                data: data.clone(),
            }
        }
        _ => return None,
    })
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
