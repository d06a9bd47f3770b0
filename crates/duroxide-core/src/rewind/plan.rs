//! What a rewind keeps, sends and asks for anew.

use std::collections::{BTreeMap, HashSet};

use semver::Version;

use super::{FailureMark, NoRewind, RewindMessage, RewindPoint, point, signals};
use crate::arrivals::Intake;
use crate::event::{BUILD_VERSION, Event, EventKind};
use crate::ids::{INITIAL_EVENT_ID, build_child_instance_id};
use crate::label::{labels_after, recorded_change};
use crate::message::{KEYS_QUEUE, is_engine_queue};
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
    /// The failure of that execution: another life of the id may fail in the same one.
    pub failure: Option<FailureMark>,
    /// The first event that is dropped.
    pub from_event_id: u64,
    /// Number of events that are kept.
    pub kept: usize,
    /// Number of events that are dropped.
    pub dropped: usize,
    /// Number of activities and children that had succeeded, were asked for in the dropped part, and would have to be
    /// asked for again.
    pub successes_dropped: usize,
    /// Activities and timers that are asked for anew.
    pub again: Vec<RepeatedWork>,
    /// Children of the kept part of the record that have not reported a success; what becomes of each depends on how it
    /// stands.
    pub children: Vec<Child>,
    /// Answers and queue messages of the dropped part that the record of the next execution has behind the kept part,
    /// in order.
    pub arrivals: Vec<Event>,
    /// Instances that the dropped part started, as children or detached. A code that starts one of the same id again is
    /// refused.
    pub started: Vec<String>,
    /// Signals, by name and data, that the next execution carries: each reaches the first wait of its name.
    pub signals: Vec<(String, String)>,
    history: Vec<Event>,
    record: Rewound,
}

/// An activity or a timer that is asked for anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatedWork {
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
    /// It runs. The result that it reports counts.
    Running,
    /// It ended with this value, which counts.
    Completed(String),
    /// Its execution of this number failed, in this way. It is rewound too.
    Failed(u64, Option<FailureMark>),
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
    let mut arrivals: Vec<_> = dropped
        .iter()
        .filter(|it| open.takes(it))
        .cloned()
        .collect();
    for (id, event) in (last_kept + 1..).zip(&mut arrivals) {
        event.event_id = id;
    }
    let earlier = Rewound::recorded_in(&first.kind).unwrap_or_default();
    let signals = signals::carried(history, place, &earlier);
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
        failure: FailureMark::of(history),
        from_event_id: from.event_id,
        kept: kept.len(),
        dropped: dropped.len(),
        successes_dropped: successes_of(dropped, from.event_id),
        record: Rewound {
            shares: shares(&earlier, failed, last_kept),
            again: again.iter().map(|work| work.event_id).collect(),
            running: Vec::new(),
            labels: changed_labels(kept, dropped),
            deadlines: deadlines(&earlier, first),
            signals: signals.clone(),
        },
        again,
        children,
        arrivals,
        started: dropped.iter().filter_map(started).collect(),
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

    /// Whether a child that names this operation of this execution of the instance as the one that awaits it is awaited
    /// by it.
    #[must_use]
    pub fn awaits(&self, execution_id: Option<u64>, child: &Child) -> bool {
        execution_id.is_none_or(|execution_id| self.record.shares(execution_id, child.event_id))
    }

    /// The registered name of an execution that was ended before a node chose its version; `None` for any other.
    ///
    /// ```
    /// # use duroxide_core::rewind::{NoRewind, RewindPoint, plan};
    /// # fn example(history: &[duroxide_core::Event], newest: &semver::Version) -> Result<(), NoRewind> {
    /// let mut rewind = plan(history, RewindPoint::Failure)?;
    /// if rewind.wants_version().is_some() {
    ///     rewind.begin_with(newest);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn wants_version(&self) -> Option<&str> {
        match self.history.first().map(|event| &event.kind) {
            Some(EventKind::OrchestrationStarted { name, version, .. })
                if Version::parse(version).is_err() =>
            {
                Some(name)
            }
            _ => None,
        }
    }

    /// Chooses the version of an execution that has none; see [`wants_version`](Self::wants_version).
    pub fn begin_with(&mut self, chosen: &Version) {
        let first = self.history.first_mut().map(|event| &mut event.kind);
        if let Some(EventKind::OrchestrationStarted { version, .. }) = first {
            *version = chosen.to_string();
        }
    }

    /// What is to be written: the history of the next execution, and the messages that it, and children that are
    /// rewound with it, are sent. `standing` says how each of [`children`](Self::children) stands; `waiting` are
    /// messages that were claimed with the request. Successes and queue messages among these stand in the record behind
    /// what comes again; failures of the failed execution are not passed on: what they are about is asked for anew. A
    /// time limit that is not over by `now_ms` goes on; one that is begins anew.
    #[must_use]
    pub fn decided(
        mut self,
        standing: impl Fn(&Child) -> ChildStanding,
        waiting: Vec<WorkItem>,
        now_ms: u64,
    ) -> (Vec<Event>, Vec<WorkItem>) {
        let execution_id = self.execution_id();
        let mut messages = Vec::new();
        self.history.append(&mut self.arrivals);
        let passed_on = self.take_in(still_wanted(waiting), now_ms);
        for child in &self.children {
            match standing(child) {
                ChildStanding::Unborn => self.record.again.push(child.event_id),
                ChildStanding::Running => self.record.running.push(child.event_id),
                ChildStanding::Completed(result) => {
                    let kind = EventKind::SubOrchestrationCompleted { result };
                    let event = arrival(&self.history, Some(child.event_id), kind, now_ms);
                    self.history.extend(event);
                }
                ChildStanding::Failed(execution_id, failure) => {
                    let request = RewindMessage::Rewind {
                        execution_id,
                        from_event_id: None,
                        failure,
                    };
                    messages.push(request.to(&child.instance));
                }
            }
        }
        messages.extend(passed_on);
        // Also if nothing is asked for: it gives the execution its first turn. It comes last: what stands before it in
        // the queue is older than the rewind.
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

    /// Records what was claimed with the request, as far as the code would get it; returns the rest. Sent again, it
    /// would be overtaken by what was sent since.
    fn take_in(&mut self, waiting: Vec<WorkItem>, now_ms: u64) -> Vec<WorkItem> {
        let mut intake = Intake::of(&self.history);
        let mut passed_on = Vec::new();
        for item in waiting {
            // A signal counts when it comes: it is for a wait that the code has by then.
            if matches!(item, WorkItem::ExternalRaised { .. }) {
                passed_on.push(item);
                continue;
            }
            match intake.take(&item) {
                Some((source, kind)) => {
                    self.record.again.retain(|id| Some(*id) != source);
                    let event = arrival(&self.history, source, kind, now_ms);
                    self.history.extend(event);
                }
                None => passed_on.push(item),
            }
        }
        passed_on
    }
}

