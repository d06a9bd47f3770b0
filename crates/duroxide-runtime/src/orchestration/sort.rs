//! Sorting the messages of one claim. In: the messages, and how the history ends. Out: what begins an execution, what
//! the execution is fed, and answers to starts that came too late. Runs no code and writes nothing.

use duroxide_core::defect::Defect;
use duroxide_core::provider::OrchestrationItem;
use duroxide_core::replay::ParentLink;
use duroxide_core::{
    ErrorDetails, Event, EventKind, StartExtras, WorkItem, carried_labels, labels_of_input,
};

/// How the history of an instance ends, and so what its next message can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HistoryEnd {
    /// It has no history.
    Unborn,
    Running,
    /// Its execution ended and asked for another one.
    BetweenExecutions,
    Ended,
}

impl HistoryEnd {
    /// Reads it off a loaded history. A failure counts even after continue-as-new: a poisoned successor that could not
    /// be written elsewhere ends there.
    pub(super) fn of(history: &[Event]) -> Self {
        let mut history_end = if history.is_empty() {
            Self::Unborn
        } else {
            Self::Running
        };
        for event in history {
            match event.kind {
                EventKind::OrchestrationCompleted { .. }
                | EventKind::OrchestrationFailed { .. } => {
                    return Self::Ended;
                }
                EventKind::OrchestrationContinuedAsNew { .. } => {
                    history_end = Self::BetweenExecutions
                }
                _ => {}
            }
        }
        history_end
    }
}

/// The beginning of an execution.
#[derive(Debug, Clone, Default)]
pub(super) struct Beginning {
    pub(super) execution_id: u64,
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) input: String,
    pub(super) parent: Option<ParentLink>,
    pub(super) carried: Vec<(String, String)>,
    pub(super) custom_status: Option<String>,
    pub(super) continues: bool,
}

impl Beginning {
    /// What the input of a start message carries, for the first execution of an instance.
    fn of_input(input: String) -> Self {
        let (extras, input) = StartExtras::of_input(input);
        let (labels, input) = labels_of_input(input);
        let carried = carried_labels(&labels).into_iter().chain(extras.carried());
        Self {
            input,
            carried: carried.collect(),
            ..Self::default()
        }
    }
}

/// The messages of one claim, sorted.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) beginning: Option<Beginning>,
    /// What the execution is fed.
    pub(super) messages: Vec<WorkItem>,
    /// Starts that came too late, as answers to the parents that asked for a child.
    pub(super) late_start_answers: Vec<WorkItem>,
}

impl Batch {
    pub(super) fn sort(
        item: &mut OrchestrationItem,
        history_end: HistoryEnd,
        parent: Option<&ParentLink>,
    ) -> Self {
        let mut batch = Self::default();
        for message in std::mem::take(&mut item.messages) {
            if Defect::CancelLost.is_on() && batch.defective_drops(&message) {
                continue;
            }
            match message {
                WorkItem::StartOrchestration { .. } => {
                    batch.start(item, history_end, parent, message)
                }
                WorkItem::ContinueAsNew { .. } => batch.continue_as_new(item, history_end, message),
                other => batch.messages.push(other),
            }
        }
        batch
    }

    fn defective_drops(&self, message: &WorkItem) -> bool {
        matches!(message, WorkItem::CancelInstance { .. }) && !self.messages.is_empty()
    }

    fn start(
        &mut self,
        item: &OrchestrationItem,
        history_end: HistoryEnd,
        parent: Option<&ParentLink>,
        message: WorkItem,
    ) {
        let WorkItem::StartOrchestration {
            instance,
            orchestration,
            input,
            version,
            parent_instance,
            parent_id,
            parent_execution_id,
            ..
        } = message
        else {
            return;
        };
        let asking = parent_instance.map(|instance| ParentLink {
            instance,
            id: parent_id.unwrap_or_default(),
            execution_id: parent_execution_id,
        });
        if history_end == HistoryEnd::Unborn && self.beginning.is_none() {
            self.beginning = Some(Beginning {
                execution_id: item.execution_id,
                name: orchestration,
                version,
                parent: asking,
                ..Beginning::of_input(input)
            });
            return;
        }
        let holder = match &self.beginning {
            Some(beginning) if history_end == HistoryEnd::Unborn => beginning.parent.as_ref(),
            _ => parent,
        };
        match asking {
            Some(asking)
                if history_end == HistoryEnd::Ended || !is_same_parent(holder, &asking) =>
            {
                if Defect::CollisionUnanswered.is_on() {
                    return;
                }
                self.late_start_answers
                    .push(late_start_answer(&instance, history_end, asking));
            }
            _ => tracing::warn!(
                target: "duroxide::runtime",
                instance_id = %instance,
                "Ignoring duplicate StartOrchestration for an existing instance"
            ),
        }
    }

    fn continue_as_new(
        &mut self,
        item: &OrchestrationItem,
        history_end: HistoryEnd,
        message: WorkItem,
    ) {
        let WorkItem::ContinueAsNew {
            instance,
            orchestration,
            input,
            version,
            parent_instance,
            parent_id,
            parent_execution_id,
            carry_forward_events,
            initial_custom_status,
        } = message
        else {
            return;
        };
        let execution_id = match history_end {
            HistoryEnd::Unborn => item.execution_id,
            HistoryEnd::BetweenExecutions => item.execution_id + 1,
            HistoryEnd::Running | HistoryEnd::Ended => {
                tracing::warn!(
                    target: "duroxide::runtime",
                    instance_id = %instance,
                    "Ignoring a continue-as-new for an execution that has begun already"
                );
                return;
            }
        };
        if self.beginning.is_some() {
            return;
        }
        self.beginning = Some(Beginning {
            execution_id,
            name: orchestration,
            version,
            input,
            parent: parent_instance.map(|instance| ParentLink {
                instance,
                id: parent_id.unwrap_or_default(),
                execution_id: parent_execution_id,
            }),
            carried: carry_forward_events,
            custom_status: initial_custom_status,
            continues: true,
        });
    }
}

fn is_same_parent(recorded: Option<&ParentLink>, asking: &ParentLink) -> bool {
    recorded.is_some_and(|recorded| {
        recorded.instance == asking.instance
            && recorded.id == asking.id
            && (recorded.execution_id.is_none()
                || asking.execution_id.is_none()
                || recorded.execution_id == asking.execution_id)
    })
}

fn late_start_answer(instance: &str, history_end: HistoryEnd, asking: ParentLink) -> WorkItem {
    let terminal = if history_end == HistoryEnd::Ended {
        " and is terminal"
    } else {
        ""
    };
    WorkItem::SubOrchFailed {
        parent_instance: asking.instance,
        parent_execution_id: asking.execution_id.unwrap_or(1),
        parent_id: asking.id,
        details: ErrorDetails::orchestration_failed(format!(
            "sub-orchestration instance id '{instance}' already exists{terminal}"
        )),
    }
}
