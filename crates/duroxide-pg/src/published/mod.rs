//! A schema of the published `duroxide-pg` 0.1.38, for reading. In: where it is. Out: snapshots of its instances, all
//! as of one moment. Nothing in the schema is ever written or locked: the transaction is read-only. Leases and sessions
//! are not read, their holders are gone.

mod check;
mod rows;

use duroxide_core::provider::InstanceSnapshot;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::codec::unsigned;
use crate::connection::db::configured;
use crate::connection::schema::Schema;
use crate::connection::tls::Tls;
use crate::connection::url;
use crate::error::{PgError, Result};
use crate::options::PostgresOptions;

/// The schema that the published crate uses unless another one is named.
const PUBLISHED_DEFAULT: &str = "public";

/// Every read sees the same moment, however long the import takes; the server's limits for idle transactions do not
/// count for it.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = 0";

const IDS: &str = include_str!("../../published/ids.sql");
const COUNTS: &str = include_str!("../../published/counts.sql");
const LEASES: &str = include_str!("../../published/leases.sql");

/// A schema of the published `duroxide-pg` 0.1.38, as of the moment it was opened.
///
/// ```no_run
/// use duroxide_pg::PublishedSchema;
///
/// # async fn example() -> Result<(), duroxide_pg::PgError> {
/// let old = PublishedSchema::open("postgres://app@localhost/orders", None).await?;
/// let ids = old.next_ids(100).await?;
/// let first = old.snapshot(&ids[0]).await?;
/// assert_eq!(first.instance_id, ids[0]);
/// # Ok(())
/// # }
/// ```
pub struct PublishedSchema {
    client: Client,
    schema: Schema,
}

impl std::fmt::Debug for PublishedSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PublishedSchema")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

/// How many rows such a schema has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishedCounts {
    /// Instances.
    pub instances: u64,
    /// Their executions, those included of which only events are there.
    pub executions: u64,
    /// Their events.
    pub events: u64,
    /// Messages and timers that wait.
    pub messages: u64,
    /// Activities that wait or were running.
    pub activities: u64,
    /// Key-values, those of running executions included.
    pub key_values: u64,
}

impl PublishedSchema {
    /// Opens the schema for reading; `public` if none is named. Must be called on a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`PgError::NotPublished`] if the schema is not there, not of the published crate, of another version than
    /// 0.1.38, or not whole; others if the server cannot be reached or refuses.
    pub async fn open(database_url: &str, schema: Option<&str>) -> Result<Self> {
        let schema = Schema::parse(schema.unwrap_or(PUBLISHED_DEFAULT))?;
        let target = url::parse(database_url, |name| std::env::var(name).ok())?;
        let tls = Tls::new(&target)?;
        let options = PostgresOptions {
            application_name: "duroxide-import".to_owned(),
            ..PostgresOptions::default()
        };
        let (client, connection) = configured(&target, &options).connect(tls).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(target: "duroxide::providers::postgres", %error, "a connection ended");
            }
        });
        client.batch_execute(BEGIN).await?;
        check::is_published(&client, &schema).await?;
        let opened = Self { client, schema };
        let cursor = format!("DECLARE held CURSOR FOR {}", opened.sql(IDS));
        opened.client.batch_execute(&cursor).await?;
        Ok(opened)
    }

    /// The name of the schema.
    #[must_use]
    pub fn schema_name(&self) -> &str {
        self.schema.name()
    }

    /// How many instances and activities are leased to a program at this moment, by the server's clock. Of a program
    /// that was killed they end by themselves.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn leases(&self) -> Result<u64> {
        let rows = self.rows(LEASES, &[]).await?;
        counted(&rows, 0)
    }

    /// How much there is.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn counts(&self) -> Result<PublishedCounts> {
        let rows = self.rows(COUNTS, &[]).await?;
        Ok(PublishedCounts {
            instances: counted(&rows, 0)?,
            executions: counted(&rows, 1)?,
            events: counted(&rows, 2)?,
            messages: counted(&rows, 3)?,
            activities: counted(&rows, 4)?,
            key_values: counted(&rows, 5)?,
        })
    }

    /// The next of the ids that anything is held of, at most so many; empty after the last one. The empty id stands for
    /// activities that name no instance.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn next_ids(&self, limit: u32) -> Result<Vec<String>> {
        let sql = format!("FETCH {} FROM held", limit.max(1));
        let rows = self.client.query_typed(&sql, &[]).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Everything that is held of an id, without leases and sessions. What cannot be read comes along; what lies in the
    /// wrong queue, or names another instance, is a dead letter.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn snapshot(&self, instance: &str) -> Result<InstanceSnapshot> {
        rows::snapshot(self, instance).await
    }

    async fn rows(&self, text: &str, params: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>> {
        let sql = self.sql(text);
        Ok(self.client.query_typed(&sql, params).await?)
    }

    /// A statement with the tables of the schema: `{s}` stands for it.
    fn sql(&self, text: &str) -> String {
        text.replace("{s}", &self.schema.quoted())
    }
}

fn counted(rows: &[Row], column: usize) -> Result<u64> {
    let row = rows.first().ok_or_else(|| PgError::Database {
        why: "a count answered with no row".to_owned(),
    })?;
    unsigned(row, column)
}
