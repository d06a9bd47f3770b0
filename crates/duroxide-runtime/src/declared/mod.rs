//! What a program declares: its definitions as data. In: definitions. Out: lines that a file can keep and a test can
//! compare.

mod shape;

use std::any::type_name;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use duroxide_core::{Activity, Orchestration, Payload};

use shape::Shapes;

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
    /// Fingerprint of an orchestration; see [`Orchestration::fingerprint`].
    pub fingerprint: Option<u64>,
    stored: Stored,
}

/// Asks the types of a definition for their stored forms. No part of what tells two definitions apart: names of types
/// are.
#[derive(Debug, Clone, Copy)]
struct Stored(fn(&mut Shapes));

impl PartialEq for Stored {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Stored {}

impl PartialOrd for Stored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Stored {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

impl Stored {
    fn of<In: Payload, Out: Payload, Error: Payload>() -> Self {
        Self(|shapes| {
            shape::add::<In>(shapes);
            shape::add::<Out>(shapes);
            shape::add::<Error>(shapes);
        })
    }
}

impl Declared {
    pub(crate) fn activity<A: Activity>(activity: &A) -> Self {
        Self {
            kind: "activity",
            name: activity.name().to_owned(),
            version: None,
            types: types::<A::Input, A::Output, A::Error>(),
            fingerprint: None,
            stored: Stored::of::<A::Input, A::Output, A::Error>(),
        }
    }

    pub(crate) fn orchestration<O: Orchestration>(orchestration: &O) -> Self {
        Self {
            kind: "orchestration",
            name: orchestration.name().to_owned(),
            version: orchestration.version().map(str::to_owned),
            types: types::<O::Input, O::Output, O::Error>(),
            fingerprint: orchestration.fingerprint(),
            stored: Stored::of::<O::Input, O::Output, O::Error>(),
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

/// The stored forms of all structs and enums that definitions take, give or fail with, by their names as serde knows
/// them: fields with what they hold, variants with what they hold, in the order of the alphabet.
///
/// The types themselves are asked, by their `Deserialize`. What one of them keeps to itself is not seen: an untagged or
/// internally tagged enum and a flattened field say that they take anything, and a type that is written as a text says
/// no more than that.
///
/// ```
/// use duroxide::prelude::*;
/// use duroxide::runtime::stored_types;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Order {
///     item: String,
///     cents: u64,
/// }
///
/// #[duroxide::activity]
/// async fn price(order: Order) -> Result<u64, String> {
///     Ok(order.cents)
/// }
///
/// let types = stored_types(&Handlers::new().register(price).declared());
/// assert_eq!(types["Order"], "{ cents u64, item text }");
/// ```
#[must_use]
pub fn stored_types(declared: &[Declared]) -> BTreeMap<String, String> {
    let mut shapes = Shapes::new();
    for one in declared {
        (one.stored.0)(&mut shapes);
    }
    let one_line = |forms: BTreeSet<String>| {
        // Types of one name cannot be distinguished here: all their forms are named.
        let forms: Vec<String> = forms.into_iter().collect();
        forms.join(" or ")
    };
    let named = |(name, forms)| (name, one_line(forms));
    shapes.into_iter().map(named).collect()
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
