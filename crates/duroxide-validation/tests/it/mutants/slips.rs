//! Slips in the small print: limits, lengths, positions, patterns, and what is left behind.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duroxide_core::provider::{
    DeleteInstanceResult, InstanceFilter, KvEntry, OrchestrationItem, Provider, ProviderAdmin,
    ProviderError, ScheduledActivityIdentifier,
};
use duroxide_core::{Event, EventKind, WorkItem};

use super::commits::Turn;
use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

/// More activities than this, and a commit is cut.
const WIDE: usize = 100;
/// For how long claimers that meet wait for each other, in milliseconds.
const PATIENCE_MS: u32 = 20;

fn cut(text: &mut String) {
    if let Some(end) = text.find('\0') {
        text.truncate(end);
    }
}

impl Mutant {
    /// Texts of an activity, cut at a NUL character.
    pub(super) fn cut_texts(item: &mut WorkItem) {
        if let WorkItem::ActivityExecute { input, tag, .. } = item {
            cut(input);
            tag.iter_mut().for_each(cut);
        }
    }

    /// What a commit is made of, spoilt.
    pub(super) fn slip(&self, turn: &mut Turn) {
        match self.flaw {
            Flaw::WideCommitIsCut => turn.work.truncate(WIDE),
            Flaw::WorkerQueueTakesAll => turn
                .work
                .retain(|item| matches!(item, WorkItem::ActivityExecute { .. })),
            Flaw::VersionFromEvent => {
                let started = turn.events.iter().find_map(Event::started_handler);
                if let Some((_, version)) = started {
                    turn.metadata.orchestration_version = Some(version);
                }
            }
            Flaw::KvClearsForgotten => {
                let instance = self.notes.instance_of(&turn.token).unwrap_or_default();
                let mut notes = self.notes.lock();
                for event in &turn.events {
                    if let EventKind::KeyValueSet { key, value, .. } = &event.kind {
                        let values = notes.values.entry(instance.clone()).or_default();
                        values.insert(key.clone(), value.clone());
                    }
                }
            }
            _ => {}
        }
    }

    /// A commit whose token has committed before: refused, and yet it schedules.
    pub(super) async fn schedule_anyway(&self, turn: Turn) -> Result<()> {
        for item in turn.work {
            self.inner.enqueue_for_worker(item).await?;
        }
        Err(ProviderError::lease_lost(
            "ack_orchestration_item",
            "Invalid lock token",
        ))
    }

    /// Keys that earlier executions cleared are there again.
    pub(super) fn unclear(&self, item: &mut OrchestrationItem) {
        let notes = self.notes.lock();
        let Some(values) = notes.values.get(&item.instance) else {
            return;
        };
        if item.execution_id < 2 {
            return;
        }
        for (key, value) in values {
            let entry = KvEntry {
                value: value.clone(),
                last_updated_at_ms: 0,
            };
            item.kv_snapshot.entry(key.clone()).or_insert(entry);
        }
    }

    /// A claimer that finds nothing while another one is about to take something takes the same.
    pub(super) async fn fetch_twice(
        &self,
        lease: Duration,
        poll: Duration,
    ) -> Result<Option<(OrchestrationItem, String, u32)>> {
        self.notes.fetching.fetch_add(1, Ordering::SeqCst);
        let has_company = self.wait_for_company().await;
        let found = self.inner.fetch_orchestration_item(lease, poll, None).await;
        let is_loser = has_company && matches!(found, Ok(None));
        let taken = if is_loser {
            self.wait_for_winner().await
        } else {
            None
        };
        if let Ok(Some(won)) = &found
            && self.notes.fetching.load(Ordering::SeqCst) > 1
        {
            self.notes.lock().met = Some(won.clone());
        }
        self.notes.fetching.fetch_sub(1, Ordering::SeqCst);
        Ok(found?.or(taken))
    }

