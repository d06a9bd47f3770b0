//! Label values that come from outside: tags and names in messages. In: any text. Out: the text, or `other` once too
//! many different ones were seen. A sender of messages cannot make a recorder hold series without end.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

/// The largest number of different values of one label.
const VALUES_MAX: usize = 1_000;

/// What every further value is called.
const OTHER: &str = "other";

/// The values of one label that were seen.
#[derive(Debug, Default)]
pub(super) struct Values(RwLock<HashSet<String>>);

impl Values {
    /// The value to record.
    pub(super) fn bounded(&self, value: &str) -> String {
        let seen = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(value) {
            return value.to_owned();
        }
        let is_full = seen.len() >= VALUES_MAX;
        drop(seen);
        if is_full {
            return OTHER.to_owned();
        }
        let mut seen = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < VALUES_MAX {
            seen.insert(value.to_owned());
        }
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_takes_a_thousand_values_and_calls_the_rest_other() {
        let values = Values::default();
        for n in 0..VALUES_MAX {
            assert_eq!(values.bounded(&n.to_string()), n.to_string());
        }
        assert_eq!(values.bounded("one more"), OTHER);
        assert_eq!(values.bounded("7"), "7");
    }
}
