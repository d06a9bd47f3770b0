//! The parts of a claimed activity. In: a `ClaimedActivity`. Out: its call, limits and trace, and the messages, counts
//! and spans that they make. Never runs anything.

use duroxide_core::clock::Clock;
use duroxide_core::defect::Defect;
use duroxide_core::provider::{Incarnation, ScheduledActivityIdentifier};
use duroxide_core::replay::SYSCALL_AWAIT_INSTANCE;
use duroxide_core::{AttemptLimits, CallOrigin, ErrorDetails, TraceContext, WorkItem, trace_of};

use super::claimed::ClaimedActivity;
use crate::engine::{Engine, Registered, name_of};
use crate::leases::Held;
use crate::observability::{ActivityEnd, FinishedSpan, SpanOf};

/// What a worker must know of a claimed activity to run it and to complete it.
pub(super) struct ActivityParts {
    pub(super) activity: ScheduledActivityIdentifier,
    /// The first attempt of the call, by its scheduling event.
    pub(super) first_attempt: u64,
    /// The execution that made the call: another one if that failed and was rewound.
    pub(super) call_execution: u64,
    pub(super) limits: AttemptLimits,
    pub(super) name: String,
    /// The place of the activity in the trace of its orchestration.
    pub(super) trace: Option<TraceContext>,
    /// The span of the execution that asked for it.
    pub(super) asked_by: Option<u64>,
    /// As the work item has it behind the trace; see [`AttemptLimits::of`] and [`CallOrigin::of`].
    pub(super) input: String,
    pub(super) session_id: Option<String>,
    pub(super) tag: Option<String>,
    pub(super) attempt: u32,
    pub(super) incarnation: Option<Incarnation>,
    pub(super) registered: Option<Registered>,
    pub(super) lease: Held,
}

impl ActivityParts {
    /// Takes the claim apart. Something that is not an activity has no business here.
    pub(super) fn of(claimed: ClaimedActivity) -> Result<Box<Self>, Box<(Held, WorkItem)>> {
        match claimed.item {
            WorkItem::ActivityExecute {
                instance,
                execution_id,
                id,
                name,
                input,
                session_id,
                tag,
            } => {
                let (asked, input) = match trace_of(&input) {
                    (None, rest) if rest.len() == input.len() => (None, input),
                    (asked, rest) => (asked, rest.to_owned()),
                };
                // All attempts of one item are one span.
                let trace = asked
                    .as_ref()
                    .map(|asked| asked.within(&["activity", &id.to_string()]));
                let mut origin = CallOrigin::of(AttemptLimits::of(&input).1).0;
                if Defect::KeyPerAttempt.is_on() {
                    origin = CallOrigin::default();
                }
                Ok(Box::new(Self {
                    trace,
                    asked_by: asked.map(|asked| asked.span_id()),
                    activity: ScheduledActivityIdentifier {
                        instance,
                        execution_id,
                        activity_id: id,
                    },
                    first_attempt: origin.first_attempt.unwrap_or(id),
                    call_execution: origin.execution_id.unwrap_or(execution_id),
                    limits: AttemptLimits::of(&input).0,
                    name,
                    input,
                    session_id,
                    tag,
                    attempt: claimed.attempt,
                    incarnation: claimed.incarnation,
                    registered: claimed.registered,
                    lease: claimed.lease,
                }))
            }
            other => Err(Box::new((claimed.lease, other))),
        }
    }

    /// The author's input.
    pub(super) fn own_input(&self) -> &str {
        CallOrigin::of(AttemptLimits::of(&self.input).1).1
    }

