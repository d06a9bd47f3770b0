//! Flaws of holds: queue messages that a commit keeps in the store.

use duroxide_core::WorkItem;
use duroxide_core::provider::{CLAIM_QUEUE_MESSAGES_MAX, Provider, ProviderError};

use super::commits::Turn;
use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

/// What these flaws go by. The cases have one instance that holds.
#[derive(Default)]
pub(super) struct Holds {
    /// A commit asked for a hold.
    pub(super) ever: bool,
    /// The last commit did.
    pub(super) now: bool,
    /// A commit that lost its lease did.
    pub(super) unleased: bool,
}

pub(super) fn is_queue_message(item: &WorkItem) -> bool {
    matches!(item, WorkItem::QueueMessage { .. })
}

impl Mutant {
    /// A commit that asks for a hold.
    pub(super) async fn hold(&self, mut turn: Turn) -> Result<bool> {
        match self.flaw {
            Flaw::HoldIsOnlyTold => {
                self.commit_turn(turn).await?;
                return Ok(true);
            }
            Flaw::HoldForgetsTheTurn => turn.work.clear(),
            _ => {}
        }
        let held = self.inner_hold(turn).await;
        self.seen.note_hold(held.is_ok());
        held
    }

    /// Whether a plain commit holds because of the flaw.
    pub(super) fn holds_on(&self, turn: &Turn) -> bool {
        let begins = turn.events.first().is_some_and(|event| event.event_id == 1);
        let holds = self.seen.end_hold();
        match self.flaw {
            Flaw::HoldNeverEnds => holds.ever,
            Flaw::HoldOutlivesTheInstance => holds.ever && begins,
            Flaw::HoldNeedsNoLease => holds.unleased,
            _ => false,
        }
    }

    pub(super) async fn inner_hold(&self, turn: Turn) -> Result<bool> {
        let (token, writes) = turn.writes();
        self.inner.ack_holding_queue_messages(&token, writes).await
    }

    /// Spoils the queue messages of a claim.
    pub(super) fn spoil_queue_messages(&self, messages: &mut Vec<WorkItem>) {
        match self.flaw {
            Flaw::HoldTurnsTheOrder if self.seen.has_held() => messages.reverse(),
            Flaw::QueueMessagesAreUnbounded => {
                let queue_messages = messages.iter().filter(|item| is_queue_message(item));
                let one_more = messages.last().cloned();
                if queue_messages.count() >= CLAIM_QUEUE_MESSAGES_MAX {
                    messages.extend(one_more);
                }
            }
            _ => {}
        }
    }
}
