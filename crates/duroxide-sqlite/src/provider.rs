//! The published contract over the store: one delegating step per method. Arguments are encoded before, and rows
//! decoded after, the trip to the threads.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::event::Event;
use duroxide_core::provider::{
    BlockedInstance, ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, ExecutionMetadata,
    InstanceOutcome, InstanceWatch, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, Submission, Submitted, SystemStats, TagFilter,
    TurnClaim, TurnWrites, WorkClaim, WorkItem,
};
use tokio::time::Instant;

use crate::codec;
use crate::error::AtOperation;
use crate::fetch;
use crate::handle::SqliteProvider;
use crate::ops;
use crate::ops::abandon_turn::Again;
use crate::requests::LeaseView;
use crate::store::ReadView;
use crate::tables::orchestrator_queue::Due;
use crate::tables::{heartbeats, instances, worker_queue};
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

type Answer<T> = Result<T, ProviderError>;

pub(crate) fn decoded(operation: &str, instance: &str, rows: &[Vec<u8>]) -> Answer<Vec<Event>> {
    codec::decode_events(instance, rows).at(operation)
}

#[async_trait]
impl Provider for SqliteProvider {
    fn name(&self) -> &str {
        "sqlite"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Answer<Option<(OrchestrationItem, String, u32)>> {
        let claim = TurnClaim::one(lock_timeout, poll_timeout, filter);
        let found = self
            .claim_turns_for("fetch_orchestration_item", &claim)
            .await?;
        Ok(found.into_iter().next().map(ClaimedTurn::into_parts))
    }

    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Answer<()> {
        const OPERATION: &str = "ack_orchestration_item";
        let writes = TurnWrites {
            execution_id,
            history: history_delta,
            to_workers: worker_items,
            to_orchestrators: orchestrator_items,
            metadata,
            cancelled: cancelled_activities,
        };
        let commit = ops::commit_turn::Commit::new(lock_token, writes).at(OPERATION)?;
        let step = move |tx: &mut WriterTx<'_>| ops::commit_turn::run(tx, &commit);
        self.writing(OPERATION, LeaseView::NotNeeded, step).await
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        let token = lock_token.to_owned();
        let again = Again::After(delay);
        let step =
            move |tx: &mut WriterTx<'_>| ops::abandon_turn::run(tx, &token, again, ignore_attempt);
        self.writing("abandon_orchestration_item", LeaseView::Needed, step)
            .await
    }

    async fn read(&self, instance: &str) -> Answer<Vec<Event>> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| ops::read_history::latest(tx, &id);
        decoded("read", instance, &self.reading_alone("read", step).await?)
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Answer<Vec<Event>> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| ops::read_history::of_execution(tx, &id, execution_id);
        let rows = self.reading_alone("read_with_execution", step).await?;
        decoded("read_with_execution", instance, &rows)
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Answer<()> {
        const OPERATION: &str = "append_with_execution";
        let id = instance.to_owned();
        let events = codec::events(instance, &new_events).at(OPERATION)?;
        let step =
            move |tx: &mut WriterTx<'_>| ops::enqueue::events(tx, &id, execution_id, &events);
        self.writing(OPERATION, LeaseView::Needed, step).await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Answer<()> {
        const OPERATION: &str = "enqueue_for_worker";
        let work = codec::work(&item).at(OPERATION)?;
        let step = move |tx: &mut WriterTx<'_>| ops::enqueue::work(tx, &work);
        self.writing(OPERATION, LeaseView::NotNeeded, step).await
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Answer<Option<(WorkItem, String, u32)>> {
        let claim = WorkClaim::one(lock_timeout, poll_timeout, session, tag_filter);
        let found = self.claim_work_for("fetch_work_item", claim).await?;
        Ok(found.into_iter().next().map(ClaimedWork::into_parts))
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Answer<()> {
        const OPERATION: &str = "ack_work_item";
        let token = token.to_owned();
        let completion = completion
            .as_ref()
            .map(codec::completion)
            .transpose()
            .at(OPERATION)?;
        let step = move |tx: &mut WriterTx<'_>| ops::ack_work::run(tx, &token, completion.as_ref());
        self.writing(OPERATION, LeaseView::NotNeeded, step).await
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Answer<()> {
        let token = token.to_owned();
        let step = move |tx: &mut WriterTx<'_>| ops::renew_work::run(tx, &token, extend_for);
        self.writing_always("renew_work_item_lock", LeaseView::Needed, step)
            .await
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Answer<usize> {
        let owners: Vec<String> = owner_ids.iter().map(|&owner| owner.to_owned()).collect();
        let step = move |tx: &mut WriterTx<'_>| {
            ops::sessions::renew(tx, &owners, extend_for, idle_timeout)
        };
        self.writing_always("renew_session_lock", LeaseView::Needed, step)
            .await
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Answer<usize> {
        let step = |tx: &mut WriterTx<'_>| ops::sessions::cleanup(tx);
        self.writing_always("cleanup_orphaned_sessions", LeaseView::Needed, step)
            .await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        let token = token.to_owned();
        let step =
            move |tx: &mut WriterTx<'_>| ops::abandon_work::run(tx, &token, delay, ignore_attempt);
        self.writing("abandon_work_item", LeaseView::Needed, step)
            .await
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Answer<()> {
        let token = token.to_owned();
        let step = move |tx: &mut WriterTx<'_>| ops::renew_turn::run(tx, &token, extend_for);
        self.writing_always("renew_orchestration_item_lock", LeaseView::Needed, step)
            .await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Answer<()> {
        const OPERATION: &str = "enqueue_for_orchestrator";
        let message = codec::message(&item, Due::After(delay)).at(OPERATION)?;
        let step = move |tx: &mut WriterTx<'_>| ops::enqueue::message(tx, &message);
        self.writing(OPERATION, LeaseView::NotNeeded, step).await
    }

    async fn submit(&self, submission: Submission) -> Answer<Submitted> {
        const OPERATION: &str = "submit";
        let submit = ops::submit::Submit::new(submission).at(OPERATION)?;
        // A deletion ends leases, an enqueueing does not look at them.
        let leases = if submit.may_replace() {
            LeaseView::Needed
        } else {
            LeaseView::NotNeeded
        };
        let step = move |tx: &mut WriterTx<'_>| ops::submit::run(tx, &submit);
        let submitted = self.writing(OPERATION, leases, step).await?;
        if submitted == Submitted::Replaced {
            // The new instance waits until nothing is left of the one it replaces; its caller does not.
            self.sweep_in_background(OPERATION);
        }
        Ok(submitted)
    }

    fn submits_in_one_step(&self) -> bool {
        true
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Answer<Option<(Option<String>, u64)>> {
        let id = instance.to_owned();
        let seen = Some(last_seen_version);
        let step = move |tx: &mut Tx<'_>| instances::custom_status(tx, &id, seen);
        self.reading("get_custom_status", step).await
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Answer<Option<String>> {
        let (id, key) = (instance.to_owned(), key.to_owned());
        let step = move |tx: &mut Tx<'_>| ops::read_kv::value(tx, &id, &key);
        self.store
            .read(ReadView::OpenTransaction, step)
            .await
            .at("get_kv_value")
    }

    async fn get_kv_all_values(&self, instance: &str) -> Answer<HashMap<String, String>> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| ops::read_kv::values(tx, &id);
        self.reading("get_kv_all_values", step).await
    }

    async fn get_instance_stats(&self, instance: &str) -> Answer<Option<SystemStats>> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| ops::stats::run(tx, &id);
        self.reading("get_instance_stats", step).await
    }

    async fn claim_turns(&self, claim: TurnClaim) -> Answer<Vec<ClaimedTurn>> {
        self.claim_turns_for("claim_turns", &claim).await
    }

    async fn claim_work(&self, claim: WorkClaim) -> Answer<Vec<ClaimedWork>> {
        self.claim_work_for("claim_work", claim).await
    }

    async fn lost_work_items(&self, tokens: &[String]) -> Answer<Option<Vec<String>>> {
        let tokens = tokens.to_vec();
        let step = move |tx: &mut Tx<'_>| ops::renew_work::lost(tx, &tokens);
        self.reading("lost_work_items", step).await.map(Some)
    }

    async fn activity_claimed(
        &self,
        activity: &ScheduledActivityIdentifier,
    ) -> Answer<Option<bool>> {
        let activity = activity.clone();
        let step = move |tx: &mut Tx<'_>| {
            let (execution_id, id) = (activity.execution_id, activity.activity_id);
            worker_queue::attempts(tx, &activity.instance, execution_id, id)
        };
        let attempts = self
            .store
            .read(ReadView::OpenTransaction, step)
            .await
            .at("activity_claimed")?;
        // Only a claimed activity leaves the queue, so one that is gone was claimed.
        Ok(Some(attempts.is_none_or(|attempts| attempts > 0)))
    }

    async fn heartbeat_work_item(
        &self,
        token: &str,
        extend_for: Duration,
        call: u64,
        details: &str,
    ) -> Answer<bool> {
        let (token, details) = (token.to_owned(), details.to_owned());
        let step = move |tx: &mut WriterTx<'_>| {
            ops::renew_work::heartbeat(tx, &token, extend_for, call, &details)
        };
        self.writing("heartbeat_work_item", LeaseView::Needed, step)
            .await
    }

    async fn last_heartbeat(&self, call: &ScheduledActivityIdentifier) -> Answer<Option<String>> {
        let call = call.clone();
        let step = move |tx: &mut Tx<'_>| {
            heartbeats::last(tx, &call.instance, call.execution_id, call.activity_id)
        };
        self.reading("last_heartbeat", step).await
    }

    async fn dead_letter_messages(
        &self,
        lock_token: &str,
        positions: &[usize],
        reason: &str,
    ) -> Answer<bool> {
        let (token, positions, reason) =
            (lock_token.to_owned(), positions.to_vec(), reason.to_owned());
        let step = move |tx: &mut WriterTx<'_>| {
            ops::dead_letter::by_position(tx, &token, &positions, &reason)
        };
        self.writing("dead_letter_messages", LeaseView::Needed, step)
            .await?;
        Ok(true)
    }

    async fn rest_orchestration_item(
        &self,
        lock_token: &str,
        rest: Duration,
        ignore_attempt: bool,
    ) -> Answer<bool> {
        let (token, again) = (lock_token.to_owned(), Again::Together(rest));
        let step =
            move |tx: &mut WriterTx<'_>| ops::abandon_turn::run(tx, &token, again, ignore_attempt);
        self.writing("rest_orchestration_item", LeaseView::Needed, step)
            .await?;
        Ok(true)
    }

    async fn store_lease(&self, lock_token: &str) -> Answer<()> {
        let token = lock_token.to_owned();
        let step = move |tx: &mut Tx<'_>| ops::store_lease::run(tx, &token);
        self.store
            .read(ReadView::StoredLeases, step)
            .await
            .at("store_lease")
    }

    async fn note_blocked(
        &self,
        lock_token: &str,
        blocked: &BlockedInstance,
        node: &str,
    ) -> Answer<bool> {
        let (token, blocked, node) = (lock_token.to_owned(), blocked.clone(), node.to_owned());
        let step = move |tx: &mut WriterTx<'_>| ops::note_blocked::run(tx, &token, &blocked, &node);
        self.writing("note_blocked", LeaseView::Needed, step).await
    }

    async fn ack_holding_queue_messages(
        &self,
        lock_token: &str,
        writes: TurnWrites,
    ) -> Answer<bool> {
        const OPERATION: &str = "ack_holding_queue_messages";
        let commit = ops::commit_turn::Commit::new(lock_token, writes).at(OPERATION)?;
        let commit = commit.holding_queue_messages();
        let step = move |tx: &mut WriterTx<'_>| ops::commit_turn::run(tx, &commit);
        self.writing(OPERATION, LeaseView::NotNeeded, step).await?;
        Ok(true)
    }

    async fn dead_letter_work_item(&self, token: &str, reason: &str) -> Answer<bool> {
        let (token, reason) = (token.to_owned(), reason.to_owned());
        let step = move |tx: &mut WriterTx<'_>| ops::dead_letter::work(tx, &token, &reason);
        self.writing("dead_letter_work_item", LeaseView::Needed, step)
            .await?;
        Ok(true)
    }

    async fn read_outcome(&self, instance: &str) -> Answer<Option<InstanceOutcome>> {
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| ops::outcome::run(tx, &id);
        let committed = self.reading("read_outcome", step.clone()).await?;
        if committed.is_some() {
            return Ok(committed);
        }
        // A turn that was handed out early may ask about an instance that began in the open transaction. The writer
        // answers when that is committed.
        let begun = self.store.read(ReadView::OpenTransaction, step).await;
        begun.at("read_outcome")
    }

    async fn execution_handler(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Answer<Option<(String, String)>> {
        const OPERATION: &str = "execution_handler";
        let id = instance.to_owned();
        let step = move |tx: &mut Tx<'_>| ops::read_history::started(tx, &id, execution_id);
        let Some(row) = self.reading(OPERATION, step).await? else {
            return Ok(None);
        };
        let event = codec::decode_event(instance, &row).at(OPERATION)?;
        Ok(event.started_handler())
    }

    fn watch_instance(&self, instance: &str) -> Option<Box<dyn InstanceWatch>> {
        Some(Box::new(self.store.watch(instance)))
    }
}

impl SqliteProvider {
    async fn claim_turns_for(
        &self,
        operation: &str,
        claim: &TurnClaim,
    ) -> Answer<Vec<ClaimedTurn>> {
        let store = &self.store;
        let ask = Arc::new(ops::fetch_turn::Ask::new(
            claim,
            store.unknown_instance_grace,
        ));
        let deadline = claim.wait().map(|wait| Instant::now() + wait);
        fetch::turns(store, &ask, deadline).await.at(operation)
    }

    async fn claim_work_for(&self, operation: &str, claim: WorkClaim) -> Answer<Vec<ClaimedWork>> {
        let deadline = claim.wait().map(|wait| Instant::now() + wait);
        let ask = Arc::new(ops::fetch_work::Ask::new(claim));
        if ask.wants_nothing() {
            return Ok(Vec::new());
        }
        fetch::work(&self.store, &ask, deadline).await.at(operation)
    }
}
