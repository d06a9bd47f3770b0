//! What the groups of one claim may bring together. In: what each group brought. Out: whether the claim takes another
//! one. Never refuses the first: what exceeds the bounds alone is delivered all the same.

use crate::message::{Claim, Message};

/// What one claim has taken so far.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    messages: usize,
    bytes: usize,
}

impl Budget {
    /// Whether the claim leaves what is left to the next one.
    pub(crate) fn is_spent(&self, claim: &Claim) -> bool {
        self.messages > 0
            && (self.messages >= claim.messages_in_all_max || self.bytes >= claim.bytes_in_all_max)
    }

    /// Notes what a group brought.
    pub(crate) fn spend(&mut self, messages: &[Message]) {
        self.messages = self.messages.saturating_add(messages.len());
        let bytes = messages.iter().map(|message| message.payload.len());
        self.bytes = bytes.fold(self.bytes, usize::saturating_add);
    }
}
