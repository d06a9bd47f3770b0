//! The orchestrator side: claim an instance with its messages, commit a turn, give it back.

use std::collections::BTreeSet;
use std::time::Duration;

use duroxide_core::provider::{
    DispatcherCapabilityFilter, ExecutionMetadata, KvEntry, OrchestrationItem,
    ScheduledActivityIdentifier,
};
use duroxide_core::{Event, EventKind, WorkItem};

use super::state::{Execution, Instance, Lease, Result, State, lost, ms, new_token};

/// Everything one turn writes: committed together or not at all.
pub(crate) struct Commit {
    pub(crate) token: String,
    pub(crate) execution: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) work: Vec<WorkItem>,
    pub(crate) messages: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}

/// What a claimed instance is called, and in which execution it is.
struct Identity {
    name: String,
    version: String,
    execution: u64,
}

impl State {
    pub(crate) fn claim_turn(
        &mut self,
        now: u64,
        lease: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Option<(OrchestrationItem, String, u32)> {
        for instance in self.ready(now) {
            if !self.is_admitted(&instance, filter) {
                continue;
            }
            let rows = self.visible_rows(&instance, now);
            match self.identity(&instance, &rows) {
                Some(identity) => return Some(self.take(&instance, &rows, identity, now, lease)),
                None => self.drop_if_only_queue_messages(&rows),
            }
        }
        None
    }

    /// Instances with a visible message and without a valid lease, oldest message first.
    fn ready(&self, now: u64) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let visible = self.messages.values().filter(|m| m.visible_at <= now);
        let free = visible.filter(|m| self.leases.get(&m.instance).is_none_or(|l| l.until <= now));
        let first = free.filter(|m| seen.insert(m.instance.clone()));
        first.map(|m| m.instance.clone()).collect()
    }

    fn is_admitted(&self, instance: &str, filter: Option<&DispatcherCapabilityFilter>) -> bool {
        let pinned = self
            .current(instance)
            .and_then(|execution| execution.pinned.as_ref());
        match (filter, pinned) {
            (None, _) => true,
            (Some(filter), None) => !filter.supported_duroxide_versions.is_empty(),
            (Some(filter), Some(version)) => filter.is_compatible(version),
        }
    }

    fn visible_rows(&self, instance: &str, now: u64) -> Vec<u64> {
        let visible = |m: &super::state::Message| m.instance == instance && m.visible_at <= now;
        let rows = self.messages.iter().filter(|(_, m)| visible(m));
        rows.map(|(row, _)| *row).collect()
    }

    /// From the instance row, else from its history, else from a start among the messages.
    fn identity(&self, instance: &str, rows: &[u64]) -> Option<Identity> {
        if let Some(row) = self.instances.get(instance) {
            let (name, version) = (row.name.clone(), row.version.clone());
            let execution = row.execution;
            return Some(Identity {
                name,
                version,
                execution,
            });
        }
        if let Some(execution) = self.latest(instance) {
            let history = self.read_execution(instance, execution).unwrap_or_default();
            let (name, version) = history.iter().find_map(Event::started_handler)?;
            return Some(Identity {
                name,
                version,
                execution,
            });
        }
        rows.iter().find_map(|row| match &self.messages[row].item {
            WorkItem::StartOrchestration {
                orchestration,
                version,
                ..
            }
            | WorkItem::ContinueAsNew {
                orchestration,
                version,
                ..
            } => Some(Identity {
                name: orchestration.clone(),
                version: version.clone().unwrap_or_else(|| "unknown".into()),
                execution: 1,
            }),
            _ => None,
        })
    }

    /// Queue messages for nobody are dropped; anything else may have overtaken its start and waits.
    fn drop_if_only_queue_messages(&mut self, rows: &[u64]) {
        let is_queue = |row: &u64| matches!(self.messages[row].item, WorkItem::QueueMessage { .. });
        if rows.iter().all(is_queue) {
            self.messages.retain(|row, _| !rows.contains(row));
        }
    }

    fn take(
        &mut self,
        instance: &str,
        rows: &[u64],
        identity: Identity,
        now: u64,
        lease: Duration,
    ) -> (OrchestrationItem, String, u32) {
        let token = new_token();
        let until = now.saturating_add(ms(lease));
        self.leases.insert(
            instance.to_owned(),
            Lease {
                token: token.clone(),
                until,
            },
        );
        let (mut messages, mut attempt) = (Vec::new(), 0);
        for row in rows {
            let message = self.messages.get_mut(row).expect("the row was just seen");
            message.token = Some(token.clone());
            message.attempts += 1;
            attempt = attempt.max(message.attempts);
            messages.push(message.item.clone());
        }
        let (history, history_error) = match self.read_execution(instance, identity.execution) {
            Ok(history) => (history, None),
            Err(error) => (Vec::new(), Some(error.message)),
        };
        let kv = self.instances.get(instance).map(|row| row.kv_base.clone());
        let item = OrchestrationItem {
            instance: instance.to_owned(),
            orchestration_name: identity.name,
            execution_id: identity.execution,
            version: identity.version,
            history,
            messages,
            history_error,
            kv_snapshot: kv.unwrap_or_default().into_iter().collect(),
        };
        (item, token, attempt)
    }