    /// Lets another claimer arrive, however busy the machine is: claimers that begin together meet for certain.
    async fn wait_for_company(&self) -> bool {
        for _ in 0..PATIENCE_MS {
            if self.notes.fetching.load(Ordering::SeqCst) > 1 {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        false
    }

    /// What a claimer took that was here at the same time.
    async fn wait_for_winner(&self) -> Option<(OrchestrationItem, String, u32)> {
        for _ in 0..PATIENCE_MS {
            let taken = self.notes.lock().met.take();
            if taken.is_some() || self.notes.fetching.load(Ordering::SeqCst) == 1 {
                return taken;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        None
    }

    /// The length that a renewal gets.
    pub(super) fn as_renewal(&self, token: &str, extend_for: Duration) -> Duration {
        match self.flaw {
            Flaw::RenewalKeepsLength => {
                let notes = self.notes.lock();
                notes.lengths.get(token).copied().unwrap_or(extend_for)
            }
            _ => extend_for,
        }
    }

    pub(super) fn note_length(&self, token: &str, lease: Duration) {
        self.notes.lock().lengths.insert(token.to_owned(), lease);
    }

    /// The token that a text stands for.
    pub(super) fn as_token(&self, text: &str) -> String {
        let matches = text == "%" && self.has(Flaw::TokenIsAPattern);
        let last = self.notes.lock().last_token.clone();
        match last {
            Some(last) if matches => last,
            _ => text.to_owned(),
        }
    }

    /// Who lost a lease cannot give it back; the next claim counts one less all the same.
    pub(super) fn forgive(&self, token: &str) {
        let instance = self.notes.instance_of(token);
        let of_work = self.notes.activity_of(token);
        let of_work = of_work.map(|item| item.target_instance().to_owned());
        if let Some(instance) = instance.or(of_work) {
            *self.notes.lock().forgiven.entry(instance).or_default() += 1;
        }
    }

    pub(super) fn forgiven(&self, instance: &str, attempt: u32) -> u32 {
        let forgiven = self.notes.lock().forgiven.get(instance).copied();
        attempt.saturating_sub(forgiven.unwrap_or(0))
    }

    /// Positions that are wrong, made right in the wrong way.
    pub(super) fn as_positions(&self, positions: &[usize]) -> Vec<usize> {
        if !self.has(Flaw::DeadLettersTheNext) {
            return positions.to_vec();
        }
        let mut chosen: Vec<usize> = Vec::new();
        for position in positions {
            let mut position = if *position > 2 { 0 } else { *position };
            while chosen.contains(&position) {
                position += 1;
            }
            chosen.push(position);
        }
        chosen
    }

    /// Remembers what a deletion should take with it.
    pub(super) async fn note_deleted(&self, ids: &[String]) -> Result<()> {
        for id in ids {
            let values = self.inner.get_kv_all_values(id).await?;
            let children = self.reference().list_children(id).await?;
            let mut notes = self.notes.lock();
            notes.deleted.insert(id.clone(), (values, children));
        }
        Ok(())
    }

    pub(super) fn values_left(&self, instance: &str) -> HashMap<String, String> {
        let notes = self.notes.lock();
        let left = notes.deleted.get(instance);
        left.map(|(values, _)| values.clone()).unwrap_or_default()
    }

    pub(super) async fn children(&self, instance: &str) -> Result<Vec<String>> {
        let children = self.reference().list_children(instance).await?;
        if children.is_empty() && self.has(Flaw::ChildrenOutliveParents) {
            let notes = self.notes.lock();
            let left = notes.deleted.get(instance);
            return Ok(left.map(|(_, left)| left.clone()).unwrap_or_default());
        }
        Ok(children)
    }

    /// Takes trees only as long as all of their members fit the limit.
    pub(super) async fn delete_counting_members(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult> {
        let mut left = filter.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut total = DeleteInstanceResult::default();
        let mut oldest = self.inner.list_instances().await?;
        oldest.reverse();
        for root in oldest {
            let Ok(tree) = self.reference().get_instance_tree(&root).await else {
                continue;
            };
            if tree.size() > left {
                continue;
            }
            let one = InstanceFilter {
                instance_ids: Some(vec![root]),
                ..filter.clone()
            };
            let deleted = self.inner.delete_instance_bulk(one).await?;
            left -= tree.size().min(deleted.instances_deleted as usize);
            total.instances_deleted += deleted.instances_deleted;
        }
        Ok(total)
    }

    pub(super) async fn was_claimed(
        &self,
        activity: &ScheduledActivityIdentifier,
    ) -> Result<Option<bool>> {
        let answer = self.inner.activity_claimed(activity).await?;
        if !self.has(Flaw::ClaimIsToldLate) {
            return Ok(answer);
        }
        let pending = self.reference().pending_work(&activity.instance).await?;
        let is_queued = pending.is_some_and(|pending| {
            let ids = pending.activities.iter().map(|queued| queued.activity_id);
            ids.into_iter().any(|id| id == activity.activity_id)
        });
        Ok(Some(!is_queued))
    }

    /// Waits for as long again, two times of three.
    pub(super) async fn oversleep(&self, poll: Duration) {
        let times = self.notes.fetching.fetch_add(1, Ordering::SeqCst);
        if self.has(Flaw::Oversleeps) && !poll.is_zero() && times % 6 < 4 {
            tokio::time::sleep(poll).await;
        }
    }
}
