//! Leases: the right to work on messages for a while. A lease that is not renewed runs out by itself.
//!
//! A *group lease* holds all messages of one group that were visible at the claim, an *item lease* holds one message,
//! an *affinity lease* reserves an affinity key for an owner. A lease is valid while `until_ms` lies after now.

use std::fmt;

/// Proof of a lease: unique per claim and not guessable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseToken(String);

impl LeaseToken {
    /// Wraps a token that came from a claim.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// A fresh token.
    #[must_use]
    pub fn random() -> Self {
        Self(format!("lock_{}", uuid::Uuid::new_v4()))
    }

    /// The token as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a store knows about a lease on messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Queue the messages are in.
    pub queue: String,
    /// Group of the messages.
    pub group: String,
    /// Time at which it runs out, in milliseconds of the store's clock.
    pub until_ms: u64,
    /// Whether it is valid now.
    pub valid: bool,
    /// The claimed messages in the order they were claimed, those deleted since included.
    pub claimed: Vec<u64>,
}

/// Who claims messages that are bound to an affinity key, and for how long the key is reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Name of the owner; callers with the same name share their affinity keys.
    pub id: String,
    /// Length of the affinity lease.
    pub lease_ms: u64,
    /// How many keys that the owner does not hold yet one claim may take; messages of further keys stay queued.
    pub new_keys_max: usize,
}

/// When released messages can be claimed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// At once.
    Now,
    /// The released messages become visible after this many milliseconds; others of the group are not touched.
    DelayMs(u64),
    /// The group rests for this many milliseconds or until another message arrives for it or becomes visible, whichever
    /// is first. It does not rest if one has done so since the claim; what the claim left because of its bounds was
    /// there before. In a queue of single messages this is a delay.
    QuietMs(u64),
}

/// End of rest of a group that is leased: nothing arrived or became visible since the claim. It is no time, and once
/// the lease has run out it keeps no caller waiting.
pub(crate) const UNDISTURBED: u64 = u64::MAX;
