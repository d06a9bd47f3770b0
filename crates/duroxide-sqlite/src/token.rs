//! Lock tokens. A token names the row it was granted for, so that finding it again needs no index; the random part
//! makes it a proof. In: row keys. Out: text, and back.

use uuid::Uuid;

use crate::error::SqliteError;
use crate::tx::Result;

const PREFIX: &str = "lock_";
/// Hexadecimal digits of a UUID without hyphens.
const RANDOM_LEN: usize = 32;

/// A token for a claimed instance.
pub(crate) fn for_instance(instance: &str) -> String {
    format!("{PREFIX}{}_{instance}", Uuid::new_v4().simple())
}

/// A token for a claimed activity.
pub(crate) fn for_work(id: i64) -> String {
    format!("{PREFIX}{}_{id}", Uuid::new_v4().simple())
}

/// The instance a token was granted for.
pub(crate) fn instance_of(token: &str) -> Result<&str> {
    key_of(token).ok_or(SqliteError::InvalidToken)
}

/// The work item a token was granted for.
pub(crate) fn work_of(token: &str) -> Result<i64> {
    key_of(token)
        .and_then(|key| key.parse().ok())
        .ok_or(SqliteError::InvalidToken)
}

fn key_of(token: &str) -> Option<&str> {
    let rest = token.strip_prefix(PREFIX)?;
    rest.get(RANDOM_LEN..)?.strip_prefix('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_row() {
        for instance in ["order-7", "", "_", "a\0b", "päckchen", "lock_x_y"] {
            assert_eq!(instance_of(&for_instance(instance)).unwrap(), instance);
        }
        assert_eq!(work_of(&for_work(42)).unwrap(), 42);
    }

    #[test]
    fn what_was_never_granted_is_refused() {
        for token in ["", "lock_", "invalid-token", "lock_é", "lock_0123"] {
            assert!(instance_of(token).is_err(), "{token}");
            assert!(work_of(token).is_err(), "{token}");
        }
        assert!(work_of(&for_instance("order-7")).is_err());
    }
}
