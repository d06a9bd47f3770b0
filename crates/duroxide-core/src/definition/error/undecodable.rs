//! Stored text that is not a value of the type asked for.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A stored text that is not a value of the type asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecodable {
    /// The text.
    pub text: String,
    /// The words of the decoder; empty if the text is the engine's own.
    pub error: String,
}

impl Undecodable {
    /// A stable code; docs/errors.md says what it means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "D0931"
    }

    /// What the engine says itself.
    pub(super) fn by_engine(text: String) -> Self {
        let error = String::new();
        Self { text, error }
    }
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.error.is_empty() {
            return f.write_str(&self.text);
        }
        write!(f, "`{}` does not decode: {}", self.text, self.error)
    }
}

impl Error for Undecodable {}

// `?` in functions whose error is plain text, the published form.
impl From<Undecodable> for String {
    fn from(what: Undecodable) -> Self {
        what.to_string()
    }
}
