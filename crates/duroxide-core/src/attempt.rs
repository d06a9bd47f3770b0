//! How an activity learns that it is a further attempt of the same call.
//!
//! Each attempt of a retried call is an activity of its own, with a scheduling event of its own. The work item has no field
//! for the first one, so its input carries it: the engine puts it in front, the worker takes it off again. Histories hold the
//! author's input alone.

/// What the input of a work item begins with that names the first attempt.
const PREFIX: &str = "duroxide:attempt-of:";

/// The input of a work item: the author's, with the first attempt in front where the activity could not know it.
pub(crate) fn wrapped(first: Option<u64>, own: u64, input: String) -> String {
    match first {
        Some(first) => format!("{PREFIX}{first}:{input}"),
        // The author's own text, which must not pass for an attempt.
        None if input.starts_with(PREFIX) => format!("{PREFIX}{own}:{input}"),
        None => input,
    }
}

/// The first attempt of the call that a work item belongs to, by its scheduling event, and the author's input. Without a
/// first attempt the work item is the first itself.
///
/// ```
/// use duroxide_core::attempt_of;
/// assert_eq!(attempt_of("three apples"), (None, "three apples"));
/// assert_eq!(attempt_of("duroxide:attempt-of:2:three apples"), (Some(2), "three apples"));
/// ```
#[must_use]
pub fn attempt_of(input: &str) -> (Option<u64>, &str) {
    let parts = input
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.split_once(':'));
    match parts.map(|(first, own)| (first.parse(), own)) {
        Some((Ok(first), own)) => (Some(first), own),
        _ => (None, input),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_comes_through_as_it_was() {
        let looks_like_one = format!("{PREFIX}7:x");
        for input in [
            "",
            "plain",
            PREFIX,
            "duroxide:attempt-of:x:y",
            &looks_like_one,
        ] {
            for first in [None, Some(2), Some(u64::MAX)] {
                let sent = wrapped(first, 9, input.to_owned());
                let (named, own) = attempt_of(&sent);
                assert_eq!(own, input);
                assert_eq!(named.unwrap_or(9), first.unwrap_or(9));
            }
        }
    }
}