/// The operations that are open where a history ends.
struct Open {
    work: Vec<RepeatedWork>,
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
                EventKind::ActivityScheduled { name, .. } => open.work.push(RepeatedWork {
                    event_id,
                    activity: Some(name.clone()),
                }),
                EventKind::TimerCreated { .. } => open.work.push(RepeatedWork {
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
            // Keys that an earlier execution handed on come with what it carried.
            EventKind::QueueEventDelivered { name, .. } => {
                !is_engine_queue(name) || name == KEYS_QUEUE
            }
            _ => false,
        }
    }
}

/// The instance that an event started.
fn started(event: &Event) -> Option<String> {
    match &event.kind {
        EventKind::SubOrchestrationScheduled { instance, .. } => {
            Some(build_child_instance_id(&event.instance_id, instance))
        }
        EventKind::OrchestrationChained { instance, .. } => Some(instance.clone()),
        _ => None,
    }
}

/// The event of something that came in, behind a history.
fn arrival(
    history: &[Event],
    source_event_id: Option<u64>,
    kind: EventKind,
    now_ms: u64,
) -> Option<Event> {
    let last = history.last()?;
    Some(Event {
        event_id: last.event_id + 1,
        source_event_id,
        timestamp_ms: now_ms.max(last.timestamp_ms),
        duroxide_version: BUILD_VERSION.to_owned(),
        kind,
        ..last.clone()
    })
}

/// What was claimed with the request and is not older than the rewind: no answers of failed operations, which are asked
/// for anew, none of children, who were asked how they stand, and no request to cancel that the operator knew of.
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
fn shares(earlier: &Rewound, failed: u64, last_kept: u64) -> Vec<(u64, u64)> {
    let still = |(execution, last): &(u64, u64)| (*execution, (*last).min(last_kept));
    let mut shares = vec![(failed, last_kept)];
    shares.extend(earlier.shares.iter().map(still));
    shares
}

/// The deadlines of the failed execution and of those that it shared its beginning with.
fn deadlines(earlier: &Rewound, first: &Event) -> BTreeMap<u64, u64> {
    let mut deadlines = earlier.deadlines.clone();
    let own = StartExtras::recorded_in(&first.kind).deadline_ms;
    deadlines.extend(own.map(|deadline_ms| (first.execution_id, deadline_ms)));
    deadlines
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
    // One that was ended before its first turn has a limit and no deadline.
    extras.begin(now_ms);
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
