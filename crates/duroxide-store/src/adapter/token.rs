//! The lock token of a turn: the lease and the instance it is for, so that a commit finds its rows at once.

use super::error::{Error, Result};
use crate::lease::LeaseToken;

pub(super) fn of_turn(lease: &LeaseToken, instance: &str) -> String {
    format!("{lease}:{instance}")
}

/// The lease and the instance. The instance is only a hint: a commit checks it against the lease.
pub(super) fn parse_turn(token: &str) -> Result<(LeaseToken, &str)> {
    let (lease, instance) = token
        .split_once(':')
        .ok_or_else(|| Error::InvalidToken(token.to_owned()))?;
    Ok((LeaseToken::new(lease), instance))
}
