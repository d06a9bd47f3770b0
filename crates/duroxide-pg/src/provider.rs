//! The published contract over the store: one delegating step per method. Arguments are encoded before, and rows decoded after, the
//! trip to the server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::event::{ErrorDetails, Event, EventKind};
use duroxide_core::provider::{
    ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, ExecutionMetadata, Incarnation,
    InstanceOutcome, InstanceWatch, OrchestrationItem, OutcomeStatus, Provider, ProviderAdmin,
    ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, SystemStats, TagFilter,
    TurnClaim, WorkClaim, WorkItem,
};
use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::args::Call;
use crate::codec;
use crate::error::{PgError, Result};
use crate::group::{Look, Op};
use crate::migrate;
use crate::ops::claim_turns::{Loaded, RawTurn};
use crate::ops::commit_turn::Commit;
use crate::ops::enqueue::{self, Ack};
use crate::ops::set_aside::{self, Beside};
use crate::ops::{claim_turns, claim_work};
use crate::options::ProviderConfig;
use crate::schema::Schema;
use crate::store::{self, Store};
use crate::text;
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
    /// As [`new`](Self::new); with [`MigrationPolicy::VerifyOnly`](crate::MigrationPolicy::VerifyOnly) also if the schema is older.
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
        store::prepare(&self.store.db, crate::MigrationPolicy::ApplyAll).await
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

    /// How often the server was asked again because two transactions were in each other's way (deadlocks, serialization failures), or
    /// because a migration had outdated a plan.
    #[must_use]
    pub fn retried_transactions(&self) -> u64 {
        self.store.db.retries()
    }

    /// Whether notices of other processes are heard. If not, their work is found by polling.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.store.notifier.hears()
    }

    fn expected(&self) -> i64 {
        self.store.db.expected.now()
    }

    async fn texts(&self, sql: &str, instance: &str, execution: Option<u64>) -> Result<Vec<String>> {
        let id = text::owned(instance);
        let execution = match execution {
            Some(execution) => codec::number("execution", execution).unwrap_or(i64::MAX),
            None => 0,
        };
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
            [(&id, Type::TEXT), (&execution, Type::INT8)];
        let rows = self.store.db.rows(sql, &params).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Events of an execution, of the latest one if none is named.
    async fn history(&self, instance: &str, execution: Option<u64>) -> Result<Vec<Event>> {
        let rows = self
            .texts(
                "SELECT event_data FROM {s}.history WHERE instance_id = $1 AND execution_id = CASE WHEN $2 > 0 THEN $2
                     ELSE (SELECT coalesce(max(execution_id), 1) FROM {s}.executions WHERE instance_id = $1) END
                 ORDER BY event_id",
                instance,
                execution,
            )
            .await?;
        codec::decode_events(instance, &rows)
    }

    /// The first event of a kind.
    async fn first_of(&self, instance: &str, execution: u64, kind: &str) -> Result<Option<Event>> {
        let sql = format!(
            "SELECT event_data FROM {{s}}.history WHERE instance_id = $1 AND execution_id = $2 AND event_type = '{kind}'
             ORDER BY event_id DESC LIMIT 1"
        );
        let rows = self.texts(&sql, instance, Some(execution)).await?;
        rows.first()
            .map(|row| codec::decode_event(instance, row))
            .transpose()
    }

    async fn poll_turns(&self, claim: &TurnClaim) -> Result<Vec<ClaimedTurn>> {
        let ask = Arc::new(claim_turns::Ask::new(
            claim,
            self.store.unknown_instance_grace,
        ));
        if ask.abilities.are_none() {
            sleep_out(claim.poll_timeout).await;
            return Ok(Vec::new());
        }
        let deadline = deadline(claim.poll_timeout);
        loop {
            let mut raw = self.store.claim_turns(Arc::clone(&ask), deadline).await?;
            let nothing_there = raw.is_empty();
            self.load(&ask, &mut raw).await?;
            let mut found = Vec::with_capacity(raw.len());
            for raw in raw {
                let (turn, broken) = raw.decode();
                if !broken.is_empty() && !self.set_aside_broken(&turn, &broken).await {
                    continue;
                }
                if !turn.item.messages.is_empty() {
                    found.push(turn);
                }
            }
            // A claim of which nothing was left says nothing about the instances behind it.
            if !found.is_empty() || nothing_there {
                return Ok(found);
            }
        }
    }

    /// Loads the histories that the caller turned out not to hold.
    async fn load(&self, ask: &claim_turns::Ask, turns: &mut [RawTurn]) -> Result<()> {
        let cached = ask.cached.as_deref();
        let mut cold: Vec<&mut RawTurn> = turns
            .iter_mut()
            .filter_map(|turn| turn.must_load(cached).then_some(turn))
            .collect();
        if cold.is_empty() {
            return Ok(());
        }
        let instances: Vec<String> = cold.iter().map(|turn| turn.instance.clone()).collect();
        let call = Call::new("load_turns")
            .texts(instances.iter().map(String::as_str))
            .ints(cold.iter().map(|turn| turn.execution_id));
        let rows = self.store.db.transact(&[call]).await?;
        for row in rows.first().into_iter().flatten() {
            let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or(usize::MAX);
            if let Some(turn) = cold.get_mut(place) {
                turn.load(Loaded::read(row, 1)?);
            }
        }
        Ok(())
    }

    /// Sets aside the messages of a turn that did not decode; whether the turn can go on. If that fails, the others that were claimed
    /// are still handed out, and this one is claimed again when its lease has run out.
    async fn set_aside_broken(&self, turn: &ClaimedTurn, broken: &[(i64, String)]) -> bool {
        match self.move_broken(turn, broken).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(target: "duroxide::providers::postgres", instance_id = %turn.item.instance, %error, "messages that do not decode could not be set aside, they are claimed again");
                false
            }
        }
    }

    async fn move_broken(&self, turn: &ClaimedTurn, broken: &[(i64, String)]) -> Result<()> {
        let held = token::turn(&turn.lock_token)?;
        let id = text::owned(held.instance);
        let ids: Vec<i64> = broken.iter().map(|(id, _)| *id).collect();
        let rows = self
            .store
            .db
            .rows(
                "SELECT id, kind, execution_id, operation_id, visible_at FROM {s}.orchestrator_queue
                 WHERE instance_id = $1 AND id = ANY ($2)",
                &[(&id, Type::TEXT), (&ids, Type::INT8_ARRAY)],
            )
            .await?;
        let mut stand_ins: HashMap<i64, (String, &'static str)> = HashMap::new();
        for row in &rows {
            let number: i64 = row.try_get(0)?;
            let beside = Beside {
                kind: row.try_get(1)?,
                execution_id: row.try_get(2)?,
                operation_id: row.try_get(3)?,
                visible_at: row.try_get(4)?,
            };
            let reason = broken.iter().find(|(id, _)| *id == number);
            let reason = reason.map_or("", |(_, reason)| reason.as_str());
            if let Some(item) = set_aside::stand_in(held.instance, &beside, reason) {
                let json = codec::work_item_json(&item)?;
                stand_ins.insert(number, (json, item.kind_name()));
            }
        }
        let reasons: Vec<String> = broken.iter().map(|(_, why)| text::owned(why)).collect();
        let call = Call::new("set_aside_undecodable")
            .int(self.expected())
            .text(&id)
            .uuid(held.random)
            .ints(ids.iter().copied())
            .texts(reasons.iter().map(String::as_str))
            .opt_texts(ids.iter().map(|id| stand_ins.get(id).map(|(json, _)| json.as_str())))
            .opt_texts(ids.iter().map(|id| stand_ins.get(id).map(|(_, kind)| *kind)));
        self.store.db.transact(&[call]).await?;
        self.store.look(Look::TURNS, &[]);
        Ok(())
    }

    async fn poll_work(&self, claim: WorkClaim) -> Result<Vec<ClaimedWork>> {
        let timeout = claim.poll_timeout;
        let deadline = deadline(timeout);
        let ask = Arc::new(claim_work::Ask::new(claim));
        if ask.wants_nothing() {
            return Ok(Vec::new());
        }
        loop {
            let raw = self.store.claim_work(Arc::clone(&ask), deadline).await?;
            let nothing_there = raw.is_empty();
            let mut found = Vec::with_capacity(raw.len());
            for raw in raw {
                let lock_token = token::for_work(raw.id, raw.random);
                match codec::decode_work_item(&raw.json) {
                    Ok(item) => found.push(ClaimedWork {
                        item,
                        lock_token,
                        attempt_count: raw.attempts,
                        incarnation: raw.incarnation.and_then(Incarnation::from_stored),
                    }),
                    Err(reason) => {
                        // The others that were claimed are still handed out, and this one is claimed again.
                        if let Err(error) = self.set_aside_activity(&lock_token, &reason, false).await {
                            tracing::warn!(target: "duroxide::providers::postgres", %error, "an activity that does not decode could not be set aside, it is claimed again");
                        }
                    }
                }
            }
            if !found.is_empty() || nothing_there {
                return Ok(found);
            }
        }
    }

    /// Moves an activity to the dead letters; whoever waits for it hears that it failed.
    async fn set_aside_activity(&self, lock_token: &str, reason: &str, strict: bool) -> Result<()> {
        let held = token::work(lock_token)?;
        let rows = self
            .store
            .db
            .rows(
                "SELECT instance_id, execution_id, activity_id FROM {s}.worker_queue WHERE id = $1",
                &[(&held.id, Type::INT8)],
            )
            .await?;
        let row = rows.first().ok_or(PgError::InvalidToken)?;
        let failed = set_aside::failed_activity(
            text::shown(row.try_get(0)?),
            shown_ms(row.try_get(1)?),
            shown_ms(row.try_get(2)?),
            reason,
        );
        let failed = codec::completion(&failed)?;
        let (expected, reason) = (self.expected(), text::owned(reason));
        let calls = [
            enqueue::open([], &[&failed], expected),
            Call::new("set_aside_work")
                .int(expected)
                .int(held.id)
                .uuid(held.random)
                .text(&reason)
                .flag(strict)
                .text(&failed.json),
        ];
        let rows = self.store.db.transact(&calls).await?;
        self.store.look(Look::TURNS, &[]);
        let problem: Option<String> = match rows.get(1).and_then(|rows| rows.first()) {
            Some(row) => row.try_get(0)?,
            None => None,
        };
        match problem.as_deref() {
            None => Ok(()),
            Some("expired") => Err(PgError::WorkLockExpired),
            Some(_) => Err(PgError::InvalidToken),
        }
    }

    async fn outcome(&self, instance: &str) -> Result<Option<InstanceOutcome>> {
        let id = text::owned(instance);
        let rows = self
            .store
            .db
            .rows(
                "SELECT i.current_execution_id, e.status, e.output, i.custom_status, i.custom_status_version
                 FROM {s}.instances AS i LEFT JOIN {s}.executions AS e
                     ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
                 WHERE i.instance_id = $1",
                &[(&id, Type::TEXT)],
            )
            .await?;
        let Some(row) = rows.first() else {
            // Commits that never named a handler leave a history without a row.
            let events = self.history(instance, None).await?;
            return Ok(InstanceOutcome::of_history(&events));
        };
        let execution_id = shown_ms(row.try_get(0)?);
        let status: Option<String> = row.try_get(1)?;
        let output = row.try_get::<_, Option<String>>(2)?.map(text::shown);
        let output = output.unwrap_or_default();
        Ok(Some(InstanceOutcome {
            execution_id,
            status: match status.as_deref() {
                Some("Completed") => OutcomeStatus::Completed { output },
                Some("Failed") => OutcomeStatus::Failed {
                    details: self.failure(instance, execution_id, output).await?,
                },
                _ => OutcomeStatus::Running,
            },
            custom_status: row.try_get::<_, Option<String>>(3)?.map(text::shown),
            custom_status_version: shown_ms(row.try_get(4)?),
        }))
    }

    /// The row only has the failure's text; its details are in the event that ended the execution.
    async fn failure(&self, instance: &str, execution: u64, output: String) -> Result<ErrorDetails> {
        let event = self.first_of(instance, execution, "OrchestrationFailed").await?;
        Ok(match event.map(|event| event.kind) {
            Some(EventKind::OrchestrationFailed { details }) => details,
            _ => ErrorDetails::orchestration_failed(output),
        })
    }

    async fn stats(&self, instance: &str) -> Result<Option<SystemStats>> {
        let id = text::owned(instance);
        let rows = self
            .store
            .db
            .rows(
                "SELECT i.current_execution_id, h.events, h.bytes, k.keys, k.bytes
                 FROM {s}.instances AS i
                 CROSS JOIN LATERAL (SELECT count(*) AS events, coalesce(sum(octet_length(event_data)), 0)::bigint AS bytes
                     FROM {s}.history AS h WHERE h.instance_id = i.instance_id AND h.execution_id = i.current_execution_id) AS h
                 CROSS JOIN LATERAL (SELECT count(*) AS keys, coalesce(sum(octet_length(value)), 0)::bigint AS bytes FROM (
                     SELECT d.value FROM {s}.kv_delta AS d WHERE d.instance_id = i.instance_id AND d.value IS NOT NULL
                     UNION ALL
                     SELECT s.value FROM {s}.kv_store AS s WHERE s.instance_id = i.instance_id AND NOT EXISTS
                         (SELECT 1 FROM {s}.kv_delta AS d WHERE d.instance_id = s.instance_id AND d.key = s.key)) AS v) AS k
                 WHERE i.instance_id = $1",
                &[(&id, Type::TEXT)],
            )
            .await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let started = self
            .first_of(instance, shown_ms(row.try_get(0)?), "OrchestrationStarted")
            .await?;
        let carried = match started.map(|event| event.kind) {
            Some(EventKind::OrchestrationStarted {
                carry_forward_events: Some(carried),
                ..
            }) => carried.len(),
            _ => 0,
        };
        Ok(Some(SystemStats {
            history_event_count: shown_ms(row.try_get(1)?),
            history_size_bytes: shown_ms(row.try_get(2)?),
            queue_pending_count: u64::try_from(carried).unwrap_or(u64::MAX),
            kv_user_key_count: shown_ms(row.try_get(3)?),
            kv_total_value_bytes: shown_ms(row.try_get(4)?),
        }))
    }

    async fn append(&self, instance: &str, execution_id: u64, events: &[Event]) -> Result<()> {
        let id = codec::key("the instance id", instance)?;
        let events = codec::events(instance, events)?;
        let call = Call::new("append_events")
            .int(self.expected())
            .text(&id)
            .int(codec::number("execution", execution_id)?)
            .ints(events.iter().map(|event| event.id))
            .texts(events.iter().map(|event| event.kind))
            .texts(events.iter().map(|event| event.json.as_str()));
        self.store.db.transact(&[call]).await?;
        self.store.look(Look::TURNS, &[id]);
        self.store.wake.announce(instance, crate::wake::News::Unknown);
        Ok(())
    }

    async fn abandon_turn(&self, lock_token: &str, delay: Option<Duration>, ignore: bool) -> Result<()> {
        let held = token::turn(lock_token)?;
        let id = text::owned(held.instance);
        let call = Call::new("abandon_turn")
            .int(self.expected())
            .text(&id)
            .uuid(held.random)
            .opt_int(delay.map(duration_ms))
            .flag(ignore);
        let is_done: bool = self.store.one(call).await?;
        self.store.look(Look::TURNS, &[]);
        is_done.then_some(()).ok_or(PgError::InvalidToken)
    }

    async fn abandon_work(&self, lock_token: &str, delay: Option<Duration>, ignore: bool) -> Result<()> {
        let held = token::work(lock_token)?;
        let call = Call::new("abandon_work")
            .int(self.expected())
            .int(held.id)
            .uuid(held.random)
            .opt_int(delay.map(duration_ms))
            .flag(ignore);
        let is_done: bool = self.store.one(call).await?;
        self.store.look(Look::WORK, &[]);
        is_done.then_some(()).ok_or(PgError::InvalidToken)
    }

    async fn set_aside(&self, lock_token: &str, positions: &[usize], reason: &str) -> Result<()> {
        let held = token::turn(lock_token)?;
        let (id, reason) = (text::owned(held.instance), text::owned(reason));
        let places: Vec<i32> = positions
            .iter()
            .map(|position| i32::try_from(*position).unwrap_or(i32::MAX - 1) + 1)
            .collect();
        let call = Call::new("set_aside_messages")
            .int(self.expected())
            .text(&id)
            .uuid(held.random)
            .smalls(places.iter().copied())
            .text(&reason);
        let size: Option<i32> = self.store.one(call).await?;
        let size = size.ok_or(PgError::InvalidToken)?;
        match places.iter().find(|place| **place > size) {
            None => Ok(()),
            Some(place) => Err(PgError::Unstorable {
                what: format!("position {}", place - 1),
                why: format!("the claimed batch of {} has {size} messages", held.instance),
            }),
        }
    }

    async fn kv(&self, instance: &str, key: Option<&str>) -> Result<HashMap<String, String>> {
        let (id, key) = (text::owned(instance), key.map(text::owned));
        let rows = self
            .store
            .db
            .rows(
                "SELECT d.key, d.value FROM {s}.kv_delta AS d
                 WHERE d.instance_id = $1 AND d.value IS NOT NULL AND ($2 IS NULL OR d.key = $2)
                 UNION ALL
                 SELECT s.key, s.value FROM {s}.kv_store AS s
                 WHERE s.instance_id = $1 AND ($2 IS NULL OR s.key = $2) AND NOT EXISTS
                     (SELECT 1 FROM {s}.kv_delta AS d WHERE d.instance_id = s.instance_id AND d.key = s.key)",
                &[(&id, Type::TEXT), (&key, Type::TEXT)],
            )
            .await?;
        rows.iter()
            .map(|row| Ok((text::shown(row.try_get(0)?), text::shown(row.try_get(1)?))))
            .collect()
    }

    async fn lost_work(&self, tokens: &[String]) -> Result<Vec<String>> {
        let held: Vec<(Option<token::Work>, &String)> = tokens
            .iter()
            .map(|text| (token::work(text).ok(), text))
            .collect();
        let known: Vec<token::Work> = held.iter().filter_map(|(work, _)| *work).collect();
        let ids: Vec<i64> = known.iter().map(|work| work.id).collect();
        let randoms: Vec<uuid::Uuid> = known.iter().map(|work| work.random).collect();
        let expected = self.expected();
        let rows = self
            .store
            .db
            .rows(
                "SELECT w.id FROM unnest($1::bigint[], $2::uuid[]) AS h (id, token)
                 JOIN {s}.worker_queue AS w ON w.id = h.id AND w.lock_token = h.token
                 WHERE w.locked_until > (SELECT {s}.server_ms(clock_timestamp()) + c.ahead_ms FROM {s}.clock AS c)",
                &[(&ids, Type::INT8_ARRAY), (&randoms, Type::UUID_ARRAY)],
            )
            .await?;
        let _ = expected;
        let valid = rows
            .iter()
            .map(|row| Ok(row.try_get(0)?))
            .collect::<Result<std::collections::HashSet<i64>>>()?;
        Ok(held
            .into_iter()
            .filter(|(work, _)| work.is_none_or(|work| !valid.contains(&work.id)))
            .map(|(_, text)| text.clone())
            .collect())
    }
}

