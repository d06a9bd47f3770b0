//! How a store says that something did not work, and whether to try again.

use std::fmt;

use super::refusal_kind::{RefusalKind, in_other_words, in_words_of_the_contract};
use crate::event::ErrorDetails;

/// How the contract has always said that a lease is gone.
const LEASE_LOST: &str = "Invalid lock token";

/// A store call that failed.
///
/// The published struct has these three fields and authors of stores build it as a literal, so the cause of a lost
/// lease or of another refusal has no field of its own. The words of the message say it, and two functions know them:
/// build a lost lease with [`lease_lost`](Self::lease_lost), ask with [`is_lease_lost`](Self::is_lease_lost); build
/// any other refusal from a [`Refusal`](super::rules::Refusal), ask with [`refusal`](Self::refusal).
///
/// ```
/// use duroxide_core::provider::ProviderError;
/// let error = ProviderError::permanent("ack_work_item", "Invalid lock token");
/// assert!(!error.is_retryable());
/// assert_eq!(error.to_string(), "ack_work_item: Invalid lock token");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderError {
    /// The call.
    pub operation: String,
    /// The failure in words.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

impl ProviderError {
    /// The same call may succeed later: the store is busy or out of reach.
    pub fn retryable(operation: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            operation: operation.into(),
            message: message.into(),
            retryable: true,
        }
    }

    /// The same call will fail again: a lost lease, bad input, data that does not decode.
    pub fn permanent(operation: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            operation: operation.into(),
            message: message.into(),
            retryable: false,
        }
    }

    /// The caller no longer holds what it writes to: its token is unknown, its lease ran out, or another node took
    /// over. The holder of the lease goes on; the caller drops what it did.
    ///
    /// ```
    /// use duroxide_core::provider::ProviderError;
    /// let error = ProviderError::lease_lost("ack_work_item", "taken over by another worker");
    /// assert!(error.is_lease_lost() && !error.is_retryable());
    /// assert_eq!(error.message, "Invalid lock token: taken over by another worker");
    /// ```
    pub fn lease_lost(operation: impl Into<String>, message: impl Into<String>) -> Self {
        let mut error = Self::permanent(operation, message);
        if !error.is_lease_lost() {
            error.message = format!("{LEASE_LOST}: {}", error.message);
        }
        error
    }

    /// Whether the caller lost its lease. Understands the words of the contract and those of published stores, where
    /// the store says them itself: at the beginning of a clause, or as the name `lock_token`. What it quotes or names
    /// does not count.
    #[must_use]
    pub fn is_lease_lost(&self) -> bool {
        !self.retryable && says_lease_lost(&without_quotes(&self.message.to_lowercase()))
    }

    /// Whether an operator closed the store: nothing of it can be changed until it is opened again, if ever.
    ///
    /// ```
    /// use duroxide_core::provider::rules::Refusal;
    /// let closed = Refusal::Closed { reason: "moved to postgres://db".to_owned() };
    /// let error = closed.into_provider_error("claim_turns");
    /// assert!(error.is_store_closed() && !error.is_retryable());
    /// ```
    #[must_use]
    pub fn is_store_closed(&self) -> bool {
        self.refusal() == Some(RefusalKind::Closed)
    }

    /// Which refusal of the contract this is, if the store words it as [`Refusal`](super::rules::Refusal) does. What
    /// may be retried is none.
    ///
    /// ```
    /// use duroxide_core::provider::rules::Refusal;
    /// use duroxide_core::provider::{ProviderError, RefusalKind};
    /// let refusal = Refusal::InstanceNotFound { instance: "order-1".to_owned() };
    /// let error = refusal.into_provider_error("get_instance_info");
    /// assert_eq!(error.refusal(), Some(RefusalKind::InstanceNotFound));
    /// assert_eq!(ProviderError::permanent("read", "the file is no database").refusal(), None);
    /// ```
    #[must_use]
    pub fn refusal(&self) -> Option<RefusalKind> {
        (!self.retryable)
            .then(|| in_words_of_the_contract(&self.message))
            .flatten()
    }

    /// Which refusal this is, of a call about this instance. Understands other stores too, which say "not found" or
    /// "is running" in sentences of their own.
    ///
    /// ```
    /// use duroxide_core::provider::{ProviderError, RefusalKind};
    /// let error = ProviderError::permanent("delete_instance", "instance order-1 is still running");
    /// assert_eq!(error.refusal_about("order-1"), Some(RefusalKind::StillRunning));
    /// ```
    #[must_use]
    pub fn refusal_about(&self, instance: &str) -> Option<RefusalKind> {
        let other = || in_other_words(&self.message, instance);
        self.refusal()
            .or_else(|| (!self.retryable).then(other).flatten())
    }

    /// A stable code; docs/errors.md says what each means and what to do.
    ///
    /// ```
    /// use duroxide_core::provider::ProviderError;
    /// assert_eq!(ProviderError::retryable("read", "the disk is full").code(), "D0201");
    /// ```
    #[must_use]
    pub fn code(&self) -> &'static str {
        if self.retryable {
            "D0201"
        } else if self.is_lease_lost() {
            "D0203"
        } else {
            self.refusal().map_or("D0202", RefusalKind::code)
        }
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// The error as a failure that can be recorded in a history.
    #[must_use]
    pub fn to_infrastructure_error(&self) -> ErrorDetails {
        ErrorDetails::Infrastructure {
            operation: self.operation.clone(),
            message: self.message.clone(),
            retryable: self.retryable,
        }
    }
}

