//! What can go wrong, by cause, and the error of the contract that callers get.

use duroxide_core::provider::ProviderError;
use duroxide_core::provider::rules::Refusal;
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
    /// The options cannot work.
    #[error("PostgresOptions: {why}")]
    Options {
        /// Which one, and why.
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
    /// The server was asked, and its answer was lost: what was asked for may have happened.
    #[error(
        "the answer of the database was lost ({why}); the call may have taken effect, and is tried again"
    )]
    Uncertain {
        /// How it was lost.
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
        /// The number of the migration.
        number: i32,
    },
    /// The server gave up: a deadlock, a conflict, a limit, a shutdown.
    #[error("the database gave up ({why}); the call can be repeated")]
    GaveUp {
        /// The server's words.
        why: String,
    },
    /// A row or page of the database cannot be read.
    #[error("the database cannot read what it stores ({why}); repair it or restore a backup")]
    Unreadable {
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
    /// The schema is not one of the published `duroxide-pg` 0.1.38.
    #[error("schema {schema} is none of the published duroxide-pg 0.1.38: {why}")]
    NotPublished {
        /// The schema.
        schema: String,
        /// What it is instead, or what it lacks.
        why: String,
    },
    /// The contract forbids what was asked for.
    #[error(transparent)]
    Contract(#[from] Refusal),
}

pub(crate) type Result<T> = std::result::Result<T, PgError>;

/// What a method of the contract answers.
pub(crate) type Answer<T> = std::result::Result<T, ProviderError>;

/// The answer of a method that is called this. The name is said once, so no error can carry another one's.
pub(crate) fn named<T>(operation: &str) -> impl FnOnce(Result<T>) -> Answer<T> + '_ {
    move |result| result.map_err(|error| error.into_provider_error(operation))
}

/// The answer to a renewal. A failure that is not about the lease says nothing of it: the lease holds until it runs
/// out, so the renewal is tried again. The engine takes any other error for a lost lease, as the published contract
/// does.
pub(crate) fn renewed(operation: &str) -> impl FnOnce(Result<()>) -> Answer<()> + '_ {
    move |result| match result {
        Err(PgError::Refused { why } | PgError::Database { why } | PgError::Unreadable { why }) => {
            Err(ProviderError::retryable(operation, why))
        }
        result => named(operation)(result),
    }
}

impl PgError {
    /// The error of a call that writes and was sent to the server: a connection that broke since then took the answer
    /// with it.
    pub(crate) fn of_sent(error: tokio_postgres::Error) -> Self {
        let was_answered = error.as_db_error().is_some();
        match Self::from(error) {
            Self::OutOfReach { why } if !was_answered => Self::Uncertain { why },
            other => other,
        }
    }

    /// Another transaction holds a row that the call needs.
    pub(crate) fn held() -> Self {
        Self::GaveUp {
            why: "another transaction holds the row".to_owned(),
        }
    }

    /// A stable code; docs/errors.md says what each means and what to do.
    ///
    /// ```
    /// use duroxide_pg::PgError;
    /// assert_eq!(PgError::Closed.code(), "D0811");
    /// ```
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Url { .. } => "D0801",
            Self::SchemaName { .. } => "D0802",
            Self::Tls { .. } => "D0803",
            Self::OutOfReach { .. } => "D0804",
            Self::Refused { .. } => "D0805",
            Self::NeedsMigration { .. } => "D0806",
            Self::NewerSchema { .. } => "D0807",
            Self::ChangedMigration { .. } => "D0808",
            Self::GaveUp { .. } => "D0809",
            Self::Database { .. } => "D0810",
            Self::Closed => "D0811",
            Self::NotPublished { .. } => "D0812",
            Self::Uncertain { .. } => "D0813",
            Self::Options { .. } => "D0814",
            Self::Unreadable { .. } => "D0815",
            Self::Contract(refusal) => refusal.code(),
        }
    }

    /// The same once more, for each of those who shared a transaction.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::OutOfReach { why } => Self::OutOfReach { why: why.clone() },
            Self::Uncertain { why } => Self::Uncertain { why: why.clone() },
            Self::GaveUp { why } => Self::GaveUp { why: why.clone() },
            Self::Refused { why } => Self::Refused { why: why.clone() },
            Self::Database { why } => Self::Database { why: why.clone() },
            Self::Unreadable { why } => Self::Unreadable { why: why.clone() },
            Self::Closed => Self::Closed,
            Self::Contract(refusal) => Self::Contract(refusal.clone()),
            other => Self::Database {
                why: other.to_string(),
            },
        }
    }

    /// The error as the contract's callers see it.
    pub(crate) fn into_provider_error(self, operation: &str) -> ProviderError {
        let message = self.to_string();
        match self {
            Self::OutOfReach { .. } | Self::Uncertain { .. } | Self::GaveUp { .. } => {
                ProviderError::retryable(operation, message)
            }
            Self::Contract(refusal) => refusal.into_provider_error(operation),
            Self::Url { .. }
            | Self::Options { .. }
            | Self::SchemaName { .. }
            | Self::Tls { .. }
            | Self::Refused { .. }
            | Self::NeedsMigration { .. }
            | Self::NewerSchema { .. }
            | Self::ChangedMigration { .. }
            | Self::Database { .. }
            // A turn that cannot be stored because of it blocks its instance with a report.
            | Self::Unreadable { .. }
            | Self::NotPublished { .. }
            | Self::Closed => ProviderError::permanent(operation, message),
        }
    }
}

/// How the schema's triggers say that the store is closed.
const CLOSED: &str = "DX001";

/// Whether the transaction was rolled back for a reason that is gone the next moment: another one was in the way, or a
/// plan was made before a migration.
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
            return if error.is_closed() || is_io(&error) {
                Self::OutOfReach { why }
            } else {
                Self::Database { why }
            };
        };
        let why = format!("{} ({})", server.message(), server.code().code());
        if server.code().code() == CLOSED {
            let reason = server.message().to_owned();
            return Self::Contract(Refusal::Closed { reason });
        }
        // Classes of the standard; a code of its own where a class says too little.
        match &server.code().code()[..2] {
            "08" => Self::OutOfReach { why },
            // A standby that does not know yet that it is not the one to write to, or the other way round.
            "25" if server.code().code() == "25006" => Self::OutOfReach { why },
            // Limits that an operator set for idle and for long transactions.
            "25" if matches!(server.code().code(), "25P03" | "25P04") => Self::GaveUp { why },
            // A statement that the session does not know, or knows twice: a pooler handed out another session.
            "26" => Self::GaveUp {
                why: format!(
                    "{why}; behind a pooler that does not track prepared statements set prepared_statements to false"
                ),
            },
            "42" if server.code().code() == "42P05" => Self::GaveUp { why },
            // A plan that a migration outdated.
            "0A" => Self::GaveUp { why },
            "40" | "53" | "55" | "57" | "58" => Self::GaveUp { why },
            "28" | "3D" | "42" => Self::Refused { why },
            "XX" if matches!(server.code().code(), "XX001" | "XX002") => Self::Unreadable { why },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_contract_says_that_a_lease_is_lost() {
        let answer = |error: PgError| renewed("renew_work_item_lock")(Err(error)).unwrap_err();
        let why = || "permission denied (42501)".to_owned();
        assert!(answer(PgError::Refused { why: why() }).is_retryable());
        assert!(answer(PgError::Database { why: why() }).is_retryable());
        assert!(answer(PgError::Unreadable { why: why() }).is_retryable());
        assert!(answer(PgError::Contract(Refusal::InvalidToken)).is_lease_lost());
    }
}
