//! What can go wrong in this store. In: causes. Out: [`ProviderError`]s, retryable or not.
//!
//! SQLite's result codes distinguish the causes, never the text of a message.

use std::path::PathBuf;

use duroxide_core::provider::ProviderError;
use duroxide_core::provider::rules::Refusal;
use rusqlite::ErrorCode;

pub(crate) type Result<T> = std::result::Result<T, SqliteError>;

/// Why a store could not be opened, or why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SqliteError {
    /// The url is not understood.
    #[error("cannot use the database url `{url}`: {why}")]
    Url {
        /// The url as it was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file is missing and may not be created.
    #[error("{} does not exist; create it with `?mode=rwc` or leave the mode out", path.display())]
    MissingFile {
        /// The file.
        path: PathBuf,
    },
    /// The folder of the file is missing.
    #[error("the folder {} does not exist; create it first", path.display())]
    MissingFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The file cannot be created or opened.
    #[error("cannot open {}: {why}; check the permissions of the file and of its folder", path.display())]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// The system's words.
        why: String,
    },
    /// Another store has the file open, and the SQLite of one of the two cannot share it safely.
    #[error(
        "{} is open in another store, and one of the two is linked to a SQLite that cannot share a file safely (this one \
         to {version}); close the other one, or link SQLite 3.51.3 or newer in all programs that use it", path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
        /// The SQLite that this program is linked to.
        version: String,
    },
    /// A new file would replace this one.
    #[error("{} exists, and is not overwritten; choose another name", path.display())]
    FileExists {
        /// The file.
        path: PathBuf,
    },
    /// Another program has the file open, and would be disturbed.
    #[error("{} is open in another program, which this would disturb; stop the program first", path.display())]
    Held {
        /// The file.
        path: PathBuf,
    },
    /// The caller ended the work; nothing was left behind.
    #[error("stopped before it was done; nothing was left behind")]
    Stopped,
    /// The file is no SQLite database.
    #[error("{} is not a SQLite database; choose another file, this one was left as it is", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file is a SQLite database of another program.
    #[error("{} is a database of {owner}; choose another file, this one was left as it is", path.display())]
    ForeignDatabase {
        /// The file.
        path: PathBuf,
        /// The program that it belongs to, as far as that is known.
        owner: String,
    },
    /// The file was written by a newer build.
    #[error(
        "{} has schema version {found}, this build knows up to {known}; use a newer build", path.display()
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The version of its schema.
        found: i64,
        /// The newest version that this build knows.
        known: i64,
    },
    /// The file has an older schema and may not be written.
    #[error("{} has schema version {found} and needs an upgrade; `duroxide migrate` does it, and so does a program of this build that opens it for writing", path.display())]
    NeedsUpgrade {
        /// The file.
        path: PathBuf,
        /// The version of its schema.
        found: i64,
    },
    /// The durability asked for is not what the database reports.
    #[error(
        "{} cannot promise the durability asked for: {setting} is `{found}` instead of `{wanted}`; a file system \
         without shared memory (network shares) cannot hold the database", path.display()
    )]
    DurabilityRefused {
        /// The file.
        path: PathBuf,
        /// The pragma that differs.
        setting: &'static str,
        /// Its value.
        found: String,
        /// The value asked for.
        wanted: String,
    },
    /// Another program holds the write lock.
    #[error(
        "the database is locked by another program; try again, or end the program that holds it"
    )]
    Busy,
    /// No space left.
    #[error("the disk is full; nothing was written, free some space and the call can be repeated")]
    DiskFull,
    /// The operating system could not read or write.
    #[error(
        "the disk failed ({detail}); nothing was acknowledged, the call can be repeated once it works again"
    )]
    Io {
        /// SQLite's words.
        detail: String,
    },
    /// The operating system failed while the commit was written: it may have happened, or not.
    #[error(
        "the disk failed during a commit ({detail}); whether it was stored is found out when the file is opened again"
    )]
    CommitUncertain {
        /// SQLite's words.
        detail: String,
    },
    /// The store was opened, or the file is, read-only.
    #[error("the database is read-only; open it for writing or change the permissions of the file")]
    ReadOnly,
    /// The file was removed or replaced while it was open.
    #[error("{} was removed or replaced while in use; put it back, or restart with the new one", path.display())]
    FileGone {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened again after its connection was lost.
    #[error("the database is out of reach ({why}); the store tries to open it again")]
    OutOfReach {
        /// The reason.
        why: String,
    },
    /// Another build changed the schema while the file was open.
    #[error(
        "another build brought the file to schema version {found}, this one writes {known}; restart this program with the newer build"
    )]
    SchemaChanged {
        /// The version of the file.
        found: i64,
        /// The version that this build writes.
        known: i64,
    },
    /// The thread that had the request ended unexpectedly; whether it was carried out is not known.
    #[error(
        "the request was interrupted by a defect of the store; it is not known whether it was carried out"
    )]
    Interrupted,
    /// The file is damaged.
    #[error(
        "the database is damaged ({detail}); restore a backup, `sqlite3 FILE .recover` may help"
    )]
    Damaged {
        /// SQLite's words.
        detail: String,
    },
    /// The store was closed while the call waited.
    #[error("the store is closed")]
    Closed,
    /// A request made the writer panic; nothing of it was written.
    #[error("the request failed unexpectedly: {detail}")]
    Panicked {
        /// The text of the panic.
        detail: String,
    },
    /// Any other error that SQLite reports.
    #[error("the database reports: {detail}")]
    Database {
        /// SQLite's words.
        detail: String,
    },
    /// The contract forbids what was asked for.
    #[error(transparent)]
    Contract(#[from] Refusal),
}

