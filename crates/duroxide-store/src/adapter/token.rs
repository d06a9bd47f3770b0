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
    pub(super) incarnation: Option<Incarnation>,
    /// The life of the parent that sent the first start, as far as the start says.
    pub(super) parent_incarnation: Option<Incarnation>,
    /// The operations that the claimed starts are for, if there is more than one start.
    pub(super) askers: Vec<Asker>,
}

/// An operation that a start is for, and the life of the parent that waits with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asker {
    pub(super) parent: String,
    pub(super) execution: u64,
    pub(super) id: u64,
    pub(super) incarnation: Option<Incarnation>,
}

impl Asker {
    /// Parents have any characters, so their length stands before them.
    fn write(&self) -> String {
        let incarnation = self.incarnation.map_or(0, Incarnation::to_stored);
        let (length, parent) = (self.parent.len(), &self.parent);
        format!(
            "{}.{}.{incarnation}.{length}.{parent}",
            self.execution, self.id
        )
    }

    /// The first of these, and what follows it.
    fn read(text: &str) -> Option<(Self, &str)> {
        let mut parts = text.splitn(5, '.');
        let execution = parts.next()?.parse().ok()?;
        let id = parts.next()?.parse().ok()?;
        let incarnation = Incarnation::from_stored(parts.next()?.parse().ok()?);
        let length = parts.next()?.parse().ok()?;
        let (parent, rest) = parts.next()?.split_at_checked(length)?;
        let asker = Self {
            parent: parent.to_owned(),
            execution,
            id,
            incarnation,
        };
        Some((asker, rest))
    }
}

impl<'t> TurnToken<'t> {
    /// The lease may hold any characters, so its length stands before it.
    pub(super) fn write(&self) -> String {
        let number =
            |incarnation: Option<Incarnation>| incarnation.map_or(0, Incarnation::to_stored);
        let (incarnation, parent_incarnation) =
            (number(self.incarnation), number(self.parent_incarnation));
        let (askers, lease) = (self.askers.len(), self.lease.as_str());
        let mut token = format!("{incarnation}:{parent_incarnation}:{askers}:");
        for asker in &self.askers {
            token.push_str(&asker.write());
        }
        token.push_str(&format!("{}:{lease}:{}", lease.len(), self.instance));
        token
    }

    pub(super) fn parse(token: &'t str) -> Result<Self> {
        Self::try_parse(token).ok_or_else(|| Error::InvalidToken(token.to_owned()))
    }

    fn try_parse(token: &'t str) -> Option<Self> {
        let mut parts = token.splitn(4, ':');
        let incarnation = Incarnation::from_stored(parts.next()?.parse().ok()?);
        let parent_incarnation = Incarnation::from_stored(parts.next()?.parse().ok()?);
        let count: usize = parts.next()?.parse().ok()?;
        let mut rest = parts.next()?;
        let mut askers = Vec::new();
        for _ in 0..count {
            let (asker, after) = Asker::read(rest)?;
            askers.push(asker);
            rest = after;
        }
        let (length, rest) = rest.split_once(':')?;
        let (lease, instance) = rest.split_at_checked(length.parse().ok()?)?;
        Some(Self {
            lease: LeaseToken::new(lease),
            instance: instance.strip_prefix(':')?,
            incarnation,
            parent_incarnation,
            askers,
        })
    }
}

/// A life that no instance has had before.
pub(super) fn new_incarnation() -> Incarnation {
    let (bits, _) = uuid::Uuid::new_v4().as_u64_pair();
    Incarnation::from_random(bits)
}

/// As it travels in a message's stamp.
pub(super) fn stamp_of(incarnation: Option<Incarnation>) -> Option<u64> {
    incarnation.map(|incarnation| incarnation.to_stored().cast_unsigned())
}

/// From a message's stamp.
pub(super) fn incarnation_of(stamp: Option<u64>) -> Option<Incarnation> {
    stamp.and_then(|stamp| Incarnation::from_stored(stamp.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(parent: &str, incarnation: Option<Incarnation>) -> Asker {
        Asker {
            parent: parent.to_owned(),
            execution: 1,
            id: 7,
            incarnation,
        }
    }

    #[test]
    fn a_lease_with_any_characters_is_found_again() {
        for lease in ["lock_1", "a:b::c", ":", "é:ü", ""] {
            for instance in ["i", "a:b", "", ":x:"] {
                let token = TurnToken {
                    lease: LeaseToken::new(lease),
                    instance,
                    incarnation: Some(new_incarnation()),
                    parent_incarnation: None,
                    askers: vec![asker("p.1:", None), asker("", Some(new_incarnation()))],
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
            "x:0:0:1:a:i",
            "0:0:0:99:a:i",
            "0:0:0:1:ai",
            "0:0:0:1:é:i",
            "0:0:1:1:a:i",
            "0:0:1:1.2.0.99.p1:a:i",
        ] {
            assert!(TurnToken::parse(text).is_err(), "{text}");
        }
    }
}
