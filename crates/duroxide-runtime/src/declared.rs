//! What a program declares: its definitions as data. In: definitions. Out: lines that a file can keep and a test can compare.

use std::any::type_name;
use std::fmt;

use duroxide_core::{Activity, Orchestration};

/// A definition that was registered: kind, name, version, types, and a number that follows from its code.
///
/// ```
/// use duroxide::prelude::*;
///
/// #[duroxide::orchestration(version = "1.1.0")]
/// async fn order(_ctx: OrchestrationContext, cents: u64) -> Result<String, String> {
///     Ok(format!("{cents} cents"))
/// }
///
/// let declared = Handlers::new().register(order).declared();
/// assert_eq!(declared[0].key(), "orchestration order 1.1.0");
/// assert!(declared[0].to_string().starts_with("orchestration order 1.1.0: u64 -> String, String; code "));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Declared {
    /// `activity` or `orchestration`.
    pub kind: &'static str,
    /// The registered name.
    pub name: String,
    /// The version of an orchestration, if its definition states one.
    pub version: Option<String>,
    /// Input, output and error, as the code names them, without modules.
    pub types: String,
    /// Of an orchestration; see [`Orchestration::fingerprint`].
    pub fingerprint: Option<u64>,
}

impl Declared {
    pub(crate) fn activity<A: Activity>(activity: &A) -> Self {
        Self {
            kind: "activity",
            name: activity.name().to_owned(),
            version: None,
            types: types::<A::Input, A::Output, A::Error>(),
            fingerprint: None,
        }
    }

    pub(crate) fn orchestration<O: Orchestration>(orchestration: &O) -> Self {
        Self {
            kind: "orchestration",
            name: orchestration.name().to_owned(),
            version: orchestration.version().map(str::to_owned),
            types: types::<O::Input, O::Output, O::Error>(),
            fingerprint: orchestration.fingerprint(),
        }
    }

    /// What tells it from all others.
    #[must_use]
    pub fn key(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {} {version}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key(), self.types)?;
        match self.fingerprint {
            Some(fingerprint) => write!(f, "; code {fingerprint:016x}"),
            None => Ok(()),
        }
    }
}

fn types<In, Out, Error>() -> String {
    let (input, output, error) = (type_name::<In>(), type_name::<Out>(), type_name::<Error>());
    format!("{} -> {}, {}", short(input), short(output), short(error))
}

/// A type's name without modules: they move, and nothing that is stored changes.
fn short(name: &str) -> String {
    let mut shown = String::new();
    let mut word = String::new();
    for letter in name.chars() {
        match letter {
            ':' => word.clear(),
            letter if letter.is_alphanumeric() || letter == '_' => word.push(letter),
            other => {
                shown.push_str(&std::mem::take(&mut word));
                shown.push(other);
            }
        }
    }
    shown + &word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types_lose_their_modules() {
        let name = "core::option::Option<(shop::order::Order, &str, [u8; 4])>";
        assert_eq!(short(name), "Option<(Order, &str, [u8; 4])>");
    }
}
