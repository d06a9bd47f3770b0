//! Who belongs to an instance. In: its snapshot. Out: the ids of children that it asked for and that have not answered.

use std::collections::BTreeSet;

use super::super::rules;
use super::InstanceSnapshot;
use crate::event::EventKind;
use crate::{Event, build_child_instance_id};

impl InstanceSnapshot {
    /// The children that the current execution asked for and that have not answered, by their ids: they may have begun,
    /// or lie in the queue as a start. What cannot be read asks for nothing.
    ///
    /// ```
    /// use duroxide_core::provider::InstanceSnapshot;
    /// assert!(InstanceSnapshot::of("order-7").awaited_children().is_empty());
    /// ```
    #[must_use]
    pub fn awaited_children(&self) -> BTreeSet<String> {
        let Some(current) = self.current() else {
            return BTreeSet::new();
        };
        let events: Vec<Event> = current
            .events
            .iter()
            .filter_map(|event| {
                rules::event_from_json(&self.instance_id, event.json.as_bytes()).ok()
            })
            .collect();
        let answered: BTreeSet<u64> = events
            .iter()
            .filter(|event| is_answer(&event.kind))
            .filter_map(|event| event.source_event_id)
            .collect();
        let open = events.iter().filter(|it| !answered.contains(&it.event_id));
        open.filter_map(|event| match &event.kind {
            EventKind::SubOrchestrationScheduled { instance, .. } => {
                Some(build_child_instance_id(&self.instance_id, instance))
            }
            _ => None,
        })
        .collect()
    }
}

fn is_answer(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::SubOrchestrationCompleted { .. } | EventKind::SubOrchestrationFailed { .. }
    )
}
