//! The published contract over the store: one delegating step per method. Arguments are encoded before, and rows
//! decoded after, the trip to the server.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::event::Event;
use duroxide_core::provider::{
    ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, ExecutionMetadata, InstanceOutcome,
    InstanceQuery, InstanceWatch, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, Submission, Submitted, SystemStats, TagFilter,
    TurnClaim, TurnWrites, WorkClaim, WorkItem,
};
use tokio_postgres::types::Type;

use crate::calls::commit_turn::Commit;
use crate::calls::enqueue::Ack;
use crate::codec;
use crate::connection::call::Call;
use crate::connection::migrate;
use crate::connection::schema::Schema;
use crate::error::{PgError, Result};
use crate::group::Op;
use crate::options::ProviderConfig;
use crate::store::Store;
use crate::text;
use crate::thread;
use crate::time::{duration_ms, shown_ms};
use crate::token;

pub(crate) type Answer<T> = std::result::Result<T, ProviderError>;

/// A store in one schema of a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresProvider {
    pub(crate) store: Store,
}

impl PostgresProvider {
    /// Opens the schema `duroxide` of the database at this url, and creates it or brings it up to date first.
    ///
    /// # Errors
    ///
    /// If the url is not understood, the database is out of reach or refuses, or the schema belongs to a newer build.
    pub async fn new(database_url: &str) -> std::result::Result<Self, PgError> {
        Self::new_with_schema(database_url, None).await
    }

    /// As [`new`](Self::new), in a schema of this name: one for each tenant.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and if the name is no plain identifier.
    pub async fn new_with_schema(
        database_url: &str,
        schema_name: Option<&str>,
    ) -> std::result::Result<Self, PgError> {
        let config = ProviderConfig {
            schema_name: schema_name.map(str::to_owned),
            ..ProviderConfig::url(database_url)
        };
        Self::new_with_config(config).await
    }

    /// As [`new`](Self::new), with everything that can be chosen.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); with [`MigrationPolicy::VerifyOnly`](crate::MigrationPolicy::VerifyOnly) also if the
    /// schema is older.
    pub async fn new_with_config(config: ProviderConfig) -> std::result::Result<Self, PgError> {
        Ok(Self {
            store: Store::open(&config).await?,
        })
    }

    /// The schema of this store.
    #[must_use]
    pub fn schema_name(&self) -> &str {
        self.store.db.schema.name()
    }

    /// Creates the schema or brings it up to date; opening a store does so already, unless told not to.
    ///
    /// # Errors
    ///
    /// If the database is out of reach or refuses, or the schema belongs to a newer build.
    pub async fn initialize_schema(&self) -> std::result::Result<(), PgError> {
        thread::prepare(&self.store.db, crate::MigrationPolicy::ApplyAll).await
    }

    /// Removes the schema with everything in it.
    ///
    /// # Errors
    ///
    /// If the database is out of reach or refuses.
    pub async fn cleanup_schema(&self) -> std::result::Result<(), PgError> {
        let mut client = self.store.db.exchanger().await?;
        let client: &mut tokio_postgres::Client = &mut client;
        let tx = client.transaction().await?;
        migrate::drop_schema(&tx, &self.store.db.schema).await?;
        tx.commit().await?;
        Ok(())
    }

    /// The statements that create the schema of this build, for a person who applies them by hand.
    ///
    /// ```
    /// let sql = duroxide_pg::PostgresProvider::schema_sql("tenant_7").unwrap();
    /// assert!(sql.contains("CREATE TABLE orchestrator_queue"));
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is no plain identifier.
    pub fn schema_sql(schema_name: &str) -> std::result::Result<String, PgError> {
        Ok(migrate::print(&Schema::parse(schema_name)?))
    }

    /// How often the server was asked again because two transactions were in each other's way (deadlocks, serialization
    /// failures), or because a migration had outdated a plan.
    #[must_use]
    pub fn retried_transactions(&self) -> u64 {
        self.store.db.retries()
    }

    /// Whether notices of other processes are heard. If not, their work is found by polling.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.store.notifier.hears()
    }

    /// For tests that move the server's clock: as much time has passed here.
    #[doc(hidden)]
    pub fn let_time_pass(&self, by: Duration) {
        self.store.db.expected.pass(by);
    }

    /// For tests: how long turns are waited for that were handed out before their messages were stored.
    #[doc(hidden)]
    pub fn hold_early_turns(&self, hold: Duration) {
        self.store.hold_early(hold);
    }

    /// For tests: how the server would read a page.
    ///
    /// # Errors
    ///
    /// If the database is out of reach or refuses.
    #[doc(hidden)]
    pub async fn page_plan(
        &self,
        query: &InstanceQuery,
    ) -> std::result::Result<Vec<String>, PgError> {
        self.store.page_plan(query).await
    }
}

