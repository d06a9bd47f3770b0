//! Messages of one queue, with the two ways to find them: by group and by key.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::Message;

#[derive(Debug, Default)]
pub(super) struct IndexedMessages {
    messages: BTreeMap<u64, Message>,
    by_group: BTreeMap<String, BTreeSet<u64>>,
    by_key: BTreeMap<(String, String), BTreeSet<u64>>,
}

impl IndexedMessages {
    pub(super) fn insert(&mut self, message: Message) {
        let id = message.id;
        let group = message.group.clone();
        if let Some(key) = &message.key {
            let address = (group.clone(), key.clone());
            self.by_key.entry(address).or_default().insert(id);
        }
        self.by_group.entry(group).or_default().insert(id);
        self.messages.insert(id, message);
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Message> {
        let message = self.messages.remove(&id)?;
        remove_from(&mut self.by_group, &message.group, &id);
        if let Some(key) = &message.key {
            let address = (message.group.clone(), key.clone());
            remove_from(&mut self.by_key, &address, &id);
        }
        Some(message)
    }

    pub(super) fn get(&self, id: u64) -> Option<&Message> {
        self.messages.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Message> {
        self.messages.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Message> {
        self.messages.values()
    }

    pub(super) fn of_group(&self, group: &str) -> Vec<u64> {
        let ids = self.by_group.get(group);
        ids.map_or_else(Vec::new, |ids| ids.iter().copied().collect())
    }

    pub(super) fn of_key(&self, group: &str, key: &str) -> Vec<u64> {
        let ids = self.by_key.get(&(group.to_owned(), key.to_owned()));
        ids.map_or_else(Vec::new, |ids| ids.iter().copied().collect())
    }

    /// Messages by number, of one group or of all.
    pub(super) fn page(&self, group: Option<&str>, after: u64, limit: usize) -> Vec<Message> {
        let Some(group) = group else {
            let above = self.messages.range(after.saturating_add(1)..);
            return above.map(|(_, m)| m.clone()).take(limit).collect();
        };
        let ids = self.by_group.get(group).into_iter().flatten();
        ids.filter(|id| **id > after)
            .filter_map(|id| self.messages.get(id).cloned())
            .take(limit)
            .collect()
    }
}

/// Removes a member and, with the last one, the set.
pub(super) fn remove_from<K: Ord, V: Ord>(
    sets: &mut BTreeMap<K, BTreeSet<V>>,
    key: &K,
    member: &V,
) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(member);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
