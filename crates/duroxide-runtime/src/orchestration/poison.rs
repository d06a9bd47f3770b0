//! What was tried too often. In: the claim. Out: the claim without the message that is at fault, which is
//! dead-lettered; or the instance ended as poison; or the claim given back, if the code is not here or the store is
//! away. A healthy turn never comes here.

use duroxide_core::provider::{OrchestrationItem, TurnHistory};
use duroxide_core::rewind::RewindMessage;
use duroxide_core::{ErrorDetails, PoisonMessageType, WorkItem};

use super::claim_in_hand::ClaimInHand;
use super::forced::{self, ForcedEnd};
use super::give_back::{INSTANCE_REST, give_back};
use super::sort::HistoryEnd;
use super::without_code;
use crate::engine::{Engine, Kept};
use crate::options::OnUnregistered;

/// A claim that was tried more often than it may be.
pub(super) struct PoisonClaim<'a> {
    pub(super) claim: ClaimInHand<'a>,
    pub(super) item: OrchestrationItem,
    pub(super) message_attempts: Vec<u32>,
    pub(super) history: TurnHistory,
    pub(super) kept: Option<Kept>,
}

impl PoisonClaim<'_> {
    /// Dead-letters the message that is at fault and gives the rest of the claim back to its caller; where none is, the
    /// instance ends as poison. An instance whose code is not here waits for it.
    pub(super) async fn settle(mut self, engine: &Engine) -> Option<Self> {
        let missing = without_code::missing_handler(engine, &self.item);
        if let (Some(handler), OnUnregistered::Wait) = (&missing, engine.options.on_unregistered())
        {
            without_code::handle(engine, self.claim, self.item, handler).await;
            return None;
        }
        // Without its code no message of it is at fault.
        let token = self.claim.lease.token();
        let isolated = match missing {
            Some(_) => Isolated::No,
            None => isolate(engine, token, &mut self.item, &self.message_attempts).await,
        };
        match isolated {
            Isolated::Yes => return Some(self),
            Isolated::No => self.end_as_poison(engine).await,
            Isolated::StoreAway => give_back(engine, self.claim.lease, Some(INSTANCE_REST)).await,
        }
        None
    }

    async fn end_as_poison(self, engine: &Engine) {
        let Self { claim, item, .. } = self;
        let details = details(&item, claim.attempt, engine.options.max_attempts);
        forced::end(engine, claim, item, ForcedEnd::Fail(details)).await;
    }
}

/// What became of messages that were tried too often.
enum Isolated {
    /// They are dead letters, and the turn goes on without them.
    Yes,
    /// The instance cannot go on without them.
    No,
    /// The store did not say; the turn runs again.
    StoreAway,
}

/// Dead-letters the messages that were tried too often, if the instance survives their loss.
async fn isolate(
    engine: &Engine,
    lock_token: &str,
    item: &mut OrchestrationItem,
    message_attempts: &[u32],
) -> Isolated {
    let max = engine.options.max_attempts;
    if message_attempts.len() != item.messages.len() || item.history_error.is_some() {
        return Isolated::No;
    }
    let over: Vec<usize> = (0..item.messages.len())
        .filter(|place| message_attempts[*place] > max)
        .collect();
    if over.is_empty() || !over.iter().all(|p| is_expendable(&item.messages[*p])) {
        return Isolated::No;
    }
    let reason = format!("tried more than {max} times");
    match engine
        .store
        .dead_letter_messages(lock_token, &over, &reason)
        .await
    {
        Ok(true) => {}
        Ok(false) => return Isolated::No,
        Err(error) => {
            tracing::warn!(target: "duroxide::runtime", %error, "dead-lettering a poisoned message failed");
            let may_pass = error.is_retryable() || error.is_lease_lost();
            return if may_pass {
                Isolated::StoreAway
            } else {
                Isolated::No
            };
        }
    }
    for place in over.into_iter().rev() {
        let message = item.messages.remove(place);
        engine.metrics.record_dead_lettered_message("poison");
        tracing::error!(
            target: "duroxide::runtime",
            instance_id = %item.instance,
            message = message.kind_name(),
            reason = "tried too often",
            "a message was dead-lettered"
        );
    }
    Isolated::Yes
}

/// Whether an instance can go on without the message: nothing in its history waits for exactly this one.
fn is_expendable(message: &WorkItem) -> bool {
    // Without it no turn asks for the work that a rewound execution waits for.
    if RewindMessage::of(message).is_some() {
        return false;
    }
    matches!(
        message,
        WorkItem::ExternalRaised { .. }
            | WorkItem::QueueMessage { .. }
            | WorkItem::CancelInstance { .. }
    )
}

/// What is recorded of an instance whose turn was tried too often.
fn details(item: &OrchestrationItem, attempt_count: u32, max_attempts: u32) -> ErrorDetails {
    let instance = item.instance.clone();
    let execution_id = match HistoryEnd::of(&item.history) {
        HistoryEnd::BetweenExecutions => item.execution_id + 1,
        HistoryEnd::Unborn | HistoryEnd::Running | HistoryEnd::Ended => item.execution_id,
    };
    let (message_type, message) = match &item.history_error {
        Some(error) => (
            PoisonMessageType::FailedDeserialization {
                instance,
                execution_id,
                error: error.clone(),
            },
            error.clone(),
        ),
        None => (
            PoisonMessageType::Orchestration {
                instance,
                execution_id,
            },
            shown(&serde_json::to_string(&item.messages).unwrap_or_default()),
        ),
    };
    ErrorDetails::Poison {
        attempt_count,
        max_attempts,
        message_type,
        message,
    }
}

/// How much of the messages is recorded; they may have megabytes, and the failure travels to the parent.
const SHOWN_BYTES_MAX: usize = 4 * 1024;

/// The beginning of a text, with its size if that is not all.
fn shown(text: &str) -> String {
    if text.len() <= SHOWN_BYTES_MAX {
        text.to_owned()
    } else {
        let fits = |end: &usize| text.is_char_boundary(*end);
        let end = (0..=SHOWN_BYTES_MAX).rev().find(fits).unwrap_or(0);
        format!("{}… ({} bytes in all)", &text[..end], text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_retry_needs_is_dead_lettered() {
        let rewind = RewindMessage::Rewind {
            execution_id: 1,
            from_event_id: None,
            failure: None,
        };
        assert!(!is_expendable(&rewind.to("i")));
        assert!(!is_expendable(&RewindMessage::AskAgain.to("i")));
        let message = WorkItem::QueueMessage {
            instance: "i".into(),
            name: "orders".into(),
            data: String::new(),
        };
        assert!(is_expendable(&message));
    }
}
