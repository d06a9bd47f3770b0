//! Requests to cancel that a parent sends to its child. In: claimed messages, and what is known of the instance's
//! parent. Out: requests of the parent in plain words; those of strangers left as they are, which nothing takes for a
//! request.
//!
//! A child may have an id that its parent chose. If another instance lives under that id, the parent's start is
//! refused, but the parent may end before it gets the answer, and cancel what it takes for its child.

use duroxide_core::WorkItem;
use duroxide_core::provider::OrchestrationItem;
use duroxide_core::replay::ParentLink;
use duroxide_core::sent_by_parent;

use crate::engine::Kept;

/// Takes the sender off the requests that the parent of this instance sent.
pub(super) fn recognise(item: &mut OrchestrationItem, kept: Option<&Kept>) {
    if !item.messages.iter().any(is_stamped) {
        return;
    }
    let parent = match kept {
        Some(kept) => kept.execution.parent().map(|link| link.instance.clone()),
        // Only an instance that does not exist yet gets its parent from a start; another start comes too late.
        None if item.history.is_empty() => item.messages.iter().find_map(starting_parent),
        None => ParentLink::recorded_in(&item.history).map(|link| link.instance),
    };
    // The parent of an instance is in its history. If that cannot be read, the instance is ended rather than left
    // behind.
    let is_unknown = item.history_error.is_some();
    for message in &mut item.messages {
        if let WorkItem::CancelInstance { reason, .. } = message
            && let Some((sender, plain)) = sent_by_parent(reason)
            && (is_unknown || parent.as_deref() == Some(sender))
        {
            *reason = plain.to_owned();
        }
    }
}

fn is_stamped(message: &WorkItem) -> bool {
    match message {
        WorkItem::CancelInstance { reason, .. } => sent_by_parent(reason).is_some(),
        _ => false,
    }
}

fn starting_parent(message: &WorkItem) -> Option<String> {
    match message {
        WorkItem::StartOrchestration {
            parent_instance, ..
        } => parent_instance.clone(),
        _ => None,
    }
}