/// How a clause begins that says that a lease is gone.
const CLAUSES: [&str; 4] = [
    "invalid lock token",
    "lock token",
    "lock expired",
    "instance lock expired",
];

fn says_lease_lost(text: &str) -> bool {
    let mut clauses = text.split([':', ';', '.', ',']).map(str::trim_start);
    let mut words = text.split(|c: char| c.is_whitespace() || ":;,.()=".contains(c));
    clauses.any(|clause| CLAUSES.iter().any(|phrase| clause.starts_with(phrase)))
        || words.any(|word| word == "lock_token")
}

/// The text without what stands in quotes: ids and names that others chose. An apostrophe opens none.
fn without_quotes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find(['\'', '"', '`']) {
        let (before, quoted) = rest.split_at(open);
        kept.push_str(before);
        let after = &quoted[1..];
        let opens = !kept.ends_with(char::is_alphanumeric);
        rest = match after.find(&quoted[..1]).filter(|_| opens) {
            Some(end) => &after[end + 1..],
            None => after,
        };
    }
    kept + rest
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.message)
    }
}

impl std::error::Error for ProviderError {}

impl From<String> for ProviderError {
    fn from(message: String) -> Self {
        Self::retryable("unknown", message)
    }
}

impl From<&str> for ProviderError {
    fn from(message: &str) -> Self {
        Self::retryable("unknown", message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_lease_is_told_apart_however_the_store_words_it() {
        let lost = [
            ProviderError::lease_lost("op", "gone"),
            ProviderError::lease_lost("op", "lease 7 is unknown or expired"),
            ProviderError::permanent("op", "Invalid lock token"),
            ProviderError::permanent("op", "no row for lock_token abc"),
            ProviderError::permanent("op", "Lock expired for instance i"),
            ProviderError::permanent("op", "ack failed: Invalid lock token"),
            ProviderError::permanent("op", "Instance lock expired"),
            ProviderError::permanent("op", "can't renew 'i': Invalid lock token"),
            ProviderError::lease_lost("op", "the lease ran out"),
        ];
        for error in lost {
            assert!(error.is_lease_lost(), "{error}");
        }
    }

    #[test]
    fn other_failures_are_no_lost_lease() {
        let other = [
            ProviderError::retryable("op", "the lease table is locked"),
            ProviderError::permanent("op", "please free some disk space"),
            ProviderError::permanent("op", "event 3 exists already, release 2"),
            ProviderError::permanent("op", "event 3 of car-lease-7 is already recorded"),
            ProviderError::permanent("op", "event 3 of my lease is already recorded"),
            ProviderError::permanent("op", "instance 'Invalid lock token' exists already"),
            ProviderError::permanent("op", "instance my-lock_token-7 exists already"),
        ];
        for error in other {
            assert!(!error.is_lease_lost(), "{error}");
        }
    }
}
