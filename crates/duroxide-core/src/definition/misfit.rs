//! The engine's own words for values that do not fit their types. In: what did not fit. Out: the text that a worker
//! stores, and whether a stored text is one of these. Errors that decode from any text (`String`, `serde_json::Value`)
//! would swallow them.

/// The text of a worker that reports the panic of an activity begins so.
const PANICKED: &str = "activity panicked";
/// What the engine says of an orchestration that it did not begin.
const REFUSALS: [(&str, &str); 2] = [
    ("the input of the orchestration does not decode: ", ""),
    ("sub-orchestration instance id '", "' already exists"),
];

/// A value of an activity that does not fit its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
pub enum Misfit {
    /// The input does not decode.
    Input,
    /// The output does not encode.
    Output,
    /// The error does not encode.
    Error,
}

impl Misfit {
    const ALL: [Self; 3] = [Self::Input, Self::Output, Self::Error];

    /// What stands before and after the name of the activity.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Input => ("the input of activity '", "' does not decode: "),
            Self::Output => ("the output of activity '", "' does not encode: "),
            Self::Error => ("the error of activity '", "' does not encode: "),
        }
    }

    /// The text that a worker stores.
    #[must_use]
    pub fn of_activity(self, name: &str, why: &str) -> String {
        let (before, after) = self.words();
        format!("{before}{name}{after}{why}")
    }
}

/// Whether a worker said by this text that a value did not fit.
pub(super) fn is_misfit(text: &str) -> bool {
    Misfit::ALL
        .iter()
        .any(|misfit| frames(misfit.words(), text))
}

/// Whether a worker said by this text that the activity panicked.
pub(super) fn is_panic(text: &str) -> bool {
    text.strip_prefix(PANICKED)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(": "))
}

/// Whether the engine said by this text that it did not begin an orchestration.
pub(super) fn is_refusal(text: &str) -> bool {
    REFUSALS.iter().any(|words| frames(*words, text))
}

fn frames((before, after): (&str, &str), text: &str) -> bool {
    text.strip_prefix(before)
        .is_some_and(|rest| rest.contains(after))
}
