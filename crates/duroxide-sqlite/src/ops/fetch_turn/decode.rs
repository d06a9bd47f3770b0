//! From stored rows to turns. In: a claimed turn as the transaction left it. Out: the turn as the contract hands it
//! out. Runs in the caller's task.

use std::collections::HashMap;

use duroxide_core::event::Event;
use duroxide_core::provider::{ClaimedTurn, OrchestrationItem, TurnHistory, WorkItem};

use super::{RawHistory, RawTurn};
use crate::codec;
use crate::error::SqliteError;
use crate::tables::instances::Handler;

/// The turn as the contract hands it out, and the messages that did not decode with the reason.
pub(crate) fn decode(raw: RawTurn) -> (ClaimedTurn, Vec<(i64, String)>) {
    let mut messages = Vec::with_capacity(raw.messages.len());
    let mut message_attempts = Vec::with_capacity(raw.messages.len());
    let mut broken = Vec::new();
    for message in raw.messages {
        match codec::decode_work_item(&message.json) {
            Ok(item) => {
                messages.push(item);
                message_attempts.push(message.attempts);
            }
            Err(reason) => broken.push((message.id, reason)),
        }
    }
    let (events, kv_snapshot, history) = match raw.history {
        RawHistory::Unchanged(held) => {
            (Ok(Vec::new()), HashMap::new(), TurnHistory::Unchanged(held))
        }
        RawHistory::Damaged(error) => (Err(error), HashMap::new(), TurnHistory::Loaded),
        // Its caller gives back what could not be read.
        RawHistory::Large(_) => (
            Err(SqliteError::Interrupted),
            HashMap::new(),
            TurnHistory::Loaded,
        ),
        RawHistory::Loaded { events, kv } => (
            codec::decode_events(&raw.instance, &events),
            kv,
            TurnHistory::Loaded,
        ),
    };
    let (events, history_error) = match events {
        Ok(events) => (events, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let (orchestration_name, version) = name(raw.handler, &events, &messages);
    let turn = ClaimedTurn {
        attempt_count: message_attempts.iter().copied().max().unwrap_or(0),
        item: OrchestrationItem {
            instance: raw.instance,
            orchestration_name,
            execution_id: raw.execution_id,
            version,
            history: events,
            messages,
            history_error,
            kv_snapshot,
        },
        lock_token: raw.token,
        message_attempts,
        incarnation: raw.incarnation,
        history,
    };
    (turn, broken)
}

/// Handler name and version: from the row, else from the history, else from the message that starts the instance.
fn name(handler: Option<Handler>, events: &[Event], messages: &[WorkItem]) -> (String, String) {
    let unknown = || "unknown".to_owned();
    if let Some(handler) = handler {
        return (handler.name, handler.version.unwrap_or_else(unknown));
    }
    if let Some(started) = events.iter().find_map(Event::started_handler) {
        return started;
    }
    let from_start = messages.iter().find_map(|message| match message {
        WorkItem::StartOrchestration {
            orchestration,
            version,
            ..
        }
        | WorkItem::ContinueAsNew {
            orchestration,
            version,
            ..
        } => Some((
            orchestration.clone(),
            version.clone().unwrap_or_else(unknown),
        )),
        _ => None,
    });
    from_start.unwrap_or_else(|| ("Unknown".to_owned(), unknown()))
}