/// The operation's name is said once, so no error can carry another one's.
pub(crate) fn named<T>(operation: &str) -> impl FnOnce(Result<T>) -> Answer<T> + '_ {
    move |result| result.map_err(|error| error.into_provider_error(operation))
}

#[async_trait]
impl Provider for PostgresProvider {
    fn name(&self) -> &str {
        "postgres"
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
        let found = named("fetch_orchestration_item")(self.store.fetch_turns(&claim).await)?;
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
        let commit = named(OPERATION)(Commit::new(lock_token, writes))?;
        named(OPERATION)(self.store.write(Op::Commit(Box::new(commit))).await)
    }

    async fn ack_holding_queue_messages(
        &self,
        lock_token: &str,
        writes: TurnWrites,
    ) -> Answer<bool> {
        const OPERATION: &str = "ack_holding_queue_messages";
        let commit = named(OPERATION)(Commit::new(lock_token, writes))?;
        let commit = Op::Commit(Box::new(commit.holding_letters()));
        named(OPERATION)(self.store.write(commit).await)?;
        Ok(true)
    }

    async fn store_lease(&self, lock_token: &str) -> Answer<()> {
        named("store_lease")(self.store.store_turn_lease(lock_token).await)
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        let done = self
            .store
            .abandon_turn(lock_token, delay, ignore_attempt)
            .await;
        named("abandon_orchestration_item")(done)
    }

