//! Why a store refuses a call although its database works. In: causes. Out: [`ProviderError`]s with the contract's
//! words.

use super::super::ProviderError;
use super::super::refusal_kind::RefusalKind;

/// Why a store refuses a call by the rules of the contract. Each store adds the errors of its own database.
///
/// ```
/// use duroxide_core::provider::rules::Refusal;
/// let error = Refusal::InvalidToken.into_provider_error("ack_work_item");
/// assert!(error.is_lease_lost() && !error.is_retryable());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The token is unknown: never given out, already used, or taken over.
    #[error("Invalid lock token: unknown, already used, cancelled or taken over")]
    InvalidToken,
    /// The lease of an instance ran out before the commit.
    #[error("Instance lock expired for {instance}")]
    LockExpired {
        /// The instance.
        instance: String,
    },
    /// The lease of an activity ran out.
    #[error("Invalid lock token: the lease of the work item expired")]
    WorkLockExpired,
    /// The event is already recorded.
    #[error("event {event_id} of {instance} execution {execution_id} is already recorded")]
    DuplicateEvent {
        /// The instance.
        instance: String,
        /// The execution.
        execution_id: u64,
        /// The event.
        event_id: u64,
    },
    /// An event without a position.
    #[error("an event of {instance} has no id; ids begin at 1")]
    EventWithoutId {
        /// The instance.
        instance: String,
    },
    /// A message of this kind does not belong on this queue.
    #[error("Invalid work item type: {kind} does not belong on the {queue} queue")]
    WrongKind {
        /// The message's kind.
        kind: &'static str,
        /// The queue.
        queue: &'static str,
    },
    /// Stored data does not decode.
    #[error("{what} does not decode: {why}")]
    Undecodable {
        /// The row, in words.
        what: String,
        /// The decoder's words.
        why: String,
    },
    /// A value cannot be written as JSON, is too long, or a number does not fit.
    #[error("{what} cannot be stored: {why}")]
    Unstorable {
        /// The value, in words.
        what: String,
        /// The reason.
        why: String,
    },
    /// A position that the claimed batch does not have.
    #[error("the claimed batch of {instance} has no message at position {position}, it has {size}")]
    NoSuchPosition {
        /// The instance.
        instance: String,
        /// The position, counted from 0.
        position: usize,
        /// How many messages the batch has.
        size: usize,
    },
    /// No such instance.
    #[error("Instance {instance} not found")]
    InstanceNotFound {
        /// The id of the instance.
        instance: String,
    },
    /// No such execution.
    #[error("Execution {execution_id} not found for instance {instance}")]
    ExecutionNotFound {
        /// The instance.
        instance: String,
        /// The id of the execution.
        execution_id: u64,
    },
    /// A live instance is not deleted without force.
    #[error("Instance {instance} is running; cancel it first, or delete with force")]
    StillRunning {
        /// The instance.
        instance: String,
    },
    /// A deletion would leave a child without its parent.
    #[error("Cannot delete {parent} without its child {child}; delete the whole tree")]
    ChildLeftBehind {
        /// The instance in the list.
        parent: String,
        /// Its child, which is not in the list.
        child: String,
    },
    /// The store is closed for the engine and its clients.
    #[error("the store is closed: {reason}")]
    Closed {
        /// Why, as shown to the operator.
        reason: String,
    },
    /// A child is not deleted without its root.
    #[error(
        "Cannot delete sub-orchestration {instance} directly (parent {parent}); delete the root instance instead"
    )]
    NotARoot {
        /// The child.
        instance: String,
        /// Its parent.
        parent: String,
    },
}

impl Refusal {
    /// A stable code; docs/errors.md says what each means and what to do.
    ///
    /// ```
    /// use duroxide_core::provider::rules::Refusal;
    /// assert_eq!(Refusal::InvalidToken.code(), "D0211");
    /// ```
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.kind().code()
    }

    /// Which refusal this is, without what it is about.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        match self {
            Self::InvalidToken => RefusalKind::InvalidToken,
            Self::LockExpired { .. } => RefusalKind::LockExpired,
            Self::WorkLockExpired => RefusalKind::WorkLockExpired,
            Self::DuplicateEvent { .. } => RefusalKind::DuplicateEvent,
            Self::EventWithoutId { .. } => RefusalKind::EventWithoutId,
            Self::WrongKind { .. } => RefusalKind::WrongKind,
            Self::Undecodable { .. } => RefusalKind::Undecodable,
            Self::Unstorable { .. } => RefusalKind::Unstorable,
            Self::NoSuchPosition { .. } => RefusalKind::NoSuchPosition,
            Self::InstanceNotFound { .. } => RefusalKind::InstanceNotFound,
            Self::ExecutionNotFound { .. } => RefusalKind::ExecutionNotFound,
            Self::StillRunning { .. } => RefusalKind::StillRunning,
            Self::ChildLeftBehind { .. } => RefusalKind::ChildLeftBehind,
            Self::Closed { .. } => RefusalKind::Closed,
            Self::NotARoot { .. } => RefusalKind::NotARoot,
        }
    }

    /// The error as the contract's callers see it; none of them is worth a retry.
    #[must_use]
    pub fn into_provider_error(self, operation: &str) -> ProviderError {
        let message = self.to_string();
        match self {
            Self::InvalidToken | Self::LockExpired { .. } | Self::WorkLockExpired => {
                ProviderError::lease_lost(operation, message)
            }
            Self::DuplicateEvent { .. }
            | Self::EventWithoutId { .. }
            | Self::WrongKind { .. }
            | Self::Undecodable { .. }
            | Self::Unstorable { .. }
            | Self::NoSuchPosition { .. }
            | Self::InstanceNotFound { .. }
            | Self::ExecutionNotFound { .. }
            | Self::StillRunning { .. }
            | Self::ChildLeftBehind { .. }
            | Self::Closed { .. }
            | Self::NotARoot { .. } => ProviderError::permanent(operation, message),
        }
    }

    /// Stored text that does not decode.
    pub fn undecodable(what: impl Into<String>, why: &(impl ToString + ?Sized)) -> Self {
        Self::Undecodable {
            what: what.into(),
            why: why.to_string(),
        }
    }

    /// A value that cannot be stored.
    pub fn unstorable(what: impl Into<String>, why: &(impl ToString + ?Sized)) -> Self {
        Self::Unstorable {
            what: what.into(),
            why: why.to_string(),
        }
    }
}
