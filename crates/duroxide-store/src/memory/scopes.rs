//! Entries by scope and key.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::record::Entry;

#[derive(Debug, Default)]
pub(super) struct Scopes {
    scopes: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
}

impl Scopes {
    pub(super) fn get(&self, scope: &str, key: &str) -> Option<&Vec<u8>> {
        self.scopes.get(scope)?.get(key)
    }

    pub(super) fn keys(&self, scope: &str) -> impl Iterator<Item = &String> {
        self.scopes.get(scope).into_iter().flat_map(BTreeMap::keys)
    }

    pub(super) fn count(&self, scope: &str) -> u64 {
        self.scopes
            .get(scope)
            .map_or(0, |entries| entries.len() as u64)
    }

    pub(super) fn page(&self, scope: &str, after: Option<&str>, limit: usize) -> Vec<Entry> {
        let above = after.map_or(Bound::Unbounded, Bound::Excluded);
        let scope = self.scopes.get(scope).into_iter();
        scope
            .flat_map(|entries| entries.range::<str, _>((above, Bound::Unbounded)))
            .take(limit)
            .map(|(key, value)| Entry {
                key: key.clone(),
                value: value.clone(),
            })
            .collect()
    }

    pub(super) fn put(&mut self, scope: String, key: String, value: Vec<u8>) -> u64 {
        self.scopes.entry(scope).or_default().insert(key, value);
        1
    }

    pub(super) fn delete(&mut self, scope: &str, key: &str) -> u64 {
        let Some(entries) = self.scopes.get_mut(scope) else {
            return 0;
        };
        let deleted = entries.remove(key).is_some();
        if entries.is_empty() {
            self.scopes.remove(scope);
        }
        u64::from(deleted)
    }

    pub(super) fn delete_scope(&mut self, scope: &str) -> u64 {
        let entries = self.scopes.remove(scope);
        entries.map_or(0, |entries| entries.len() as u64)
    }
}