    async fn read(&self, instance: &str) -> Answer<Vec<Event>> {
        named("read")(self.store.history(instance, None).await)
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Answer<Vec<Event>> {
        // Executions begin at 1; 0 stands for the latest in the statement.
        if execution_id == 0 {
            return Ok(Vec::new());
        }
        named("read_with_execution")(self.store.history(instance, Some(execution_id)).await)
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Answer<()> {
        named("append_with_execution")(self.store.append(instance, execution_id, &new_events).await)
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Answer<()> {
        const OPERATION: &str = "enqueue_for_worker";
        let work = named(OPERATION)(codec::work(&item))?;
        named(OPERATION)(self.store.write(Op::Work(work)).await)
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Answer<Option<(WorkItem, String, u32)>> {
        let claim = WorkClaim::one(lock_timeout, poll_timeout, session, tag_filter);
        let found = named("fetch_work_item")(self.store.fetch_work(claim).await)?;
        Ok(found.into_iter().next().map(ClaimedWork::into_parts))
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Answer<()> {
        const OPERATION: &str = "ack_work_item";
        let completion = completion.as_ref().map(codec::completion).transpose();
        let completion = named(OPERATION)(completion)?;
        let held = named(OPERATION)(token::work(token))?;
        let ack = Ack {
            id: held.id,
            token: held.random,
            completion,
        };
        named(OPERATION)(self.store.write(Op::Ack(ack)).await)
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Answer<()> {
        const OPERATION: &str = "renew_work_item_lock";
        let held = named(OPERATION)(token::work(token))?;
        let renewal = Op::RenewWork {
            id: held.id,
            token: held.random,
            for_ms: duration_ms(extend_for),
        };
        named(OPERATION)(self.store.write(renewal).await)
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Answer<usize> {
        let owners: Vec<String> = owner_ids.iter().map(|&owner| text::owned(owner)).collect();
        let call = Call::new("renew_sessions")
            .int(self.store.expected())
            .texts(owners.iter().map(String::as_str))
            .int(duration_ms(extend_for))
            .int(duration_ms(idle_timeout));
        let renewed: i64 = named("renew_session_lock")(self.store.one(call).await)?;
        Ok(usize::try_from(renewed).unwrap_or(0))
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Answer<usize> {
        let call = Call::new("cleanup_sessions").int(self.store.expected());
        let gone: i64 = named("cleanup_orphaned_sessions")(self.store.one(call).await)?;
        Ok(usize::try_from(gone).unwrap_or(0))
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        let done = self.store.abandon_work(token, delay, ignore_attempt).await;
        named("abandon_work_item")(done)
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Answer<()> {
        const OPERATION: &str = "renew_orchestration_item_lock";
        let held = named(OPERATION)(token::turn(token))?;
        let renewal = Op::RenewTurn {
            instance: text::owned(held.instance),
            shown_instance: held.instance.to_owned(),
            token: held.random,
            for_ms: duration_ms(extend_for),
        };
        named(OPERATION)(self.store.write(renewal).await)
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Answer<()> {
        const OPERATION: &str = "enqueue_for_orchestrator";
        let message = named(OPERATION)(codec::message(&item, delay))?;
        named(OPERATION)(self.store.write(Op::Message(message)).await)
    }

    async fn submit(&self, submission: Submission) -> Answer<Submitted> {
        named("submit")(self.store.submit_together(&submission).await)
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
        const OPERATION: &str = "get_custom_status";
        let id = text::owned(instance);
        let seen = i64::try_from(last_seen_version).unwrap_or(i64::MAX);
        let rows = self
            .store
            .db
            .rows(
                "SELECT custom_status, custom_status_version FROM {s}.instances
                 WHERE instance_id = $1 AND custom_status_version > $2",
                &[(&id, Type::TEXT), (&seen, Type::INT8)],
            )
            .await;
        let rows = named(OPERATION)(rows)?;
        let found = rows.first().map(|row| {
            let status = row.try_get::<_, Option<String>>(0)?.map(text::shown);
            Ok((status, shown_ms(row.try_get(1)?)))
        });
        named(OPERATION)(found.transpose())
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Answer<Option<String>> {
        let found = named("get_kv_value")(self.store.kv(instance, Some(key)).await)?;
        Ok(found.into_values().next())
    }

    async fn get_kv_all_values(&self, instance: &str) -> Answer<HashMap<String, String>> {
        named("get_kv_all_values")(self.store.kv(instance, None).await)
    }

    async fn get_instance_stats(&self, instance: &str) -> Answer<Option<SystemStats>> {
        named("get_instance_stats")(self.store.stats(instance).await)
    }

    async fn clock_ms(&self) -> Answer<Option<u64>> {
        named("clock_ms")(self.store.clock().await).map(Some)
    }

    async fn claim_turns(&self, claim: TurnClaim) -> Answer<Vec<ClaimedTurn>> {
        named("claim_turns")(self.store.fetch_turns(&claim).await)
    }

    async fn claim_work(&self, claim: WorkClaim) -> Answer<Vec<ClaimedWork>> {
        named("claim_work")(self.store.fetch_work(claim).await)
    }

    async fn lost_work_items(&self, tokens: &[String]) -> Answer<Option<Vec<String>>> {
        if tokens.is_empty() {
            return Ok(Some(Vec::new()));
        }
        named("lost_work_items")(self.store.lost_work(tokens).await).map(Some)
    }

    async fn activity_claimed(
        &self,
        activity: &ScheduledActivityIdentifier,
    ) -> Answer<Option<bool>> {
        const OPERATION: &str = "activity_claimed";
        let id = text::owned(&activity.instance);
        let execution = named(OPERATION)(codec::number("execution", activity.execution_id))?;
        let activity = named(OPERATION)(codec::number("activity", activity.activity_id))?;
        let rows = self
            .store
            .db
            .rows(
                "SELECT 1 FROM {s}.worker_queue
                 WHERE instance_id = $1 AND execution_id = $2 AND activity_id = $3 AND attempt_count = 0",
                &[(&id, Type::TEXT), (&execution, Type::INT8), (&activity, Type::INT8)],
            )
            .await;
        // Only a claimed activity leaves the queue, so one that is gone was claimed.
        Ok(Some(named(OPERATION)(rows)?.is_empty()))
    }

    async fn heartbeat_work_item(
        &self,
        token: &str,
        extend_for: Duration,
        call: u64,
        details: &str,
    ) -> Answer<bool> {
        let kept = self.store.heartbeat(token, extend_for, call, details).await;
        named("heartbeat_work_item")(kept)
    }

    async fn last_heartbeat(&self, call: &ScheduledActivityIdentifier) -> Answer<Option<String>> {
        named("last_heartbeat")(self.store.last_said(call).await)
    }

    async fn dead_letter_messages(
        &self,
        lock_token: &str,
        positions: &[usize],
        reason: &str,
    ) -> Answer<bool> {
        named("dead_letter_messages")(
            self.store
                .dead_letter_claimed(lock_token, positions, reason)
                .await,
        )?;
        Ok(true)
    }

    async fn rest_orchestration_item(
        &self,
        lock_token: &str,
        rest: Duration,
        ignore_attempt: bool,
    ) -> Answer<bool> {
        named("rest_orchestration_item")(
            self.store.rest_turn(lock_token, rest, ignore_attempt).await,
        )?;
        Ok(true)
    }

    async fn dead_letter_work_item(&self, token: &str, reason: &str) -> Answer<bool> {
        named("dead_letter_work_item")(self.store.dead_letter_work(token, reason, true).await)?;
        Ok(true)
    }

    async fn read_outcome(&self, instance: &str) -> Answer<Option<InstanceOutcome>> {
        named("read_outcome")(self.store.outcome(instance).await)
    }

    async fn execution_handler(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Answer<Option<(String, String)>> {
        let event = self
            .store
            .first_of(instance, execution_id, "OrchestrationStarted")
            .await;
        let event = named("execution_handler")(event)?;
        Ok(event.and_then(|event| event.started_handler()))
    }

    fn watch_instance(&self, instance: &str) -> Option<Box<dyn InstanceWatch>> {
        Some(Box::new(self.store.watches.watch(instance)))
    }
}
