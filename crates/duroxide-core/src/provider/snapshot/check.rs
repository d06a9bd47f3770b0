//! Checks a snapshot before a restore; it may come from a file that was edited by hand. In: a snapshot. Out: what is
//! wrong with it. Text that does not decode is accepted, because the source store held it too.

use std::collections::BTreeSet;

use super::super::rules;
use super::{InstanceSnapshot, QueuedActivity};
use crate::WorkItem;

/// The largest number that every database stores.
const MAX: u64 = i64::MAX.cast_unsigned();

impl InstanceSnapshot {
    /// Checks that a store can keep it: numbers that count, and nothing that belongs to another instance.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for execution in &self.executions {
            let id = execution.execution_id;
            countable(id, "an execution")?;
            if !seen.insert(id) {
                return Err(format!("execution {id} comes twice"));
            }
            let mut events = BTreeSet::new();
            for event in &execution.events {
                countable(event.id, "an event")?;
                if !events.insert(event.id) {
                    return Err(format!("event {} of execution {id} comes twice", event.id));
                }
            }
        }
        if let Some(record) = &self.record {
            countable(record.execution_id, "the current execution")?;
        } else if !self.key_values.is_empty() || !self.key_value_changes.is_empty() {
            return Err("key-values need an instance".to_owned());
        }
        for heartbeat in &self.heartbeats {
            countable(heartbeat.execution_id, "the execution of a heartbeat")?;
            countable(heartbeat.call_id, "the call of a heartbeat")?;
            if !seen.contains(&heartbeat.execution_id) {
                return Err("a heartbeat needs its execution".to_owned());
            }
        }
        if self.key_values.iter().any(|it| it.value.is_none()) {
            return Err("a key-value has no value".to_owned());
        }
        for message in &self.messages {
            if let Ok(item) = rules::work_item_from_json(message.json.as_bytes()) {
                self.owns(&item)?;
                if matches!(item, WorkItem::ActivityExecute { .. }) {
                    return Err("an activity lies among the messages".to_owned());
                }
            }
        }
        self.activities
            .iter()
            .try_for_each(|it| self.check_activity(it))
    }

    fn check_activity(&self, activity: &QueuedActivity) -> Result<(), String> {
        let Ok(item) = rules::work_item_from_json(activity.json.as_bytes()) else {
            // It has the numbers that its store found, if any.
            let is_stored = activity.execution_id.max(activity.activity_id) <= MAX;
            let unstorable = || "an activity has a number that no store keeps".to_owned();
            return is_stored.then_some(()).ok_or_else(unstorable);
        };
        countable(activity.execution_id, "the execution of an activity")?;
        countable(activity.activity_id, "an activity")?;
        self.owns(&item)?;
        let Ok(decoded) = rules::activity(&item) else {
            return Err("a message lies among the activities".to_owned());
        };
        let (execution_id, id) = (activity.execution_id, activity.activity_id);
        if (decoded.execution_id, decoded.id) != (execution_id, id) {
            return Err(format!(
                "activity {id} of execution {execution_id} says it is another one"
            ));
        }
        if decoded.tag != activity.tag.as_deref()
            || decoded.session_id != activity.session.as_deref()
            || Some(decoded.name) != activity.name.as_deref()
        {
            return Err(format!("activity {id} contradicts itself"));
        }
        Ok(())
    }

    fn owns(&self, item: &WorkItem) -> Result<(), String> {
        let target = item.target_instance();
        if target == self.instance_id {
            return Ok(());
        }
        Err(format!(
            "something for `{target}` lies with `{}`",
            self.instance_id
        ))
    }
}

fn countable(number: u64, what: &str) -> Result<(), String> {
    if (1..=MAX).contains(&number) {
        return Ok(());
    }
    Err(format!("{what} has the number {number}"))
}