    /// The span that the activity leaves once its result is stored. What the engine asks for itself leaves none.
    pub(super) fn span(
        &self,
        engine: &Engine,
        item: &WorkItem,
        seconds: f64,
    ) -> Option<FinishedSpan> {
        engine.spans.as_ref()?;
        let context = self.trace.clone()?;
        let end_ms = engine.clock.now_ms();
        let error = match item {
            WorkItem::ActivityFailed { details, .. } => Some(details.display_message()),
            _ => None,
        };
        (self.name != SYSCALL_AWAIT_INSTANCE).then(|| FinishedSpan {
            of: SpanOf::Activity,
            context,
            parent_span_id: self.asked_by,
            name: self.name.clone(),
            instance_id: self.activity.instance.clone(),
            execution_id: self.activity.execution_id,
            event_id: Some(self.activity.activity_id),
            attempt: Some(self.attempt),
            start_ms: end_ms.saturating_sub((seconds * 1_000.0) as u64),
            end_ms,
            error,
        })
    }

    /// What names the activity among those that were tried.
    pub(super) fn key(&self) -> String {
        name_of(&self.activity, self.incarnation)
    }

    /// Whether an attempt that was cancelled is the store's fault: it was away, or it says before its time that the
    /// lease is lost. What its orchestration does not want any more is nobody's fault, and is not claimed again.
    pub(super) fn is_cancellation_excused(&self) -> bool {
        let registered = self.registered.as_ref();
        self.lease.is_store_at_fault()
            || (registered.is_some_and(Registered::is_lost) && self.lease.is_loss_excused())
    }

    pub(super) fn end(&self, outcome: &'static str, seconds: f64) -> ActivityEnd {
        ActivityEnd {
            name: self.name.clone(),
            outcome,
            attempt: self.attempt,
            tag: self.tag.clone(),
            seconds,
        }
    }

    pub(super) fn completed(&self, result: String) -> WorkItem {
        let activity = self.activity.clone();
        WorkItem::ActivityCompleted {
            instance: activity.instance,
            execution_id: activity.execution_id,
            id: activity.activity_id,
            result,
        }
    }

    pub(super) fn failed(&self, details: ErrorDetails) -> WorkItem {
        let activity = self.activity.clone();
        WorkItem::ActivityFailed {
            instance: activity.instance,
            execution_id: activity.execution_id,
            id: activity.activity_id,
            details,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::engine::{ActivityClaim, RunningActivities};
    use crate::leases::{Leased, Leases, Terms};

    #[test]
    fn an_attempt_that_its_orchestration_cancels_is_not_excused() {
        let lost = |running: &RunningActivities, activity: &ScheduledActivityIdentifier| {
            running.cancel_lost(std::slice::from_ref(&activity.instance));
        };
        let unwanted = |running: &RunningActivities, activity: &ScheduledActivityIdentifier| {
            running.cancel(activity, None);
        };
        type Cancel = fn(&RunningActivities, &ScheduledActivityIdentifier);
        for (cancel, is_excused) in [(lost as Cancel, true), (unwanted as Cancel, false)] {
            let (leases, _returns) = Leases::new();
            let running = Arc::new(RunningActivities::default());
            let activity = ScheduledActivityIdentifier {
                instance: "i".to_owned(),
                execution_id: 1,
                activity_id: 2,
            };
            let terms = Terms {
                timeout: Duration::from_secs(3_600),
                interval: Duration::from_secs(1_800),
                renew_for: None,
                heartbeat_every: Duration::ZERO,
            };
            let lease = leases.hold(Leased::Work, "i", Arc::from("i"), terms);
            let claim = ActivityClaim {
                activity: activity.clone(),
                incarnation: None,
                attempt: 1,
                since_ms: 0,
                lock_token: "i",
            };
            let registered = running.register(claim, lease.lost().clone());
            let claimed = ClaimedActivity {
                item: WorkItem::ActivityExecute {
                    instance: "i".to_owned(),
                    execution_id: 1,
                    id: 2,
                    name: "a".to_owned(),
                    input: String::new(),
                    session_id: None,
                    tag: None,
                },
                attempt: 1,
                incarnation: None,
                registered: Some(registered),
                lease,
            };
            let Ok(work) = ActivityParts::of(claimed) else {
                panic!("it is an activity");
            };
            cancel(&running, &activity);
            assert!(work.lease.lost().is_cancelled());
            assert_eq!(work.is_cancellation_excused(), is_excused);
        }
    }
}
