//! Pauses and resumes instances. The functions of the schema do it; this file calls them and notifies claims that wait.

use duroxide_core::provider::{Incarnation, Pausing};
use tokio_postgres::types::Type;

use crate::connection::call::Call;
use crate::error::{PgError, Result};
use crate::news::Queues;
use crate::store::Store;
use crate::text;
use crate::time::shown_ms;

impl Store {
    pub(crate) async fn pause(&self, instance: &str) -> Result<Pausing> {
        let id = text::owned(instance);
        let call = Call::new("pause_instance").int(self.expected()).text(&id);
        outcome(self.one(call).await?)
    }

    pub(crate) async fn resume(&self, instance: &str) -> Result<Pausing> {
        let id = text::owned(instance);
        let call = Call::new("resume_instance").text(&id);
        let outcome = outcome(self.one(call).await?);
        self.look(Queues::BOTH, &[]);
        outcome
    }

    /// Pauses one life of an id.
    pub(crate) async fn pause_life(&self, instance: &str, life: Incarnation) -> Result<Pausing> {
        let id = text::owned(instance);
        let call = Call::new("pause_life")
            .int(self.expected())
            .text(&id)
            .int(life.to_stored());
        outcome(self.one(call).await?)
    }

    pub(crate) async fn resume_life(&self, instance: &str, life: Incarnation) -> Result<Pausing> {
        let id = text::owned(instance);
        let call = Call::new("resume_life").text(&id).int(life.to_stored());
        let outcome = outcome(self.one(call).await?);
        self.look(Queues::BOTH, &[]);
        outcome
    }

    pub(crate) async fn incarnation_of(&self, instance: &str) -> Result<Option<Incarnation>> {
        let id = text::owned(instance);
        let sql = "SELECT incarnation FROM {s}.instances WHERE instance_id = $1";
        let rows = self.ask(sql, &[(&id, Type::TEXT)]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let stored: Option<i64> = row.try_get(0)?;
        Ok(stored.and_then(Incarnation::from_stored))
    }

    pub(crate) async fn pause_of(&self, instance: &str) -> Result<Option<u64>> {
        let id = text::owned(instance);
        let sql =
            "SELECT paused_at FROM {s}.instances WHERE instance_id = $1 AND paused_at IS NOT NULL";
        let rows = self.ask(sql, &[(&id, Type::TEXT)]).await?;
        let since = rows.first().map(|row| row.try_get(0)).transpose()?;
        Ok(since.map(shown_ms))
    }
}

fn outcome(number: i32) -> Result<Pausing> {
    Ok(match number {
        0 => Pausing::Done,
        1 => Pausing::Unchanged,
        2 => Pausing::NoSuchInstance,
        3 => Pausing::Ended,
        other => {
            return Err(PgError::Database {
                why: format!("a pause ended in {other}"),
            });
        }
    })
}
