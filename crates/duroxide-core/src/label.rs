//! Labels: short key-value pairs by which people find instances. In: what a starter, the code or an operator gave. Out:
//! checked pairs, and how they travel. Never: a label that decides what an orchestration does.
//!
//! A start message has no field for labels, so its input carries them: who sends it puts them in front, the first turn
//! takes them off again. From there they ride with the messages carried into an execution, under a reserved queue. A
//! change by the code is recorded as a key-value under a reserved key. So events and work items keep their shape.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::event::{Event, EventKind};
use crate::ids::INITIAL_EXECUTION_ID;
use crate::rewound::Rewound;

/// Labels of an instance, by key.
pub type Labels = BTreeMap<String, String>;

/// How many labels the start and the code of an instance may set together, and how many it may have in all after an
/// operator added some.
pub const LABELS_MAX: usize = 16;
/// Longest key of a label, in bytes.
pub const LABEL_KEY_BYTES_MAX: usize = 64;
/// Longest value of a label, in bytes.
pub const LABEL_VALUE_BYTES_MAX: usize = 256;

/// The queue under which labels are carried into an execution.
#[doc(hidden)]
pub const LABELS_QUEUE: &str = "duroxide:labels";

/// What the key of a key-value begins with that is a label.
const KEY_PREFIX: &str = "duroxide:label:";

/// What the input of a start begins with that has labels.
const INPUT_PREFIX: &str = "duroxide:labels:";

/// One change of a label: a value, or none to remove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelChange {
    /// Its key.
    pub key: String,
    /// Its new value; `None` removes the label.
    pub value: Option<String>,
}

impl LabelChange {
    /// Gives the label this value.
    pub fn set(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            value: Some(value.into()),
        }
    }

    /// Removes the label.
    pub fn remove(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            value: None,
        }
    }

    /// Makes the change.
    pub fn apply(&self, labels: &mut Labels) {
        match &self.value {
            Some(value) => labels.insert(self.key.clone(), value.clone()),
            None => labels.remove(&self.key),
        };
    }
}

/// Whether a label can have this key and this value.
///
/// Keys consist of ASCII letters, digits and `.`, `_`, `-`, `/`; values have no control characters and may be empty.
///
/// # Errors
///
/// What is wrong with it, in words.
///
/// ```
/// use duroxide_core::check_label;
/// assert!(check_label("team/region", "eu west").is_ok());
/// assert!(check_label("a key", "x").is_err());
/// assert!(check_label("note", "two\nlines").is_err());
/// ```
pub fn check_label(key: &str, value: &str) -> Result<(), String> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    let bytes = (key.len(), value.len());
    match bytes {
        (0, _) => Err("the key of a label is empty".to_owned()),
        (n, _) if n > LABEL_KEY_BYTES_MAX => Err(format!(
            "the key of a label has {n} bytes, at most {LABEL_KEY_BYTES_MAX} are allowed"
        )),
        (_, n) if n > LABEL_VALUE_BYTES_MAX => Err(format!(
            "the value of label '{key}' has {n} bytes, at most {LABEL_VALUE_BYTES_MAX} are allowed"
        )),
        _ if !key.chars().all(is_fit) => Err(format!(
            "the key of label '{}' has other characters than letters, digits, '.', '_', '-' and '/'",
            key.escape_debug()
        )),
        _ if value.chars().any(char::is_control) => {
            Err(format!("the value of label '{key}' has control characters"))
        }
        _ => Ok(()),
    }
}

/// Whether an instance can have these labels: each is fit, and there are not too many.
///
/// # Errors
///
/// What is wrong with them, in words.
pub fn check_labels(labels: &Labels) -> Result<(), String> {
    for (key, value) in labels {
        check_label(key, value)?;
    }
    match labels.len() {
        n if n > LABELS_MAX => Err(format!(
            "an instance may have {LABELS_MAX} labels, these are {n}"
        )),
        _ => Ok(()),
    }
}

/// Whether a key-value under this key is a label. Stores that keep labels leave it out of the key-values.
///
/// ```
/// use duroxide_core::is_label_key;
/// assert!(is_label_key("duroxide:label:team") && !is_label_key("team"));
/// ```
#[must_use]
pub fn is_label_key(key: &str) -> bool {
    key.starts_with(KEY_PREFIX)
}

/// The key of the key-value that records a label.
#[doc(hidden)]
#[must_use]
pub fn recorded_label_key(label: &str) -> String {
    format!("{KEY_PREFIX}{label}")
}

