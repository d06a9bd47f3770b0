//! Key-values of an instance: changes of the running execution lie over the values of the executions before it, and
//! are merged into them when the execution ends, unless it failed: it may be rewound, and its changes are dropped then.

use std::collections::BTreeMap;

use duroxide_core::provider::rules;
use duroxide_core::{Event, EventKind, is_label_key};

use crate::adapter::error::Result;
use crate::adapter::names;
use crate::adapter::rows::{self, KvRow};
use crate::atomic::Operation;

/// What is stored before the turn.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) base: Vec<String>,
    pub(super) delta: BTreeMap<String, Layer>,
}

/// A change of the running execution as it is stored.
#[derive(Debug)]
pub(super) struct Layer {
    /// `None` if it does not decode; it is then carried along as it is.
    pub(super) row: Option<KvRow>,
    pub(super) raw: Vec<u8>,
}

pub(super) fn touches(event: &Event) -> bool {
    match &event.kind {
        EventKind::KeyValueSet { key, .. } | EventKind::KeyValueCleared { key } => {
            !is_label_key(key)
        }
        EventKind::KeyValuesCleared => true,
        _ => false,
    }
}

/// The writes of a turn: its changes, merged if that is due.
pub(super) fn plan(
    instance: &str,
    (history, status): (&[Event], Option<&str>),
    stored: &Stored,
    now_ms: u64,
) -> Result<Vec<Operation>> {
    let changed = changes(history, stored, now_ms);
    if status.is_some_and(rules::merges_key_values) {
        return merge(instance, &stored.delta, changed);
    }
    let scope = names::kv_delta(instance);
    let mut operations = Vec::new();
    if rules::begins_later_execution(history) {
        // What an execution that failed has changed.
        operations.push(Operation::DeleteScope {
            scope: scope.clone(),
        });
    }
    for (key, row) in changed {
        operations.push(put(&scope, key, &row)?);
    }
    Ok(operations)
}

fn changes(events: &[Event], stored: &Stored, now_ms: u64) -> BTreeMap<String, KvRow> {
    let hidden = || KvRow {
        value: None,
        at: now_ms,
    };
    let mut changed = BTreeMap::new();
    for event in events.iter().filter(|event| touches(event)) {
        match &event.kind {
            EventKind::KeyValueSet {
                key,
                value,
                last_updated_at_ms,
            } => {
                let row = KvRow {
                    value: Some(value.clone()),
                    at: *last_updated_at_ms,
                };
                changed.insert(key.clone(), row);
            }
            EventKind::KeyValueCleared { key } => {
                changed.insert(key.clone(), hidden());
            }
            EventKind::KeyValuesCleared => {
                changed.values_mut().for_each(|row| *row = hidden());
                for key in stored.base.iter().chain(stored.delta.keys()) {
                    changed.insert(key.clone(), hidden());
                }
            }
            _ => {}
        }
    }
    changed
}

fn merge(
    instance: &str,
    delta: &BTreeMap<String, Layer>,
    changed: BTreeMap<String, KvRow>,
) -> Result<Vec<Operation>> {
    let base = names::kv_base(instance);
    let mut operations = Vec::with_capacity(delta.len() + changed.len() + 1);
    let unchanged = delta.iter().filter(|(key, _)| !changed.contains_key(*key));
    for (key, layer) in unchanged {
        let (scope, key) = (base.clone(), key.clone());
        operations.push(match &layer.row {
            Some(row) if row.value.is_none() => Operation::Delete { scope, key },
            _ => Operation::Put {
                scope,
                key,
                value: layer.raw.clone(),
            },
        });
    }
    for (key, row) in changed {
        operations.push(match row.value {
            Some(_) => put(&base, key, &row)?,
            None => Operation::Delete {
                scope: base.clone(),
                key,
            },
        });
    }
    if !delta.is_empty() {
        operations.push(Operation::DeleteScope {
            scope: names::kv_delta(instance),
        });
    }
    Ok(operations)
}

fn put(scope: &str, key: String, row: &KvRow) -> Result<Operation> {
    Ok(Operation::Put {
        scope: scope.to_owned(),
        key,
        value: rows::encode(row)?,
    })
}
