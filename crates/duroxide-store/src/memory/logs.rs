//! Events by entity and partition.

use std::collections::BTreeMap;

use crate::record::{PartitionInfo, Record};

#[derive(Debug, Default)]
pub(super) struct Logs {
    partitions: BTreeMap<(String, u64), BTreeMap<u64, Vec<u8>>>,
}

impl Logs {
    pub(super) fn contains(&self, entity: &str, partition: u64, number: u64) -> bool {
        let log = self.partitions.get(&(entity.to_owned(), partition));
        log.is_some_and(|log| log.contains_key(&number))
    }

    pub(super) fn append(&mut self, entity: String, partition: u64, events: Vec<Record>) -> u64 {
        let count = events.len() as u64;
        if count > 0 {
            let log = self.partitions.entry((entity, partition)).or_default();
            log.extend(events.into_iter().map(|event| (event.number, event.data)));
        }
        count
    }

    pub(super) fn delete(&mut self, entity: String, partition: u64) -> u64 {
        let events = self.partitions.remove(&(entity, partition));
        events.map_or(0, |events| events.len() as u64)
    }

    pub(super) fn delete_entity(&mut self, entity: &str) -> u64 {
        let partitions = self.partitions_of(entity).into_iter();
        partitions
            .map(|partition| self.delete(entity.to_owned(), partition))
            .sum()
    }

    pub(super) fn count(&self) -> u64 {
        self.partitions.values().map(|log| log.len() as u64).sum()
    }

    pub(super) fn partitions_of(&self, entity: &str) -> Vec<u64> {
        let range = (entity.to_owned(), 0)..=(entity.to_owned(), u64::MAX);
        let found = self.partitions.range(range);
        found.map(|((_, partition), _)| *partition).collect()
    }

    pub(super) fn events(
        &self,
        entity: String,
        partition: u64,
        from: u64,
        limit: usize,
    ) -> Vec<Record> {
        let log = self.partitions.get(&(entity, partition)).into_iter();
        log.flat_map(|log| log.range(from..))
            .take(limit)
            .map(|(number, data)| Record {
                number: *number,
                data: data.clone(),
            })
            .collect()
    }

    pub(super) fn info(&self, entity: String, partition: u64) -> PartitionInfo {
        let Some(log) = self.partitions.get(&(entity, partition)) else {
            return PartitionInfo::default();
        };
        PartitionInfo {
            events: log.len() as u64,
            bytes: log.values().map(|data| data.len() as u64).sum(),
            last: log.last_key_value().map_or(0, |(number, _)| *number),
        }
    }
}