/// The input of a start message: labels, if there are any, and the author's input.
///
/// ```
/// use duroxide_core::{Labels, labelled_input, labels_of_input};
/// let labels = Labels::from([("team".to_owned(), "blue".to_owned())]);
/// let sent = labelled_input(&labels, "three apples".to_owned());
/// assert_eq!(labels_of_input(sent), (labels, "three apples".to_owned()));
/// ```
#[must_use]
pub fn labelled_input(labels: &Labels, input: String) -> String {
    // The author's own text must not pass for labels.
    if labels.is_empty() && !input.starts_with(INPUT_PREFIX) {
        return input;
    }
    let json = written(labels);
    format!("{INPUT_PREFIX}{}:{json}{input}", json.len())
}

/// Labels and the author's input in the input of a start message. Labels that no instance could have are part of the
/// input.
#[must_use]
pub fn labels_of_input(input: String) -> (Labels, String) {
    let parts = input
        .strip_prefix(INPUT_PREFIX)
        .and_then(|rest| rest.split_once(':'))
        .and_then(|(length, rest)| rest.split_at_checked(length.parse().ok()?))
        .and_then(|(json, own)| Some((serde_json::from_str(json).ok()?, own)))
        // Text that did not pass the checks of a start holds no labels.
        .filter(|(labels, _)| check_labels(labels).is_ok());
    match parts {
        Some((labels, own)) => (labels, own.to_owned()),
        None => (Labels::new(), input),
    }
}

/// Labels as a message that is carried into an execution; `None` if there are none.
#[doc(hidden)]
#[must_use]
pub fn carried_labels(labels: &Labels) -> Option<(String, String)> {
    (!labels.is_empty()).then(|| (LABELS_QUEUE.to_owned(), written(labels)))
}

/// The labels that an execution began with.
pub(crate) fn labels_at_start(started: &EventKind) -> Labels {
    written_at_start(started).map_or_else(Labels::new, read)
}

/// The same as it is written.
fn written_at_start(started: &EventKind) -> Option<&str> {
    let EventKind::OrchestrationStarted {
        carry_forward_events: Some(carried),
        ..
    } = started
    else {
        return None;
    };
    let labels = carried.iter().find(|(queue, _)| queue == LABELS_QUEUE);
    labels.map(|(_, json)| json.as_str())
}

/// Only the engine writes them; what cannot be read is no label.
fn read(json: &str) -> Labels {
    serde_json::from_str(json).unwrap_or_default()
}

/// The labels of an instance as its code knows them. Read when they are first asked for: every turn begins with them,
/// and few orchestrations ask.
#[derive(Debug, Default)]
pub(crate) struct KnownLabels {
    written: Option<String>,
    labels: OnceCell<Labels>,
}

impl KnownLabels {
    /// Those that an execution begins with.
    pub(crate) fn at_start(started: &EventKind) -> Self {
        Self {
            written: written_at_start(started).map(str::to_owned),
            labels: OnceCell::new(),
        }
    }

    pub(crate) fn all(&self) -> &Labels {
        let first = || self.written.as_deref().map_or_else(Labels::new, read);
        self.labels.get_or_init(first)
    }

    pub(crate) fn change(&mut self) -> &mut Labels {
        self.all();
        self.written = None;
        self.labels.get_mut().expect("they were read just now")
    }
}

/// What the events of a turn change about the labels of their instance, in order. The start of a later execution
/// changes nothing: it repeats what the code knows, and an operator may have changed labels since. The start of a
/// rewound one puts back what the dropped part of the record had changed.
///
/// ```
/// use duroxide_core::{Event, EventKind, LabelChange, label_changes};
/// let set = EventKind::KeyValueSet {
///     key: "duroxide:label:team".into(), value: "blue".into(), last_updated_at_ms: 7,
/// };
/// let events = [Event::with_event_id(2, "order-7", 1, None, set)];
/// assert_eq!(label_changes(&events), [LabelChange::set("team", "blue")]);
/// ```
#[must_use]
pub fn label_changes(events: &[Event]) -> Vec<LabelChange> {
    if let Some(rewound) = Rewound::of(events) {
        // The kept part of the record changes nothing anew: an operator may have changed labels since.
        let put_back = |(key, value)| LabelChange { key, value };
        return rewound.labels.into_iter().map(put_back).collect();
    }
    let at_birth = labels_at_birth(events).into_iter();
    let given = at_birth.map(|(key, value)| LabelChange::set(key, value));
    let recorded = events
        .iter()
        .filter_map(|event| recorded_change(&event.kind));
    given.chain(recorded).collect()
}

