//! What becomes of a child when its parent ends or drops it, and how that is recorded: in front of the input of the
//! event that schedules the child, so that an end without the parent's code keeps to it. Never: a field that the
//! published format does not have, or a mark where the policy is the usual one.

use crate::work_item::{TERMINATE_PREFIX, termination_reason};

/// What the recorded input of a child begins with whose policy is recorded.
const PREFIX: &str = "duroxide:close:";

/// What becomes of a child when its parent ends or drops it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OnClose {
    #[default]
    Cancel,
    Terminate,
    Leave,
}

impl OnClose {
    fn word(self) -> &'static str {
        match self {
            Self::Cancel => "request",
            Self::Terminate => "cancel",
            Self::Leave => "abandon",
        }
    }

    /// The reason that a child hears which is not left alone.
    pub(crate) fn reason(self, why: &str) -> String {
        if self == Self::Terminate && termination_reason(why).is_none() {
            format!("{TERMINATE_PREFIX}{why}")
        } else {
            why.to_owned()
        }
    }

    /// The input as it is recorded.
    pub(crate) fn in_front_of(self, input: String) -> String {
        // The author's own text must not pass for a policy.
        if self == Self::default() && !input.starts_with(PREFIX) {
            input
        } else {
            format!("{PREFIX}{}:{input}", self.word())
        }
    }

    /// The policy of a recorded child, and its input. Records without a policy have the usual one.
    pub(crate) fn of_recorded(input: &str) -> (Self, &str) {
        let parts = input
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once(':'));
        let known = parts.and_then(|(word, own)| {
            let all = [Self::Cancel, Self::Terminate, Self::Leave];
            let policy = all.into_iter().find(|one| one.word() == word)?;
            Some((policy, own))
        });
        known.unwrap_or((Self::default(), input))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_recorded_in_front_of_the_input_and_the_usual_one_is_not() {
        assert_eq!(OnClose::Cancel.in_front_of("x".to_owned()), "x");
        for policy in [OnClose::Cancel, OnClose::Terminate, OnClose::Leave] {
            for input in [
                "",
                "x",
                "{\"a\":1}",
                "duroxide:close:abandon:x",
                "duroxide:close:",
            ] {
                let recorded = policy.in_front_of(input.to_owned());
                assert_eq!(
                    OnClose::of_recorded(&recorded),
                    (policy, input),
                    "{recorded}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_policy_is_input() {
        for input in ["x", "duroxide:close:", "duroxide:close:later:x"] {
            assert_eq!(OnClose::of_recorded(input), (OnClose::Cancel, input));
        }
    }
}
