//! What can go wrong in this store. In: causes. Out: [`ProviderError`]s, retryable or not.
//!
//! SQLite's result codes distinguish the causes, never the text of a message.

use std::path::PathBuf;

use duroxide_core::provider::ProviderError;
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
    #[error("{} has schema version {found} and needs an upgrade; open it for writing once", path.display())]
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
    /// The token is unknown: never given out, already used, or taken over.
    #[error("Invalid lock token: unknown, already used, cancelled or taken over")]
    InvalidToken,
    /// The lease of an instance ran out before the commit.
    #[error("Instance lock expired for {instance}")]
    LockExpired {
        /// The instance.
        instance: String,
    },
    /// The lease of an activity ran out.
    #[error("Invalid lock token: the lease of the work item expired")]
    WorkLockExpired,
    /// The event is already recorded.
    #[error("event {event_id} of {instance} execution {execution_id} is already recorded")]
    DuplicateEvent {
        /// The instance.
        instance: String,
        /// The execution.
        execution_id: u64,
        /// The event.
        event_id: u64,
    },
    /// An event without a position.
    #[error("an event of {instance} has no id; ids begin at 1")]
    EventWithoutId {
        /// The instance.
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
        /// The row, in words.
        what: String,
        /// The decoder's words.
        why: String,
    },
    /// A value cannot be written as JSON, or a number does not fit.
    #[error("{what} cannot be stored: {why}")]
    Unstorable {
        /// The value, in words.
        what: String,
        /// The reason.
        why: String,
    },
    /// No such instance.
    #[error("Instance {instance} not found")]
    InstanceNotFound {
        /// The id of the instance.
        instance: String,
    },
    /// No such execution.
    #[error("Execution {execution_id} not found for instance {instance}")]
    ExecutionNotFound {
        /// The instance.
        instance: String,
        /// The id of the execution.
        execution_id: u64,
    },
    /// A live instance is not deleted without force.
    #[error("Instance {instance} is running; cancel it first, or delete with force")]
    StillRunning {
        /// The instance.
        instance: String,
    },
    /// A deletion would leave a child without its parent.
    #[error("Cannot delete {parent} without its child {child}; delete the whole tree")]
    ChildLeftBehind {
        /// The instance in the list.
        parent: String,
        /// Its child, which is not in the list.
        child: String,
    },
}

/// Turns an answer of this crate into one of the contract.
pub(crate) trait AtOperation<T> {
    /// Names the method of the contract that was called.
    fn at(self, operation: &str) -> std::result::Result<T, ProviderError>;
}

impl<T> AtOperation<T> for Result<T> {
    fn at(self, operation: &str) -> std::result::Result<T, ProviderError> {
        self.map_err(|error| error.into_provider_error(operation))
    }
}

impl SqliteError {
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
            Self::InvalidToken | Self::LockExpired { .. } | Self::WorkLockExpired => {
                ProviderError::lease_lost(operation, message)
            }
            Self::Url { .. }
            | Self::NotADatabase { .. }
            | Self::ForeignDatabase { .. }
            | Self::NewerSchema { .. }
            | Self::NeedsUpgrade { .. }
            | Self::DurabilityRefused { .. }
            | Self::ReadOnly
            | Self::Closed
            | Self::Panicked { .. }
            | Self::Database { .. }
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
        let error = SqliteError::InvalidToken.into_provider_error("ack_work_item");
        assert_eq!(error.operation, "ack_work_item");
    }
}
