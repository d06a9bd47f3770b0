//! Lock tokens. A token names the row it was granted for; the random part makes it a proof. In: row keys. Out: text,
//! and back. Whatever a token says is used only after its random part was found in the row.

use duroxide_core::provider::Incarnation;
use duroxide_core::provider::rules::Refusal;
use uuid::Uuid;

use crate::error::Result;

const PREFIX: &str = "lock_";
/// Hexadecimal digits of a UUID without hyphens.
const RANDOM_LEN: usize = 32;

/// What the token of a claimed instance says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnToken<'t> {
    pub(crate) instance: &'t str,
    pub(crate) random: Uuid,
}

impl TurnToken<'_> {
    /// The incarnation that the commit of this turn gives an instance that does not exist yet.
    pub(crate) fn next_incarnation(&self) -> Incarnation {
        next_incarnation(self.random)
    }
}

/// What the token of a claimed activity says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkToken {
    pub(crate) id: i64,
    pub(crate) random: Uuid,
}

pub(crate) fn next_incarnation(random: Uuid) -> Incarnation {
    let random = random.as_u128();
    // Not every bit of a UUID is random; folded, every bit of the result is.
    let folded = (random >> 64) ^ random.rotate_left(17);
    Incarnation::from_random(folded as u64)
}

/// A token for a claimed instance.
pub(crate) fn for_turn(instance: &str, random: Uuid) -> String {
    format!("{PREFIX}{}_{instance}", random.simple())
}

/// A token for a claimed activity. Its own mark keeps it apart from one of an instance whose id is a number.
pub(crate) fn for_work(id: i64, random: Uuid) -> String {
    format!("{PREFIX}{}~{id}", random.simple())
}

pub(crate) fn turn(token: &str) -> Result<TurnToken<'_>> {
    let (random, rest) = parts_of(token).ok_or(Refusal::InvalidToken)?;
    let instance = rest.strip_prefix('_').ok_or(Refusal::InvalidToken)?;
    Ok(TurnToken { instance, random })
}

pub(crate) fn work(token: &str) -> Result<WorkToken> {
    let (random, rest) = parts_of(token).ok_or(Refusal::InvalidToken)?;
    let id = rest.strip_prefix('~').and_then(|id| id.parse().ok());
    Ok(WorkToken {
        id: id.ok_or(Refusal::InvalidToken)?,
        random,
    })
}

fn parts_of(token: &str) -> Option<(Uuid, &str)> {
    let rest = token.strip_prefix(PREFIX)?;
    let (random, rest) = rest.split_at_checked(RANDOM_LEN)?;
    Some((Uuid::try_parse(random).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_what_it_was_granted_for() {
        let random = Uuid::new_v4();
        for instance in ["order-7", "", "_", "a\0b", "päckchen", "lock_x_y", "42"] {
            let token = for_turn(instance, random);
            assert_eq!(turn(&token).unwrap(), TurnToken { instance, random });
            assert!(work(&token).is_err());
        }
        let token = for_work(42, random);
        assert_eq!(work(&token).unwrap(), WorkToken { id: 42, random });
        assert!(turn(&token).is_err());
    }

    #[test]
    fn two_claims_of_an_unborn_instance_give_it_two_lives() {
        let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
        assert_eq!(next_incarnation(first), next_incarnation(first));
        assert_ne!(next_incarnation(first), next_incarnation(second));
    }

    #[test]
    fn what_was_never_granted_is_refused() {
        for token in ["", "lock_", "invalid-token", "lock_é", "lock_0123"] {
            assert!(turn(token).is_err(), "{token}");
            assert!(work(token).is_err(), "{token}");
        }
    }
}
