//! Why a step failed: the caller's conditions did not hold, or the file could not be read or written.

use crate::error::StoreError;

pub(super) type Result<T> = std::result::Result<T, Trouble>;

/// A walk that skips from key to key ends only if each look finds what is not before its start. Pages that are damaged
/// may hold keys out of their order.
pub(super) fn in_order<K: PartialOrd>(found: &K, start: &K) -> Result<()> {
    if found < start {
        let text = "its keys are out of order".to_owned();
        return Err(::redb::StorageError::Corrupted(text).into());
    }
    Ok(())
}

#[derive(Debug)]
pub(super) enum Trouble {
    /// Found out before anything was written: the rest of a shared transaction goes on.
    Refused(StoreError),
    /// Found out before anything of the job was written: it is to come again once more of what was deleted is removed.
    /// Some of that was just now.
    Later,
    /// Found out in the middle: the transaction is given up.
    Broken(::redb::Error),
}

impl Trouble {
    pub(super) fn into_store_error(self) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Later => {
                let text = "what was deleted under this name is still being removed".to_owned();
                StoreError::Retryable(text)
            }
            Self::Broken(::redb::Error::Corrupted(text)) => {
                StoreError::Corrupt(format!("the file is damaged: {text}"))
            }
            Self::Broken(::redb::Error::ValueTooLarge(size)) => {
                StoreError::Permanent(format!("a value of {size} bytes is too large"))
            }
            Self::Broken(error) => StoreError::Retryable(error.to_string()),
        }
    }
}

impl Trouble {
    /// Whether the file failed, so that redb wants it to be opened again.
    pub(super) fn needs_reopening(&self) -> bool {
        matches!(
            self,
            Self::Broken(
                ::redb::Error::Io(_) | ::redb::Error::PreviousIo | ::redb::Error::LockPoisoned(_)
            )
        )
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

macro_rules! broken {
    ($($error:ident),*) => {
        $(impl From<::redb::$error> for Trouble {
            fn from(error: ::redb::$error) -> Self {
                Self::Broken(error.into())
            }
        })*
    };
}

broken!(
    StorageError,
    TableError,
    TransactionError,
    CommitError,
    DatabaseError,
    SetDurabilityError,
    CompactionError
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_before_the_start_of_a_look_is_damage() {
        in_order(&("q", Some("b")), &("q", Some("b"))).unwrap();
        let trouble = in_order(&("q", None), &("q", Some("b"))).unwrap_err();
        assert!(matches!(trouble.into_store_error(), StoreError::Corrupt(_)));
    }
}
