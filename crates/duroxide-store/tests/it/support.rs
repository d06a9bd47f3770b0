//! Messages that several tests send.

use duroxide_core::WorkItem;

/// The start of an instance that no test runs.
pub(crate) fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.into(),
        orchestration: "Hello".into(),
        input: "{}".into(),
        version: Some("1.0.0".into()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}
