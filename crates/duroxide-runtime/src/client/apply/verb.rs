//! What is done to instances. In: a query. Out: the query with what the verb needs.

use duroxide_core::provider::{InstanceQuery, InstanceStatus};
use duroxide_core::{TERMINATE_PREFIX, termination_reason};

use crate::client::ClientError;

/// What [`Client::apply`](crate::Client::apply) does to each instance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verb {
    /// Asks what has not ended to cancel; see [`Client::cancel_instance`](crate::Client::cancel_instance).
    Cancel {
        /// Why; it is recorded.
        reason: String,
    },
    /// Ends what has not ended at once; see [`Client::terminate_instance`](crate::Client::terminate_instance).
    Terminate {
        /// Why; it is recorded.
        reason: String,
    },
    /// Pauses what runs; see [`Client::pause_instance`](crate::Client::pause_instance).
    Pause,
    /// Resumes what is paused.
    Resume,
    /// Retries what failed from the point of failure; see [`Client::retry_instance`](crate::Client::retry_instance).
    /// Roots only, unless the query names a parent or a root: children are retried with their parents.
    Retry,
    /// Starts each again under its id with this suffix; see [`Client::restart_as`](crate::Client::restart_as). What has
    /// been started so before is left alone, and so are instances whose own ids end so: they are restarts themselves.
    Restart {
        /// What is appended to each id; not empty.
        suffix: String,
    },
    /// Puts the dead letters that name each instance back into their queues, oldest first.
    RequeueDeadLetters,
    /// Forgets the dead letters that name each instance.
    DeleteDeadLetters,
}

impl Verb {
    /// The query with what the verb needs; `None` if it admits nothing that the verb could be applied to.
    pub(super) fn narrow(&self, mut query: InstanceQuery) -> Option<InstanceQuery> {
        match self {
            Self::Cancel { .. } | Self::Terminate { .. } => {}
            Self::Pause => query.paused = query.paused.or(Some(false)),
            Self::Resume => query.paused = Some(true),
            // Alone, no parent would get their result.
            Self::Retry => query.roots_only |= query.parent.is_none() && query.root.is_none(),
            Self::Restart { .. } => return Some(query),
            Self::RequeueDeadLetters | Self::DeleteDeadLetters => {
                query.has_dead_letters = true;
                return Some(query);
            }
        }
        let fitting: &[InstanceStatus] = match self {
            Self::Retry => &[InstanceStatus::Failed],
            _ => &[InstanceStatus::Running, InstanceStatus::ContinuedAsNew],
        };
        if query.statuses.is_empty() {
            query.statuses = fitting.to_vec();
        }
        query.statuses.retain(|status| fitting.contains(status));
        (!query.statuses.is_empty()).then_some(query)
    }

    /// Whether it can be applied to anything.
    pub(super) fn check(&self) -> Result<(), ClientError> {
        match self {
            Self::Cancel { reason } if termination_reason(reason).is_some() => {
                Err(ClientError::invalid(format!(
                    "cancel reason must not begin with the reserved '{TERMINATE_PREFIX}'; to end instances at once, terminate them"
                )))
            }
            Self::Restart { suffix } if suffix.is_empty() => Err(ClientError::invalid(
                "a restart of many instances needs a suffix for the new ids",
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_admits_only_what_it_can_be_applied_to() {
        use InstanceStatus::{Completed, ContinuedAsNew, Failed, Running};
        let statuses = |verb: &Verb, asked: &[InstanceStatus]| {
            let mut query = InstanceQuery::new();
            query.statuses = asked.to_vec();
            verb.narrow(query).map(|query| query.statuses)
        };
        assert_eq!(
            statuses(&Verb::Pause, &[]),
            Some(vec![Running, ContinuedAsNew])
        );
        assert_eq!(
            statuses(&Verb::Pause, &[Failed, Running]),
            Some(vec![Running])
        );
        assert_eq!(statuses(&Verb::Pause, &[Completed]), None);
        assert_eq!(statuses(&Verb::Retry, &[]), Some(vec![Failed]));
        let letters = statuses(&Verb::RequeueDeadLetters, &[Completed]);
        assert_eq!(letters, Some(vec![Completed]));
    }
}
