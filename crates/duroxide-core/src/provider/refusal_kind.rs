//! Which refusal an error of a store is. In: the message of a [`ProviderError`](super::ProviderError). Out: a
//! [`RefusalKind`].
//!
//! The published error has three fields and authors of stores build it as a literal, so it cannot carry the refusal
//! itself: the words of the message are all that crosses the contract. This file is the only one that reads them.

/// The kinds of [`Refusal`](super::rules::Refusal), without what each is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The token is unknown: never given out, already used, or taken over.
    InvalidToken,
    /// The lease of an instance ran out before the commit.
    LockExpired,
    /// The lease of an activity ran out.
    WorkLockExpired,
    /// The event is already recorded.
    DuplicateEvent,
    /// An event without a position.
    EventWithoutId,
    /// A message of this kind does not belong on this queue.
    WrongKind,
    /// Stored data does not decode.
    Undecodable,
    /// A value cannot be written as JSON, is too long, or a number does not fit.
    Unstorable,
    /// A position that the claimed batch does not have.
    NoSuchPosition,
    /// No such instance.
    InstanceNotFound,
    /// No such execution.
    ExecutionNotFound,
    /// A live instance is not deleted without force.
    StillRunning,
    /// A deletion would leave a child without its parent.
    ChildLeftBehind,
    /// The store is closed for the engine and its clients.
    Closed,
    /// A child is not deleted without its root.
    NotARoot,
}

impl RefusalKind {
    /// A stable code; docs/errors.md says what each means and what to do.
    ///
    /// ```
    /// use duroxide_core::provider::RefusalKind;
    /// assert_eq!(RefusalKind::InstanceNotFound.code(), "D0220");
    /// ```
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::InvalidToken => "D0211",
            Self::LockExpired => "D0212",
            Self::WorkLockExpired => "D0213",
            Self::DuplicateEvent => "D0214",
            Self::EventWithoutId => "D0215",
            Self::WrongKind => "D0216",
            Self::Undecodable => "D0217",
            Self::Unstorable => "D0218",
            Self::NoSuchPosition => "D0219",
            Self::InstanceNotFound => "D0220",
            Self::ExecutionNotFound => "D0221",
            Self::StillRunning => "D0222",
            Self::ChildLeftBehind => "D0223",
            Self::Closed => "D0224",
            Self::NotARoot => "D0225",
        }
    }
}

/// How a message of the contract begins and ends. What ids and names say stands between the two, so that no id is
/// taken for the words of the store.
const ENDS: [(&str, &str, RefusalKind); 11] = [
    (
        "Invalid lock token: the lease of the work item expired",
        "",
        RefusalKind::WorkLockExpired,
    ),
    ("Invalid lock token", "", RefusalKind::InvalidToken),
    ("Instance lock expired for ", "", RefusalKind::LockExpired),
    ("the store is closed", "", RefusalKind::Closed),
    ("Invalid work item type", "", RefusalKind::WrongKind),
    (
        "an event of ",
        " has no id; ids begin at 1",
        RefusalKind::EventWithoutId,
    ),
    (
        "event ",
        " is already recorded",
        RefusalKind::DuplicateEvent,
    ),
    ("Instance ", " not found", RefusalKind::InstanceNotFound),
    (
        "Instance ",
        " is running; cancel it first, or delete with force",
        RefusalKind::StillRunning,
    ),
    (
        "Cannot delete sub-orchestration ",
        "; delete the root instance instead",
        RefusalKind::NotARoot,
    ),
    (
        "Cannot delete ",
        "; delete the whole tree",
        RefusalKind::ChildLeftBehind,
    ),
];

pub(super) fn in_words_of_the_contract(message: &str) -> Option<RefusalKind> {
    let fits = |(begins, ends, _): &&(&str, &str, RefusalKind)| {
        let rest = message.strip_prefix(begins);
        rest.is_some_and(|rest| rest.ends_with(ends))
    };
    let whole = ENDS.iter().find(fits).map(|(_, _, kind)| *kind);
    whole.or_else(|| around_a_number(message)).or_else(|| {
        let place = |words: &str| message.find(words);
        match (place(" does not decode: "), place(" cannot be stored: ")) {
            (None, None) => None,
            (Some(first), Some(second)) if second < first => Some(RefusalKind::Unstorable),
            (Some(_), _) => Some(RefusalKind::Undecodable),
            (None, Some(_)) => Some(RefusalKind::Unstorable),
        }
    })
}

/// Messages whose first or last word is a number.
fn around_a_number(message: &str) -> Option<RefusalKind> {
    let is_digit = |c: char| c.is_ascii_digit();
    let execution = message.strip_prefix("Execution ");
    if execution.is_some_and(|rest| {
        let rest = rest.trim_start_matches(is_digit);
        rest.starts_with(" not found for instance ")
    }) {
        return Some(RefusalKind::ExecutionNotFound);
    }
    let batch = message.strip_prefix("the claimed batch of ")?;
    let ends = batch.trim_end_matches(is_digit).ends_with(", it has ");
    (ends && batch.contains(" has no message at position ")).then_some(RefusalKind::NoSuchPosition)
}

