//! Reads for the contract: histories, outcomes, custom statuses, sizes, key-values. In: an instance. Out: decoded rows.

use std::collections::HashMap;

use duroxide_core::event::{ErrorDetails, Event, EventKind};
use duroxide_core::provider::{
    ExecutionStatus, InstanceOutcome, OutcomeStatus, SystemStats, rules,
};
use tokio_postgres::types::Type;

use crate::codec::{self, unsigned};
use crate::error::Result;
use crate::store::Store;
use crate::text;
use crate::time::shown_ms;

impl Store {
    /// What the server's clock says. Due times are given in it; how far the time of the store is ahead of it the store
    /// adds itself.
    pub(crate) async fn clock(&self) -> Result<u64> {
        let rows = self
            .db
            .rows("SELECT {s}.server_ms(clock_timestamp())", &[])
            .await?;
        let row = crate::ops::admin_sql::only(&rows)?;
        Ok(shown_ms(row.try_get(0)?))
    }

    pub(crate) async fn texts(
        &self,
        sql: &str,
        instance: &str,
        execution: Option<u64>,
    ) -> Result<Vec<String>> {
        let id = text::owned(instance);
        let execution = match execution {
            Some(execution) => codec::number("execution", execution).unwrap_or(i64::MAX),
            None => 0,
        };
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
            [(&id, Type::TEXT), (&execution, Type::INT8)];
        let rows = self.db.rows(sql, &params).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Events of an execution, of the latest one if none is named.
    pub(crate) async fn history(
        &self,
        instance: &str,
        execution: Option<u64>,
    ) -> Result<Vec<Event>> {
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

    /// Events of this execution.
    pub(crate) async fn history_of(&self, instance: &str, execution: u64) -> Result<Vec<Event>> {
        // Executions begin at 1; 0 stands for the latest in the statement.
        if execution == 0 {
            return Ok(Vec::new());
        }
        self.history(instance, Some(execution)).await
    }

    /// Name and version of the handler that an execution began with.
    pub(crate) async fn handler_of(
        &self,
        instance: &str,
        execution: u64,
    ) -> Result<Option<(String, String)>> {
        let event = self
            .first_of(instance, execution, "OrchestrationStarted")
            .await?;
        Ok(event.and_then(|event| event.started_handler()))
    }

    /// The first event of a kind.
    pub(crate) async fn first_of(
        &self,
        instance: &str,
        execution: u64,
        kind: &str,
    ) -> Result<Option<Event>> {
        let sql = format!(
            "SELECT event_data FROM {{s}}.history WHERE instance_id = $1 AND execution_id = $2 AND event_type = '{kind}'
             ORDER BY event_id DESC LIMIT 1"
        );
        let rows = self.texts(&sql, instance, Some(execution)).await?;
        rows.first()
            .map(|row| codec::decode_event(instance, row))
            .transpose()
    }

    pub(crate) async fn outcome(&self, instance: &str) -> Result<Option<InstanceOutcome>> {
        let id = text::owned(instance);
        let rows = self.db
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
        let execution_id = unsigned(row, 0)?;
        let status: Option<String> = row.try_get(1)?;
        let output = row.try_get::<_, Option<String>>(2)?.map(text::shown);
        let output = output.unwrap_or_default();
        Ok(Some(InstanceOutcome {
            execution_id,
            status: match status.as_deref().and_then(ExecutionStatus::parse) {
                Some(ExecutionStatus::Completed) => OutcomeStatus::Completed { output },
                Some(ExecutionStatus::Failed) => OutcomeStatus::Failed {
                    details: self.failure(instance, execution_id, output).await?,
                },
                _ => OutcomeStatus::Running,
            },
            custom_status: row.try_get::<_, Option<String>>(3)?.map(text::shown),
            custom_status_version: unsigned(row, 4)?,
        }))
    }

    /// The custom status and its version, if that is newer than the one seen.
    pub(crate) async fn custom_status(
        &self,
        instance: &str,
        seen: u64,
    ) -> Result<Option<(Option<String>, u64)>> {
        let id = text::owned(instance);
        let seen = i64::try_from(seen).unwrap_or(i64::MAX);
        let rows = self
            .db
            .rows(
                "SELECT custom_status, custom_status_version FROM {s}.instances
                 WHERE instance_id = $1 AND custom_status_version > $2",
                &[(&id, Type::TEXT), (&seen, Type::INT8)],
            )
            .await?;
        let newer = rows.first().map(|row| {
            let status = row.try_get::<_, Option<String>>(0)?.map(text::shown);
            Ok((status, unsigned(row, 1)?))
        });
        newer.transpose()
    }

    /// The row only has the failure's text; its details are in the event that ended the execution.
    pub(crate) async fn failure(
        &self,
        instance: &str,
        execution: u64,
        output: String,
    ) -> Result<ErrorDetails> {
        let event = self
            .first_of(instance, execution, "OrchestrationFailed")
            .await?;
        Ok(match event.map(|event| event.kind) {
            Some(EventKind::OrchestrationFailed { details }) => details,
            _ => ErrorDetails::orchestration_failed(output),
        })
    }

    pub(crate) async fn stats(&self, instance: &str) -> Result<Option<SystemStats>> {
        let id = text::owned(instance);
        let rows = self.db
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
            .first_of(instance, unsigned(row, 0)?, "OrchestrationStarted")
            .await?;
        let carried = started.map_or(0, |event| rules::carried_messages(&event.kind));
        Ok(Some(SystemStats {
            history_event_count: unsigned(row, 1)?,
            history_size_bytes: unsigned(row, 2)?,
            queue_pending_count: u64::try_from(carried).unwrap_or(u64::MAX),
            kv_user_key_count: unsigned(row, 3)?,
            kv_total_value_bytes: unsigned(row, 4)?,
        }))
    }

    pub(crate) async fn kv(
        &self,
        instance: &str,
        key: Option<&str>,
    ) -> Result<HashMap<String, String>> {
        let (id, key) = (text::owned(instance), key.map(text::owned));
        let rows = self.db
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
}
