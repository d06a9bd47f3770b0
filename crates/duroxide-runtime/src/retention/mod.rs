//! Retention: deletes ended instances by policy. In: a policy. Out: many small deletions, each a transaction of its
//! own. Never: an instance that has not ended, or one of whose descendants has not.

mod sweep;

use std::time::Duration;

use duroxide_core::provider::InstanceStatus;
use serde::Serialize;

pub(crate) use sweep::Sweep;

/// Which instances are deleted: those that any rule admits. A policy without rules deletes nothing.
///
/// ```
/// use duroxide::{RetentionPolicy, RetentionRule};
/// use std::time::Duration;
///
/// const DAY: Duration = Duration::from_secs(86_400);
/// let policy = RetentionPolicy::new()
///     // Completed orders go after a month, but the newest hundred stay.
///     .rule(RetentionRule {
///         name: Some("order".to_owned()),
///         ended_for: Some(30 * DAY),
///         newest_kept: Some(100),
///         ..RetentionRule::default()
///     })
///     // Instances that continue as new for ever keep their last ten executions.
///     .rule(RetentionRule { executions_kept: Some(10), ..RetentionRule::default() });
/// assert!(policy.validate().is_ok());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// The rules; each is looked at by itself.
    pub rules: Vec<RetentionRule>,
}

/// One rule. It says which instances it is about, by status and name, and what becomes of them; it must say at least
/// one of `ended_for`, `newest_kept` and `executions_kept`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionRule {
    /// `Completed`, `Failed`, or both if empty.
    pub statuses: Vec<InstanceStatus>,
    /// Exactly this handler; any if `None`.
    pub name: Option<String>,
    /// Root instances that ended longer ago than this are deleted, each with its descendants.
    pub ended_for: Option<Duration>,
    /// The newest of the root instances that have ended, by their creation, are kept, however long ago they ended.
    /// Alone it deletes all others.
    pub newest_kept: Option<u32>,
    /// Number of executions that are kept of each instance, ended or not, the current one among them. `statuses` does
    /// not matter here.
    pub executions_kept: Option<u32>,
}

/// A policy that a node applies from time to time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Policy of what is deleted.
    pub policy: RetentionPolicy,
    /// How often a node looks. Of all nodes on a store one at a time does.
    pub interval: Duration,
}

/// What retention deleted, or would delete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RetentionReport {
    /// Instances; in a preview, root instances only.
    pub instances: u64,
    /// Executions, those of the instances included; in a preview, old ones of instances that stay.
    pub executions: u64,
    /// Events; 0 in a preview.
    pub events: u64,
    /// Bytes that the store gave back to the file system, where it does so in steps; 0 in a preview.
    pub bytes_given_back: u64,
}

impl RetentionPolicy {
    /// A policy without rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: RetentionRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Checks that every rule says what it deletes.
    ///
    /// # Errors
    ///
    /// What is wrong with the first rule that cannot work, in words.
    pub fn validate(&self) -> Result<(), String> {
        self.rules.iter().try_for_each(RetentionRule::validate)
    }
}

impl RetentionRule {
    fn validate(&self) -> Result<(), String> {
        let says = self.deletes_instances() || self.executions_kept.is_some();
        if !says {
            return Err("a retention rule needs ended_for, newest_kept or executions_kept".into());
        }
        if self.executions_kept == Some(0) {
            return Err("a retention rule keeps at least one execution, the current one".into());
        }
        if self.name.as_ref().is_some_and(String::is_empty) {
            return Err(
                "a retention rule for an empty name is for no instance; `None` is for all".into(),
            );
        }
        match self.statuses.iter().find(|status| !status.is_ended()) {
            Some(status) => Err(format!("retention never deletes what is {status}")),
            None => Ok(()),
        }
    }

    fn deletes_instances(&self) -> bool {
        self.ended_for.is_some() || self.newest_kept.is_some()
    }
}

impl Retention {
    /// A policy that is applied every ten minutes.
    #[must_use]
    pub fn of(policy: RetentionPolicy) -> Self {
        Self {
            policy,
            interval: Duration::from_secs(600),
        }
    }
}

impl RetentionReport {
    pub(crate) fn add(&mut self, other: Self) {
        self.instances += other.instances;
        self.executions += other.executions;
        self.events += other.events;
        self.bytes_given_back += other.bytes_given_back;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_must_say_what_it_deletes() {
        let check = |rule| RetentionPolicy::new().rule(rule).validate();
        assert!(check(RetentionRule::default()).is_err());
        let none = RetentionRule {
            executions_kept: Some(0),
            ..RetentionRule::default()
        };
        assert!(check(none).is_err());
        let running = RetentionRule {
            statuses: vec![InstanceStatus::Running],
            newest_kept: Some(1),
            ..RetentionRule::default()
        };
        assert!(check(running).is_err());
        let nameless = RetentionRule {
            name: Some(String::new()),
            newest_kept: Some(1),
            ..RetentionRule::default()
        };
        assert!(check(nameless).is_err());
        let fine = RetentionRule {
            newest_kept: Some(0),
            ..RetentionRule::default()
        };
        assert!(check(fine).is_ok());
        assert!(RetentionPolicy::new().validate().is_ok());
    }
}