/// Stores of other authors, and earlier ones of ours, have sentences of their own about an instance. The published
/// contract prescribes none, so these are the phrases that its client looked for.
pub(super) fn in_other_words(message: &str, instance: &str) -> Option<RefusalKind> {
    let text = without_word(message, instance).to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    if says(&["delete sub-orchestration", "delete the root"]) {
        Some(RefusalKind::NotARoot)
    } else if says(&["not found"]) {
        Some(RefusalKind::InstanceNotFound)
    } else if says(&["still running", "is running", "are running"]) {
        Some(RefusalKind::StillRunning)
    } else {
        None
    }
}

/// The text without an id that stands in it as a word of its own: ids are the user's, and may say anything.
fn without_word(text: &str, id: &str) -> String {
    let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(id).filter(|_| !id.is_empty()) {
        let (before, after) = (&rest[..at], &rest[at + id.len()..]);
        kept.push_str(before);
        let stands_alone = is_apart(kept.chars().next_back()) && is_apart(after.chars().next());
        if !stands_alone {
            kept.push_str(id);
        }
        rest = after;
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::super::ProviderError;
    use super::super::rules::Refusal;
    use super::*;

    /// One refusal of each kind, about an instance of this id.
    fn refusals(id: &str) -> Vec<Refusal> {
        let instance = id.to_owned();
        vec![
            Refusal::InvalidToken,
            Refusal::WorkLockExpired,
            Refusal::LockExpired {
                instance: instance.clone(),
            },
            Refusal::DuplicateEvent {
                instance: instance.clone(),
                execution_id: 2,
                event_id: 3,
            },
            Refusal::EventWithoutId {
                instance: instance.clone(),
            },
            Refusal::WrongKind {
                kind: "TimerFired",
                queue: "worker",
            },
            Refusal::undecodable(format!("row of instance {id}"), "no JSON"),
            Refusal::unstorable(format!("row of instance {id}"), "too long"),
            Refusal::NoSuchPosition {
                instance: instance.clone(),
                position: 4,
                size: 2,
            },
            Refusal::InstanceNotFound {
                instance: instance.clone(),
            },
            Refusal::ExecutionNotFound {
                instance: instance.clone(),
                execution_id: 7,
            },
            Refusal::StillRunning {
                instance: instance.clone(),
            },
            Refusal::ChildLeftBehind {
                parent: instance.clone(),
                child: "c".to_owned(),
            },
            Refusal::Closed {
                reason: "moved".to_owned(),
            },
            Refusal::NotARoot {
                instance,
                parent: "p".to_owned(),
            },
        ]
    }

    #[test]
    fn every_refusal_is_recognised_whatever_its_instance_is_called() {
        for id in [
            "i",
            "not found",
            "x is running; y",
            "a not found",
            "Instance ",
            "sub-orchestration x",
        ] {
            for refusal in refusals(id) {
                let kind = refusal.kind();
                let error = refusal.into_provider_error("op");
                assert_eq!(error.refusal(), Some(kind), "{error}");
                assert_eq!(error.refusal_about(id), Some(kind), "{error}");
            }
        }
    }

    #[test]
    fn every_refusal_that_is_no_lost_lease_keeps_its_code() {
        let lost = ProviderError::lease_lost("op", "").code();
        let mut codes = std::collections::BTreeSet::new();
        for refusal in refusals("i") {
            let code = refusal.code();
            assert!(codes.insert(code), "{code} stands for two refusals");
            let error = refusal.into_provider_error("op");
            let expected = if error.is_lease_lost() { lost } else { code };
            assert_eq!(error.code(), expected, "{error}");
        }
    }

    #[test]
    fn what_may_be_retried_is_no_refusal() {
        let error = ProviderError::retryable("get", "Instance i not found");
        assert_eq!((error.refusal(), error.refusal_about("i")), (None, None));
        assert_ne!(error.code(), RefusalKind::InstanceNotFound.code());
    }

    #[test]
    fn sentences_of_other_stores_are_understood_without_their_ids() {
        let about =
            |message: &str, id: &str| ProviderError::permanent("op", message).refusal_about(id);
        for id in ["job-running-1", "sub-orchestration-1", "is running", "i"] {
            let missing = about(&format!("no luck: {id} was not found"), id);
            assert_eq!(missing, Some(RefusalKind::InstanceNotFound), "{id}");
            let running = about(&format!("{id} is still running, sorry"), id);
            assert_eq!(running, Some(RefusalKind::StillRunning), "{id}");
            let child = about(&format!("{id} has a parent; delete the root"), id);
            assert_eq!(child, Some(RefusalKind::NotARoot), "{id}");
            assert_eq!(about(&format!("{id} is read-only"), id), None);
        }
        let named = about("Instance not found is still running", "not found");
        assert_eq!(named, Some(RefusalKind::StillRunning));
    }

    #[test]
    fn a_short_id_takes_no_letters_out_of_words() {
        assert_eq!(
            without_word("Instance i is running", "i"),
            "Instance  is running"
        );
    }
}
