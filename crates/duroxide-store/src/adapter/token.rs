//! The lock token of a turn: the lease, the instance it is for, and what the claim decided about its life, so that a
//! commit finds its rows at once and writes what the claim said.

use duroxide_core::provider::Incarnation;

use super::error::{Error, Result};
use crate::lease::LeaseToken;

/// A parsed lock token. Instance and lives are only hints: a commit checks the instance against the lease, and the
/// lives matter only if the instance has no row yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TurnToken<'t> {
    pub(super) lease: LeaseToken,
    pub(super) instance: &'t str,
    /// The life that the commit gives the instance if it has none yet.
    pub(super) life: Option<Incarnation>,
    /// The life of the parent that sent the start, as far as the start tells.
    pub(super) parent_life: Option<Incarnation>,
}

impl<'t> TurnToken<'t> {
    /// The lease may hold any characters, so its length is told.
    pub(super) fn write(&self) -> String {
        let number = |life: Option<Incarnation>| life.map_or(0, Incarnation::to_stored);
        let (life, parent_life) = (number(self.life), number(self.parent_life));
        let lease = self.lease.as_str();
        format!(
            "{life}:{parent_life}:{}:{lease}:{}",
            lease.len(),
            self.instance
        )
    }

    pub(super) fn parse(token: &'t str) -> Result<Self> {
        Self::try_parse(token).ok_or_else(|| Error::InvalidToken(token.to_owned()))
    }

    fn try_parse(token: &'t str) -> Option<Self> {
        let mut parts = token.splitn(4, ':');
        let life = Incarnation::from_stored(parts.next()?.parse().ok()?);
        let parent_life = Incarnation::from_stored(parts.next()?.parse().ok()?);
        let length = parts.next()?.parse().ok()?;
        let (lease, instance) = parts.next()?.split_at_checked(length)?;
        Some(Self {
            lease: LeaseToken::new(lease),
            instance: instance.strip_prefix(':')?,
            life,
            parent_life,
        })
    }
}

/// A life that nobody has had before.
pub(super) fn new_life() -> Incarnation {
    let (bits, _) = uuid::Uuid::new_v4().as_u64_pair();
    Incarnation::from_random(bits)
}

/// As it travels in a message's stamp.
pub(super) fn stamp_of(life: Option<Incarnation>) -> Option<u64> {
    life.map(|life| life.to_stored().cast_unsigned())
}

/// From a message's stamp.
pub(super) fn life_of(stamp: Option<u64>) -> Option<Incarnation> {
    stamp.and_then(|stamp| Incarnation::from_stored(stamp.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_with_any_characters_is_found_again() {
        for lease in ["lock_1", "a:b::c", ":", "é:ü", ""] {
            for instance in ["i", "a:b", "", ":x:"] {
                let token = TurnToken {
                    lease: LeaseToken::new(lease),
                    instance,
                    life: Some(new_life()),
                    parent_life: None,
                };
                assert_eq!(TurnToken::parse(&token.write()).ok(), Some(token.clone()));
            }
        }
    }

    #[test]
    fn a_forged_token_is_refused() {
        for text in [
            "",
            ":",
            "1:2",
            "x:0:1:a:i",
            "0:0:99:a:i",
            "0:0:1:ai",
            "0:0:1:é:i",
        ] {
            assert!(TurnToken::parse(text).is_err(), "{text}");
        }
    }
}
