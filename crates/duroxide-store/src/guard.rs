//! What must hold for a batch or a claim to happen.

use crate::lease::LeaseToken;
use crate::queue_name::Queue;

/// What must hold for a batch to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// The lease is valid; otherwise [`StoreError::LeaseLost`](crate::StoreError::LeaseLost).
    Lease(LeaseToken),
    /// No message arrived for the leased group or became visible in it since the claim; otherwise
    /// [`StoreError::Conflict`](crate::StoreError::Conflict). [`StoreError::LeaseLost`](crate::StoreError::LeaseLost) if another holder has it; it may have lapsed.
    Undisturbed(LeaseToken),
    /// The entry does not exist; otherwise [`StoreError::Conflict`](crate::StoreError::Conflict).
    Absent {
        /// Scope.
        scope: String,
        /// Key.
        key: String,
    },
    /// The entry exists; otherwise [`StoreError::Conflict`](crate::StoreError::Conflict).
    Present {
        /// Scope.
        scope: String,
        /// Key.
        key: String,
    },
    /// The entry has exactly this value; otherwise [`StoreError::Conflict`](crate::StoreError::Conflict).
    Equals {
        /// Scope.
        scope: String,
        /// Key.
        key: String,
        /// Value.
        value: Vec<u8>,
    },
    /// The scope has exactly these keys, ascending; otherwise [`StoreError::Conflict`](crate::StoreError::Conflict).
    Keys {
        /// Scope.
        scope: String,
        /// Keys.
        keys: Vec<String>,
    },
    /// Whether the group of a grouped queue has a [`Role::Lead`](crate::Role::Lead), visible or not, leased or not; otherwise
    /// [`StoreError::Conflict`](crate::StoreError::Conflict).
    Lead {
        /// Queue.
        queue: Queue,
        /// Group.
        group: String,
        /// Whether there is one.
        is_there: bool,
    },
}
