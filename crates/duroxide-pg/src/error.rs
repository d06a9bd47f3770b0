//! What can go wrong, by cause, and what the contract's callers are told about it.

use duroxide_core::provider::ProviderError;
use tokio_postgres::error::SqlState;

/// Why the store could not do something. No message ever holds a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PgError {
    /// The url is not understood.
    #[error("the database url is not understood: {why}")]
    Url {
        /// What is wrong with it, without the url itself.
        why: String,
    },
    /// The name of the schema is no plain identifier.
    #[error(
        "`{}` is no schema name: letters, digits and underscores, at most 63, not beginning with a digit or with pg_", name.escape_debug()
    )]
    SchemaName {
        /// The name.
        name: String,
    },
    /// The server's certificate, or ours, cannot be used.
    #[error("TLS cannot be set up: {why}")]
    Tls {
        /// Why not.
        why: String,
    },
    /// The server cannot be reached, or the connection broke.
    #[error("the database is out of reach ({why}); it is tried again")]
    OutOfReach {
        /// Why not.
        why: String,
    },
    /// The server refuses this user, this database, or what they want to do.
    #[error("the database refuses: {why}")]
    Refused {
        /// The server's words.
        why: String,
    },
    /// The schema is not there, or older than this build.
    #[error(
        "schema {schema} has version {found}, this build needs {needed}; apply the migrations (MigrationPolicy::ApplyAll, or the printed SQL)"
    )]
    NeedsMigration {
        /// The schema.
        schema: String,
        /// Its version; 0 if there is none.
        found: i32,
        /// The version of this build.
        needed: i32,
    },
    /// A newer build has migrated the schema.
    #[error(
        "schema {schema} has version {found}, this build knows up to {known}; use a newer build"
    )]
    NewerSchema {
        /// The schema.
        schema: String,
        /// Its version.
        found: i32,
        /// The version of this build.
        known: i32,
    },
    /// A migration that was applied is not the one of this build.
    #[error(
        "migration {number} of schema {schema} was applied with another text; the schema was changed by hand or by another program"
    )]
    ChangedMigration {
        /// The schema.
        schema: String,
        /// Which.
        number: i32,
    },
    /// The server gave up: a deadlock, a conflict, a limit, a shutdown.
    #[error("the database gave up ({why}); nothing was written, the call can be repeated")]
    GaveUp {
        /// The server's words.
        why: String,
    },
    /// Anything else the server reports.
    #[error("the database reports: {why}")]
    Database {
        /// The server's words.
        why: String,
    },
    /// The provider was dropped while the call waited.
    #[error("the store is closed")]
    Closed,
    /// The token is unknown: never given out, already used, or taken over.
    #[error("Invalid lock token: unknown, already used, cancelled or taken over")]
    InvalidToken,
    /// The lease of an instance ran out before the commit.
    #[error("Instance lock expired for {instance}")]
    LockExpired {
        /// Whose.
        instance: String,
    },
    /// The lease of an activity ran out.
    #[error("Invalid lock token: the lease of the work item expired")]
    WorkLockExpired,
    /// The event is already recorded.
    #[error("event {event_id} of {instance} execution {execution_id} is already recorded")]
    DuplicateEvent {
        /// Whose.
        instance: String,
        /// In which execution.
        execution_id: u64,
        /// Which.
        event_id: u64,
    },
    /// An event without a position.
    #[error("an event of {instance} has no id; ids begin at 1")]
    EventWithoutId {
        /// Whose.
        instance: String,
    },
    /// A message of this kind does not belong on this queue.
    #[error("Invalid work item type: {kind} does not belong on the {queue} queue")]
    WrongKind {
        /// The message's kind.
        kind: &'static str,
        /// The queue.
        queue: &'static str,
    },
    /// Stored data does not decode.
    #[error("{what} does not decode: {why}")]
    Undecodable {
        /// Which row.
        what: String,
        /// The decoder's words.
        why: String,
    },
    /// A value cannot be written as JSON, is too long, or a number does not fit.
    #[error("{what} cannot be stored: {why}")]
    Unstorable {
        /// Which value.
        what: String,
        /// Why not.
        why: String,
    },
    /// No such instance.
    #[error("Instance {instance} not found")]
    InstanceNotFound {
        /// Its id.
        instance: String,
    },
    /// No such execution.
    #[error("Execution {execution_id} not found for instance {instance}")]
    ExecutionNotFound {
        /// Its instance.
        instance: String,
        /// Its id.
        execution_id: u64,
    },
    /// A live instance is not deleted without force.
    #[error("Instance {instance} is running; cancel it first, or delete with force")]
    StillRunning {
        /// Which.
        instance: String,
    },
    /// A deletion would leave a child without its parent.
    #[error("Cannot delete {parent} without its child {child}; delete the whole tree")]
    ChildLeftBehind {
        /// In the list.
        parent: String,
        /// Not in the list.
        child: String,
    },
}

