//! What must hold for a batch or a claim to happen.

use crate::lease::LeaseToken;
use crate::queue_name::Queue;

/// What must hold for a batch to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// The lease is valid; otherwise [`StoreError::LeaseLost`](crate::StoreError::LeaseLost).
    Lease(LeaseToken),
    /// No message arrived for the leased group or became visible in it since the claim; otherwise
    /// [`StoreError::Conflict`](crate::StoreError::Conflict). [`StoreError::LeaseLost`](crate::StoreError::LeaseLost)
    /// if another holder has it; it may have run out.
    Undisturbed(LeaseToken),
    /// The entry does not exist; otherwise [`StoreError::Conflict`](crate::StoreError::Conflict).
    Absent {
        /// The scope that the entry is in.
        scope: String,
        /// The key of the entry in its scope.
        key: String,
    },
    /// The entry exists; otherwise [`StoreError::Conflict`](crate::StoreError::Conflict).
    Present {
        /// The scope that the entry is in.
        scope: String,
        /// The key of the entry in its scope.
        key: String,
    },
    /// The entry has exactly this value; otherwise [`StoreError::Conflict`](crate::StoreError::Conflict).
    Equals {
        /// The scope that the entry is in.
        scope: String,
        /// The key of the entry in its scope.
        key: String,
        /// The value that the entry must have.
        value: Vec<u8>,
    },
    /// The scope has exactly these keys, ascending; otherwise [`StoreError::Conflict`](crate::StoreError::Conflict).
    Keys {
        /// The scope whose keys are compared.
        scope: String,
        /// The keys in that scope.
        keys: Vec<String>,
    },
    /// Whether the group of a grouped queue has a [`Role::Lead`](crate::Role::Lead), visible or not, leased or not;
    /// otherwise [`StoreError::Conflict`](crate::StoreError::Conflict).
    Lead {
        /// The queue that the group is in.
        queue: Queue,
        /// The group in that queue.
        group: String,
        /// Whether there is one.
        is_there: bool,
    },
}