/// Until when a claim waits; `None` if it does not wait at all.
fn deadline(poll_timeout: Duration) -> Option<Instant> {
    /// Stands in for "for ever" where adding to an instant could overflow.
    const VERY_LONG: Duration = Duration::from_secs(60 * 60 * 24 * 365);
    (!poll_timeout.is_zero()).then(|| Instant::now() + poll_timeout.min(VERY_LONG))
}

/// Waits as long as a claim would that can never be served.
async fn sleep_out(poll_timeout: Duration) {
    if let Some(at) = deadline(poll_timeout) {
        tokio::time::sleep_until(at).await;
    }
}

/// The operation's name is said once, so no error can carry another one's.
fn named<T>(operation: &str) -> impl FnOnce(Result<T>) -> Answer<T> + '_ {
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
        let claim = TurnClaim {
            filter: filter.cloned(),
            ..TurnClaim::new(1, lock_timeout, poll_timeout)
        };
        let found = named("fetch_orchestration_item")(self.poll_turns(&claim).await)?;
        Ok(found
            .into_iter()
            .next()
            .map(|turn| (turn.item, turn.lock_token, turn.attempt_count)))
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
        let commit = named(OPERATION)(Commit::new(
            lock_token,
            execution_id,
            &history_delta,
            &worker_items,
            &orchestrator_items,
            metadata,
            &cancelled_activities,
        ))?;
        named(OPERATION)(self.store.write(Op::Commit(Box::new(commit))).await)
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        let done = self.abandon_turn(lock_token, delay, ignore_attempt).await;
        named("abandon_orchestration_item")(done)
    }

    async fn read(&self, instance: &str) -> Answer<Vec<Event>> {
        named("read")(self.history(instance, None).await)
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Answer<Vec<Event>> {
        // Executions begin at 1; 0 stands for the latest in the statement.
        if execution_id == 0 {
            return Ok(Vec::new());
        }
        named("read_with_execution")(self.history(instance, Some(execution_id)).await)
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Answer<()> {
        named("append_with_execution")(self.append(instance, execution_id, &new_events).await)
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
        let claim = WorkClaim {
            session: session.cloned(),
            tag_filter: tag_filter.clone(),
            ..WorkClaim::new(1, lock_timeout, poll_timeout)
        };
        let found = named("fetch_work_item")(self.poll_work(claim).await)?;
        Ok(found
            .into_iter()
            .next()
            .map(|work| (work.item, work.lock_token, work.attempt_count)))
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
            .int(self.expected())
            .texts(owners.iter().map(String::as_str))
            .int(duration_ms(extend_for))
            .int(duration_ms(idle_timeout));
        let renewed: i64 = named("renew_session_lock")(self.store.one(call).await)?;
        Ok(usize::try_from(renewed).unwrap_or(0))
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Answer<usize> {
        let call = Call::new("cleanup_sessions").int(self.expected());
        let gone: i64 = named("cleanup_orphaned_sessions")(self.store.one(call).await)?;
        Ok(usize::try_from(gone).unwrap_or(0))
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Answer<()> {
        let done = self.abandon_work(token, delay, ignore_attempt).await;
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
        let found = named("get_kv_value")(self.kv(instance, Some(key)).await)?;
        Ok(found.into_values().next())
    }

    async fn get_kv_all_values(&self, instance: &str) -> Answer<HashMap<String, String>> {
        named("get_kv_all_values")(self.kv(instance, None).await)
    }

    async fn get_instance_stats(&self, instance: &str) -> Answer<Option<SystemStats>> {
        named("get_instance_stats")(self.stats(instance).await)
    }

    async fn claim_turns(&self, claim: TurnClaim) -> Answer<Vec<ClaimedTurn>> {
        named("claim_turns")(self.poll_turns(&claim).await)
    }

    async fn claim_work(&self, claim: WorkClaim) -> Answer<Vec<ClaimedWork>> {
        named("claim_work")(self.poll_work(claim).await)
    }

    async fn lost_work_items(&self, tokens: &[String]) -> Answer<Option<Vec<String>>> {
        if tokens.is_empty() {
            return Ok(Some(Vec::new()));
        }
        named("lost_work_items")(self.lost_work(tokens).await).map(Some)
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

    async fn set_aside_messages(
        &self,
        lock_token: &str,
        positions: &[usize],
        reason: &str,
    ) -> Answer<bool> {
        named("set_aside_messages")(self.set_aside(lock_token, positions, reason).await)?;
        Ok(true)
    }

    async fn set_aside_work_item(&self, token: &str, reason: &str) -> Answer<bool> {
        named("set_aside_work_item")(self.set_aside_activity(token, reason, true).await)?;
        Ok(true)
    }

    async fn read_outcome(&self, instance: &str) -> Answer<Option<InstanceOutcome>> {
        named("read_outcome")(self.outcome(instance).await)
    }

    async fn execution_handler(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Answer<Option<(String, String)>> {
        let event = self.first_of(instance, execution_id, "OrchestrationStarted").await;
        let event = named("execution_handler")(event)?;
        Ok(event.and_then(|event| event.started_handler()))
    }

    fn watch_instance(&self, instance: &str) -> Option<Box<dyn InstanceWatch>> {
        Some(Box::new(self.store.wake.watch(instance)))
    }
}
