//! Key-values as a history leaves them. In: events of one execution, in order. Out: the values after them. Stores,
//! replay and tests share this rule.

use std::collections::HashMap;

use super::KvEntry;
use crate::event::{Event, EventKind};

/// Applies the key-value events of a history to the values that were there before it.
///
/// ```
/// use duroxide_core::{Event, EventKind, provider::fold_key_values};
/// let set = EventKind::KeyValueSet { key: "k".into(), value: "v".into(), last_updated_at_ms: 7 };
/// let mut values = Default::default();
/// fold_key_values(&mut values, &[Event::with_event_id(2, "i", 1, None, set)]);
/// assert_eq!(values["k"].value, "v");
/// fold_key_values(&mut values, &[Event::with_event_id(3, "i", 1, None, EventKind::KeyValuesCleared)]);
/// assert!(values.is_empty());
/// ```
pub fn fold_key_values(values: &mut HashMap<String, KvEntry>, history: &[Event]) {
    for event in history {
        match &event.kind {
            EventKind::KeyValueSet {
                key,
                value,
                last_updated_at_ms,
            } => {
                let entry = KvEntry {
                    value: value.clone(),
                    last_updated_at_ms: *last_updated_at_ms,
                };
                values.insert(key.clone(), entry);
            }
            EventKind::KeyValueCleared { key } => {
                values.remove(key);
            }
            EventKind::KeyValuesCleared => values.clear(),
            _ => {}
        }
    }
}