    /// The instance that this token holds now.
    fn held(&self, token: &str, now: u64) -> Option<String> {
        let mut leases = self.leases.iter();
        let held = leases.find(|(_, lease)| lease.token == token && lease.until > now);
        held.map(|(instance, _)| instance.clone())
    }

    /// Checks everything first, so that a rejected commit leaves no trace.
    pub(crate) fn commit(&mut self, commit: Commit, now: u64) -> Result<()> {
        let instance = self
            .held(&commit.token, now)
            .ok_or_else(|| lost("ack_orchestration_item"))?;
        self.check_events(&instance, commit.execution, &commit.events)?;

        self.messages
            .retain(|_, m| m.token.as_deref() != Some(commit.token.as_str()));
        self.leases.remove(&instance);
        self.append(&instance, commit.execution, &commit.events, now);
        self.write_rows(&instance, &commit, now);
        self.apply_events(&instance, &commit, now);
        for item in commit.work {
            self.schedule(item, now);
        }
        // After scheduling, so that an activity scheduled and cancelled in one turn never runs.
        for cancelled in &commit.cancelled {
            self.cancel(cancelled);
        }
        for item in commit.messages {
            let visible_at = match item {
                WorkItem::TimerFired { fire_at_ms, .. } => fire_at_ms,
                _ => now,
            };
            self.send(item, visible_at);
        }
        Ok(())
    }

    fn write_rows(&mut self, instance: &str, commit: &Commit, now: u64) {
        let metadata = &commit.metadata;
        let row = self.next_row();
        if let (Some(name), Some(version)) = (
            &metadata.orchestration_name,
            &metadata.orchestration_version,
        ) {
            let known = self
                .instances
                .entry(instance.to_owned())
                .or_insert_with(|| Instance {
                    row,
                    name: String::new(),
                    version: String::new(),
                    execution: commit.execution,
                    parent: metadata.parent_instance_id.clone(),
                    created_at: now,
                    updated_at: now,
                    custom_status: None,
                    custom_status_version: 0,
                    kv_base: Default::default(),
                    kv_delta: Default::default(),
                });
            known.name.clone_from(name);
            known.version.clone_from(version);
        }
        if let Some(known) = self.instances.get_mut(instance) {
            known.execution = known.execution.max(commit.execution);
            known.updated_at = now;
        }
        let key = (instance.to_owned(), commit.execution);
        let execution = self
            .executions
            .entry(key)
            .or_insert_with(|| Execution::begun(now));
        if let Some(version) = &metadata.pinned_duroxide_version {
            execution.pinned = Some(version.clone());
        }
        if let Some(status) = &metadata.status {
            execution.status.clone_from(status);
            execution.output.clone_from(&metadata.output);
            execution.completed_at = (status != "Running").then_some(now);
        }
    }

    /// Custom status and key-values, the only events a store looks into.
    fn apply_events(&mut self, instance: &str, commit: &Commit, now: u64) {
        let Some(row) = self.instances.get_mut(instance) else {
            return;
        };
        let mut status = None;
        for event in &commit.events {
            match &event.kind {
                EventKind::CustomStatusUpdated { status: new } => status = Some(new.clone()),
                EventKind::KeyValueSet {
                    key,
                    value,
                    last_updated_at_ms,
                } => {
                    let entry = KvEntry {
                        value: value.clone(),
                        last_updated_at_ms: *last_updated_at_ms,
                    };
                    row.kv_delta.insert(key.clone(), Some(entry));
                }
                EventKind::KeyValueCleared { key } => drop(row.kv_delta.insert(key.clone(), None)),
                EventKind::KeyValuesCleared => {
                    let keys = row.kv_base.keys().chain(row.kv_delta.keys());
                    row.kv_delta = keys.map(|key| (key.clone(), None)).collect();
                }
                _ => {}
            }
        }
        if let Some(status) = status {
            row.custom_status = status;
            row.custom_status_version += 1;
        }
        row.updated_at = now;
        if matches!(
            commit.metadata.status.as_deref(),
            Some("Completed" | "Failed" | "ContinuedAsNew")
        ) {
            for (key, entry) in std::mem::take(&mut row.kv_delta) {
                match entry {
                    Some(entry) => drop(row.kv_base.insert(key, entry)),
                    None => drop(row.kv_base.remove(&key)),
                }
            }
        }
    }

    pub(crate) fn abandon_turn(
        &mut self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
        now: u64,
    ) -> Result<()> {
        let known = self.leases.iter().find(|(_, lease)| lease.token == token);
        let instance = known.map(|(instance, _)| instance.clone());
        let instance = instance.ok_or_else(|| lost("abandon_orchestration_item"))?;
        self.leases.remove(&instance);
        for message in self
            .messages
            .values_mut()
            .filter(|m| m.token.as_deref() == Some(token))
        {
            message.token = None;
            if let Some(delay) = delay {
                message.visible_at = now.saturating_add(ms(delay));
            }
            if ignore_attempt {
                message.attempts = message.attempts.saturating_sub(1);
            }
        }
        Ok(())
    }

    pub(crate) fn renew_turn(&mut self, token: &str, extend: Duration, now: u64) -> Result<()> {
        let instance = self
            .held(token, now)
            .ok_or_else(|| lost("renew_orchestration_item_lock"))?;
        let until = now.saturating_add(ms(extend));
        self.leases.insert(
            instance,
            Lease {
                token: token.to_owned(),
                until,
            },
        );
        Ok(())
    }
}