/// The labels that an instance begins with, if these are the events of its first turn.
#[doc(hidden)]
#[must_use]
pub fn labels_at_birth(events: &[Event]) -> Labels {
    match events.first() {
        Some(first) if first.execution_id == INITIAL_EXECUTION_ID => labels_at_start(&first.kind),
        _ => Labels::new(),
    }
}

/// The labels that a history leaves, as far as its code knows them.
#[must_use]
pub fn labels_after(history: &[Event]) -> Labels {
    let mut labels = history
        .first()
        .map_or_else(Labels::new, |event| labels_at_start(&event.kind));
    for event in history {
        if let Some(change) = recorded_change(&event.kind) {
            change.apply(&mut labels);
        }
    }
    labels
}

pub(crate) fn recorded_change(kind: &EventKind) -> Option<LabelChange> {
    match kind {
        EventKind::KeyValueSet { key, value, .. } => {
            let label = key.strip_prefix(KEY_PREFIX)?;
            Some(LabelChange::set(label, value))
        }
        EventKind::KeyValueCleared { key } => key.strip_prefix(KEY_PREFIX).map(LabelChange::remove),
        _ => None,
    }
}

fn written(labels: &Labels) -> String {
    serde_json::to_string(labels).expect("a map of texts is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    #[test]
    fn every_input_comes_through_as_it_was() {
        let looks_labelled = labelled_input(&labels(&[("a", "b")]), "x".to_owned());
        for input in [
            "",
            "plain",
            INPUT_PREFIX,
            "duroxide:labels:99:{}",
            "é",
            &looks_labelled,
        ] {
            for labels in [Labels::new(), labels(&[("team", "blue: é"), ("n", "")])] {
                let sent = labelled_input(&labels, input.to_owned());
                assert_eq!(labels_of_input(sent), (labels, input.to_owned()));
            }
        }
        let plain = labelled_input(&Labels::new(), "plain".to_owned());
        assert_eq!(plain, "plain", "an input without labels is as it was");
    }

    #[test]
    fn known_labels_are_those_of_the_start_until_the_code_changes_them() {
        let given = labels(&[("team", "blue"), ("n", "7")]);
        let mut known = KnownLabels {
            written: Some(written(&given)),
            labels: OnceCell::new(),
        };
        assert_eq!(known.all(), &given);
        known.change().remove("n");
        assert_eq!(known.all(), &labels(&[("team", "blue")]));
        let mut changed_first = KnownLabels {
            written: Some(written(&given)),
            labels: OnceCell::new(),
        };
        changed_first
            .change()
            .insert("n".to_owned(), "8".to_owned());
        let expected = labels(&[("team", "blue"), ("n", "8")]);
        assert_eq!(changed_first.all(), &expected);
        assert_eq!(KnownLabels::default().all(), &Labels::new());
    }

    #[test]
    fn labels_that_no_instance_could_have_are_part_of_the_input() {
        let many = (0..=LABELS_MAX).map(|n| (n.to_string(), String::new()));
        for unfit in [many.collect(), labels(&[("a key", "")])] {
            let sent = labelled_input(&unfit, "x".to_owned());
            assert_eq!(labels_of_input(sent.clone()), (Labels::new(), sent));
        }
    }

    #[test]
    fn limits_are_inclusive() {
        let long = |n| "x".repeat(n);
        assert!(check_label(&long(LABEL_KEY_BYTES_MAX), &long(LABEL_VALUE_BYTES_MAX)).is_ok());
        assert!(check_label(&long(LABEL_KEY_BYTES_MAX + 1), "").is_err());
        assert!(check_label("k", &long(LABEL_VALUE_BYTES_MAX + 1)).is_err());
        for unfit in ["", "a b", "a=b", "a:b", "ä", "a\n"] {
            assert!(check_label(unfit, "").is_err(), "{unfit:?}");
        }
        let many = |n: usize| (0..n).map(|i| (i.to_string(), String::new())).collect();
        assert!(check_labels(&many(LABELS_MAX)).is_ok());
        assert!(check_labels(&many(LABELS_MAX + 1)).is_err());
    }
}
