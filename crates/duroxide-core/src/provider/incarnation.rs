//! Which life of an id: what tells an instance from an earlier one that was deleted and started again.

use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// One life of an instance id, drawn at random by the store when it creates the instance.
///
/// Ids are reused: an instance is deleted and another is started under its id, with the same execution and event
/// numbers. Whatever is remembered about an instance outside its row is remembered together with this number and
/// compared by it.
///
/// ```
/// use duroxide_core::provider::Incarnation;
/// let life = Incarnation::from_random(0xF00D_0000_0000_0007);
/// assert_eq!(Incarnation::from_stored(life.to_stored()), Some(life));
/// assert_eq!(Incarnation::from_stored(0), None);
/// assert_eq!(Incarnation::try_from(life.to_string()), Ok(life));
/// ```
/// As JSON it is the text that `Display` shows: other tools would round a number of this size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Incarnation(NonZeroU64);

impl Incarnation {
    /// A new life from random bits; 63 of them are used, so that every database can store it as an integer.
    #[must_use]
    pub fn from_random(bits: u64) -> Self {
        Self(NonZeroU64::new(bits >> 1).unwrap_or(NonZeroU64::MIN))
    }

    /// As a store wrote it; `None` if it is no incarnation.
    #[must_use]
    pub fn from_stored(number: i64) -> Option<Self> {
        u64::try_from(number)
            .ok()
            .and_then(NonZeroU64::new)
            .map(Self)
    }

    /// The number to store: positive.
    #[must_use]
    pub fn to_stored(self) -> i64 {
        self.0.get().cast_signed()
    }
}

impl From<Incarnation> for String {
    fn from(life: Incarnation) -> Self {
        life.to_string()
    }
}

impl TryFrom<String> for Incarnation {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = i64::from_str_radix(&text, 16).ok();
        let life = number.and_then(Self::from_stored);
        life.ok_or_else(|| format!("`{text}` is no incarnation"))
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incarnation({self})")
    }
}