pub(crate) type Result<T> = std::result::Result<T, PgError>;

impl PgError {
    /// The same once more, for each of those who shared a transaction.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::OutOfReach { why } => Self::OutOfReach { why: why.clone() },
            Self::GaveUp { why } => Self::GaveUp { why: why.clone() },
            Self::Refused { why } => Self::Refused { why: why.clone() },
            Self::Database { why } => Self::Database { why: why.clone() },
            Self::Closed => Self::Closed,
            Self::DuplicateEvent {
                instance,
                execution_id,
                event_id,
            } => Self::DuplicateEvent {
                instance: instance.clone(),
                execution_id: *execution_id,
                event_id: *event_id,
            },
            other => Self::Database {
                why: other.to_string(),
            },
        }
    }

    /// The error as the contract's callers see it.
    pub(crate) fn into_provider_error(self, operation: &str) -> ProviderError {
        let message = self.to_string();
        match self {
            Self::OutOfReach { .. } | Self::GaveUp { .. } => {
                ProviderError::retryable(operation, message)
            }
            Self::InvalidToken | Self::LockExpired { .. } | Self::WorkLockExpired => {
                ProviderError::lease_lost(operation, message)
            }
            Self::Url { .. }
            | Self::SchemaName { .. }
            | Self::Tls { .. }
            | Self::Refused { .. }
            | Self::NeedsMigration { .. }
            | Self::NewerSchema { .. }
            | Self::ChangedMigration { .. }
            | Self::Database { .. }
            | Self::Closed
            | Self::DuplicateEvent { .. }
            | Self::EventWithoutId { .. }
            | Self::WrongKind { .. }
            | Self::Undecodable { .. }
            | Self::Unstorable { .. }
            | Self::InstanceNotFound { .. }
            | Self::ExecutionNotFound { .. }
            | Self::StillRunning { .. }
            | Self::ChildLeftBehind { .. } => ProviderError::permanent(operation, message),
        }
    }
}

/// Whether the transaction was rolled back for a reason that is gone the next moment: another one was in the way, or a plan was made
/// before a migration.
pub(crate) fn is_passing(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::T_R_DEADLOCK_DETECTED
            || *code == SqlState::T_R_SERIALIZATION_FAILURE
            || *code == SqlState::FEATURE_NOT_SUPPORTED
    })
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(server) = error.as_db_error() else {
            let why = with_sources(&error);
            return match error.is_closed() || is_io(&error) {
                true => Self::OutOfReach { why },
                false => Self::Database { why },
            };
        };
        let why = format!("{} ({})", server.message(), server.code().code());
        // Classes of the standard; a code of its own where a class says too little.
        match &server.code().code()[..2] {
            "08" => Self::OutOfReach { why },
            // A standby that was not told yet that it is not the one to write to, or the other way round.
            "25" if server.code().code() == "25006" => Self::OutOfReach { why },
            "40" | "53" | "55" | "57" | "58" => Self::GaveUp { why },
            "28" | "3D" | "42" => Self::Refused { why },
            _ => Self::Database { why },
        }
    }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.is::<std::io::Error>() {
            return true;
        }
        source = cause.source();
    }
    // How the driver says that it could not connect at all.
    let text = error.to_string();
    text.starts_with("error connecting") || text.starts_with("error communicating")
}

fn with_sources(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

impl From<deadpool_postgres::PoolError> for PgError {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => error.into(),
            deadpool_postgres::PoolError::Closed => Self::Closed,
            other => Self::OutOfReach {
                why: other.to_string(),
            },
        }
    }
}