/// Turns an answer of this crate into one of the contract.
pub(crate) trait AtOperation<T> {
    /// Names the method of the contract that was called.
    fn at(self, operation: &str) -> std::result::Result<T, ProviderError>;

    /// The same for a read that shares its transaction with no other request: what is damaged is damaged at the next
    /// try, too.
    fn at_alone(self, operation: &str) -> std::result::Result<T, ProviderError>;
}

impl<T> AtOperation<T> for Result<T> {
    fn at(self, operation: &str) -> std::result::Result<T, ProviderError> {
        self.map_err(|error| error.into_provider_error(operation))
    }

    fn at_alone(self, operation: &str) -> std::result::Result<T, ProviderError> {
        self.map_err(|error| match error {
            SqliteError::Damaged { .. } => ProviderError::permanent(operation, error.to_string()),
            error => error.into_provider_error(operation),
        })
    }
}

impl SqliteError {
    /// A stable code; docs/errors.md says what each means and what to do.
    ///
    /// ```
    /// use duroxide_sqlite::SqliteError;
    /// assert_eq!(SqliteError::DiskFull.code(), "D0512");
    /// ```
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Url { .. } => "D0501",
            Self::MissingFile { .. } => "D0502",
            Self::MissingFolder { .. } => "D0503",
            Self::CannotOpen { .. } => "D0504",
            Self::InUse { .. } => "D0505",
            Self::NotADatabase { .. } => "D0506",
            Self::ForeignDatabase { .. } => "D0507",
            Self::NewerSchema { .. } => "D0508",
            Self::NeedsUpgrade { .. } => "D0509",
            Self::DurabilityRefused { .. } => "D0510",
            Self::Busy => "D0511",
            Self::DiskFull => "D0512",
            Self::Io { .. } => "D0513",
            Self::CommitUncertain { .. } => "D0514",
            Self::ReadOnly => "D0515",
            Self::FileGone { .. } => "D0516",
            Self::OutOfReach { .. } => "D0517",
            Self::SchemaChanged { .. } => "D0518",
            Self::Interrupted => "D0519",
            Self::Damaged { .. } => "D0520",
            Self::Closed => "D0521",
            Self::Panicked { .. } => "D0522",
            Self::Database { .. } => "D0523",
            Self::FileExists { .. } => "D0524",
            Self::Held { .. } => "D0525",
            Self::Stopped => "D0526",
            Self::Contract(refusal) => refusal.code(),
        }
    }

    /// The error as the contract's callers see it.
    fn into_provider_error(self, operation: &str) -> ProviderError {
        let message = self.to_string();
        match self {
            Self::Busy
            | Self::DiskFull
            | Self::Io { .. }
            | Self::FileGone { .. }
            // A request that does not read the damaged page succeeds at the next try; the others need an operator.
            | Self::Damaged { .. }
            | Self::OutOfReach { .. }
            | Self::Interrupted
            | Self::CommitUncertain { .. }
            // Nothing is wrong with the work: another node, or this program after a restart, does it.
            | Self::SchemaChanged { .. }
            | Self::InUse { .. }
            | Self::CannotOpen { .. }
            | Self::MissingFile { .. }
            | Self::MissingFolder { .. } => ProviderError::retryable(operation, message),
            Self::Contract(refusal) => refusal.into_provider_error(operation),
            Self::Url { .. }
            | Self::FileExists { .. }
            | Self::Held { .. }
            | Self::Stopped
            | Self::NotADatabase { .. }
            | Self::ForeignDatabase { .. }
            | Self::NewerSchema { .. }
            | Self::NeedsUpgrade { .. }
            | Self::DurabilityRefused { .. }
            | Self::ReadOnly
            | Self::Closed
            | Self::Panicked { .. }
            | Self::Database { .. } => ProviderError::permanent(operation, message),
        }
    }

    /// Whether the connection that reported this must not be used again: after a failed sync the operating system
    /// may have dropped the pages, so a second sync on the same handle would succeed without having written them.
    pub(crate) fn spoils_connection(&self) -> bool {
        matches!(
            self,
            Self::Io { .. } | Self::Damaged { .. } | Self::CommitUncertain { .. }
        )
    }
}

impl From<rusqlite::Error> for SqliteError {
    fn from(error: rusqlite::Error) -> Self {
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::OutOfMemory
                | ErrorCode::NoLargeFileSupport,
            ) => Self::Io { detail },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged { detail },
            // Everything else is a defect of the request or of this crate: trying again would not help.
            Some(_) | None => Self::Database { detail },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn from_code(code: i32) -> SqliteError {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }

    #[test]
    fn result_codes_decide_whether_to_try_again() {
        let retryable = [
            ffi::SQLITE_BUSY,
            ffi::SQLITE_BUSY_SNAPSHOT,
            ffi::SQLITE_LOCKED,
            ffi::SQLITE_FULL,
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_CANTOPEN,
            ffi::SQLITE_CORRUPT,
        ];
        for code in retryable {
            let error = from_code(code).into_provider_error("op");
            assert!(error.is_retryable(), "{code}: {error}");
        }
        let permanent = [
            ffi::SQLITE_CONSTRAINT_FOREIGNKEY,
            ffi::SQLITE_CONSTRAINT_PRIMARYKEY,
            ffi::SQLITE_ERROR,
            ffi::SQLITE_READONLY,
            ffi::SQLITE_TOOBIG,
        ];
        for code in permanent {
            let error = from_code(code).into_provider_error("op");
            assert!(!error.is_retryable(), "{code}: {error}");
        }
    }

    #[test]
    fn the_operation_is_the_one_that_was_called() {
        let error = SqliteError::from(Refusal::InvalidToken).into_provider_error("ack_work_item");
        assert_eq!(error.operation, "ack_work_item");
    }
}
