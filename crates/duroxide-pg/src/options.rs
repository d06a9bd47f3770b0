//! What a user chooses: where the database is, which schema, what to do about its version, and the limits of this
//! process.

use std::fmt;
use std::time::Duration;

/// The schema, unless another one is named.
const DEFAULT_SCHEMA: &str = "duroxide";

/// What to do about the schema when a provider is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MigrationPolicy {
    /// Create the schema, or bring it to the version of this build.
    #[default]
    ApplyAll,
    /// Change nothing; refuse a schema that is not of the version of this build.
    VerifyOnly,
}

/// Where the database is and how to treat its schema.
///
/// ```
/// use duroxide_pg::{MigrationPolicy, ProviderConfig};
/// let config = ProviderConfig {
///     schema_name: Some("tenant_7".into()),
///     migration_policy: MigrationPolicy::VerifyOnly,
///     ..ProviderConfig::url("postgres://app:secret@db.internal/orders")
/// };
/// assert!(!format!("{config:?}").contains("secret"));
/// ```
#[derive(Clone)]
pub struct ProviderConfig {
    /// The url, as libpq understands it. A password is taken from here, from `PGPASSWORD` or from `~/.pgpass`.
    pub database_url: String,
    /// The schema; `duroxide` if not given.
    pub schema_name: Option<String>,
    /// Treatment of a schema that is missing or older.
    pub migration_policy: MigrationPolicy,
    /// Limits and names of this process.
    pub options: PostgresOptions,
}

impl ProviderConfig {
    /// The database at this url, with defaults for everything else.
    pub fn url(database_url: impl Into<String>) -> Self {
        Self {
            database_url: database_url.into(),
            schema_name: None,
            migration_policy: MigrationPolicy::default(),
            options: PostgresOptions::default(),
        }
    }

    pub(crate) fn schema(&self) -> &str {
        self.schema_name.as_deref().unwrap_or(DEFAULT_SCHEMA)
    }
}

// The url may hold a password.
impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("schema_name", &self.schema_name)
            .field("migration_policy", &self.migration_policy)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Limits and names of one process. Options that cannot work are refused when a store opens
/// ([`PgError::Options`](crate::PgError::Options)).
///
/// ```
/// use duroxide_pg::PostgresOptions;
/// let options = PostgresOptions { pool_size: 10, ..PostgresOptions::default() };
/// assert!(options.listener_url.is_none());
/// ```
#[derive(Clone)]
pub struct PostgresOptions {
    /// Connections for claims, commits and reads, at least 5; 7 if not given. One more connection listens.
    pub pool_size: usize,
    /// Url at which to listen for wake-ups, if not that of the database: behind PgBouncer, the server itself. Not
    /// together with `listen: false`.
    pub listener_url: Option<String>,
    /// Whether to listen at all. Without it work of other processes is found by polling, within a second.
    pub listen: bool,
    /// Whether statements are prepared once for each connection. A pooler in transaction mode that does not know
    /// prepared statements (PgBouncer before 1.21) needs `false`.
    pub prepared_statements: bool,
    /// How long the server may work on one statement, at least two seconds, because one may wait for a row for a
    /// second; `None` leaves it to the server.
    pub statement_timeout: Option<Duration>,
    /// How long to wait for an answer of the server before the connection is given up, at least a millisecond. Below
    /// two seconds a call that waits for a row that somebody else holds is given up before the server answers, and
    /// nobody knows whether it took effect (D0813).
    pub response_timeout: Duration,
    /// The name that `pg_stat_activity` shows: 1 to 63 printable characters of ASCII.
    pub application_name: String,
    /// How long a message for an instance that has not started waits for its start before it becomes a dead letter.
    pub unknown_instance_grace: Duration,
    /// How often to look for work of other processes while nothing wakes: the net below the wake-ups.
    pub poll_interval: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            pool_size: 7,
            listener_url: None,
            listen: true,
            prepared_statements: true,
            statement_timeout: None,
            response_timeout: Duration::from_secs(30),
            application_name: "duroxide".to_owned(),
            unknown_instance_grace: Duration::from_secs(60),
            poll_interval: Duration::from_secs(5),
        }
    }
}

// The listener's url may hold a password.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("pool_size", &self.pool_size)
            .field("has_listener_url", &self.listener_url.is_some())
            .field("listen", &self.listen)
            .field("prepared_statements", &self.prepared_statements)
            .field("statement_timeout", &self.statement_timeout)
            .field("response_timeout", &self.response_timeout)
            .field("application_name", &self.application_name)
            .field("unknown_instance_grace", &self.unknown_instance_grace)
            .field("poll_interval", &self.poll_interval)
            .finish()
    }
}
