//! Queue messages that are taken once. In: a message and the key that its sender gave it. Out: one text that travels
//! and is recorded as the message's data, the two parts again, and which keys an instance has seen. Never: a store that
//! must know.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::label::LABELS_QUEUE;
use crate::rewound::REWIND_QUEUE;
use crate::start::START_QUEUE;

/// What the data of a queue message begins with that has a key.
const PREFIX: &str = "duroxide:key:";

/// What names of queues begin with that are the engine's own.
pub const RESERVED_QUEUE_PREFIX: &str = "duroxide:";

/// Refuses the name of a queue that programs must not send to, with the reason.
#[doc(hidden)]
pub fn check_queue_name(name: &str) -> Result<(), String> {
    if name.starts_with(RESERVED_QUEUE_PREFIX) {
        return Err(format!(
            "queue '{name}' uses the reserved prefix '{RESERVED_QUEUE_PREFIX}'"
        ));
    }
    Ok(())
}

/// The queue in which an execution hands the keys it has seen to the next one.
#[doc(hidden)]
pub const KEYS_QUEUE: &str = "duroxide:keys";

/// Whether the engine carries something of its own under this queue. Requests travel on reserved queues too, and are
/// messages.
#[doc(hidden)]
#[must_use]
pub fn is_engine_queue(name: &str) -> bool {
    name == KEYS_QUEUE || name == REWIND_QUEUE || is_start_queue(name)
}

/// Whether what a start carries beside its input rides under this queue. It becomes no event of its own.
#[doc(hidden)]
#[must_use]
pub fn is_start_queue(name: &str) -> bool {
    matches!(name, LABELS_QUEUE | START_QUEUE)
}

/// How many keys of messages an instance remembers, the latest ones. A message whose key has been forgotten is taken
/// again.
pub const MESSAGE_KEYS_MAX: usize = 256;

/// How long the key of a message, or the id of a request, may be, in bytes.
pub const MESSAGE_KEY_BYTES_MAX: usize = 512;

/// Why this cannot be the key of a message or the id of a request.
#[doc(hidden)]
#[must_use]
pub fn unfit_key(key: &str) -> Option<String> {
    match key.len() {
        0 => Some("the deduplication key is empty".to_owned()),
        length if length > MESSAGE_KEY_BYTES_MAX => Some(format!(
            "the deduplication key has {length} bytes, at most {MESSAGE_KEY_BYTES_MAX} are allowed"
        )),
        _ => None,
    }
}

/// The data of a queue message with this key.
///
/// ```
/// use duroxide_core::{keyed_message, message_parts};
/// let data = keyed_message("invoice-7", "paid");
/// assert_eq!(message_parts(&data), (Some("invoice-7"), "paid"));
/// assert_eq!(message_parts("paid"), (None, "paid"));
/// ```
#[must_use]
pub fn keyed_message(key: &str, message: &str) -> String {
    format!("{PREFIX}{}:{key}{message}", key.len())
}

/// The data of a queue message without a key: the message itself, unless it could pass for one that has a key.
#[must_use]
pub fn plain_message(message: String) -> String {
    if message.starts_with(PREFIX) {
        keyed_message("", &message)
    } else {
        message
    }
}

/// Key and message in the data of a queue message.
#[must_use]
pub fn message_parts(data: &str) -> (Option<&str>, &str) {
    let parts = data
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.split_once(':'))
        .and_then(|(length, rest)| rest.split_at_checked(length.parse().ok()?));
    match parts {
        Some(("", message)) => (None, message),
        Some((key, message)) => (Some(key), message),
        None => (None, data),
    }
}

/// Why a message did not reach an instance.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Undelivered {
    /// The instance has ended; nothing takes its messages.
    #[error("instance {instance} has ended")]
    Ended {
        /// The instance.
        instance: String,
    },
    /// The store knows neither an instance of this id nor a start for one: it was never started, or it was deleted.
    #[error("there is no instance {instance}")]
    NotFound {
        /// The instance.
        instance: String,
    },
    /// The message cannot be sent as it is.
    #[error("the message cannot be sent: {why}")]
    Refused {
        /// The reason.
        why: String,
    },
}

impl Undelivered {
    /// A stable code; docs/errors.md says what each means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Ended { .. } => "D0150",
            Self::NotFound { .. } => "D0151",
            Self::Refused { .. } => "D0152",
        }
    }
}

/// The keys of the messages that an instance took in, the latest ones, across executions.
#[derive(Debug, Default)]
pub(crate) struct SeenKeys {
    order: VecDeque<(String, String)>,
    known: BTreeSet<(String, String)>,
}

impl SeenKeys {
    pub(crate) fn contains(&self, queue: &str, key: &str) -> bool {
        // A set of pairs of owned texts cannot be asked with borrowed ones; keyed messages are few.
        self.known.contains(&(queue.to_owned(), key.to_owned()))
    }

    pub(crate) fn insert(&mut self, queue: &str, key: &str) {
        let pair = (queue.to_owned(), key.to_owned());
        if !self.known.insert(pair.clone()) {
            return;
        }
        self.order.push_back(pair);
        if self.order.len() > MESSAGE_KEYS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// A queue message was recorded: its key, or the keys that an earlier execution handed on.
    pub(crate) fn note(&mut self, queue: &str, data: &str) {
        match (queue, message_parts(data).0) {
            (KEYS_QUEUE, _) => self.take_over(data),
            (_, Some(key)) => self.insert(queue, key),
            (_, None) => {}
        }
    }

    /// Takes over what an earlier execution wrote. What cannot be read is no key.
    pub(crate) fn take_over(&mut self, text: &str) {
        let pairs: Vec<(String, String)> = serde_json::from_str(text).unwrap_or_default();
        for (queue, key) in pairs {
            self.insert(&queue, &key);
        }
    }

    /// For the next execution; `None` if there are none.
    pub(crate) fn handed_on(&self) -> Option<String> {
        if self.order.is_empty() {
            return None;
        }
        serde_json::to_string(&self.order).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_through_as_it_was() {
        let keyed = keyed_message("k", "x");
        for message in [
            "",
            "plain",
            PREFIX,
            "duroxide:key:x:y",
            "duroxide:key:99:short",
            &keyed,
        ] {
            assert_eq!(
                message_parts(&plain_message(message.to_owned())),
                (None, message)
            );
            for key in ["k", "a:b", "é 7"] {
                let data = keyed_message(key, message);
                assert_eq!(message_parts(&data), (Some(key), message));
            }
        }
    }

    #[test]
    fn the_latest_keys_are_remembered() {
        let mut seen = SeenKeys::default();
        for n in 0..=MESSAGE_KEYS_MAX {
            seen.insert("orders", &n.to_string());
        }
        assert!(!seen.contains("orders", "0"), "the oldest is forgotten");
        assert!(seen.contains("orders", "1") && !seen.contains("other", "1"));
        let mut next = SeenKeys::default();
        next.take_over(&seen.handed_on().expect("there are keys"));
        assert!(next.contains("orders", "256") && !next.contains("orders", "0"));
        next.take_over("not a list");
    }
}
