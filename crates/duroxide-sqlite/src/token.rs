//! Lock tokens. A token names the row it was granted for, so that finding it again needs no index, and what the
//! holder's next step would otherwise have to read; the random part makes it a proof. In: row keys. Out: text, and
//! back. What a token contains is used only after the token itself was found in its row.

use duroxide_core::provider::Incarnation;
use duroxide_core::provider::rules::Refusal;
use uuid::Uuid;

use crate::error::Result;
use crate::tables::orchestrator_queue::Bounds;

const PREFIX: &str = "lock_";
/// Hexadecimal digits of a UUID without hyphens.
const RANDOM_LEN: usize = 32;
/// Ends the token of an activity that is bound to a session.
const IN_SESSION: char = 's';
/// Stands before the number of each message that came later than the others of its claim.
const AND: char = '+';
/// Stands after the time of a claim that left some messages.
const CUT: char = 'c';

/// What the token of a claimed instance contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TurnToken<'t> {
    pub(crate) instance: &'t str,
    /// Where the messages of the claim are.
    pub(crate) bounds: Bounds,
    /// The life that the commit of this turn gives an instance that does not exist yet.
    pub(crate) next_incarnation: Incarnation,
}

/// What the token of a claimed activity contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WorkToken {
    pub(crate) id: i64,
    pub(crate) in_session: bool,
}

/// A token for a claimed instance.
pub(crate) fn for_turn(instance: &str, bounds: Bounds) -> String {
    let random = Uuid::new_v4().simple();
    let by = if bounds.is_cut {
        format!("{}{CUT}", bounds.visible_by)
    } else {
        bounds.visible_by.to_string()
    };
    match bounds.late {
        [None, None] => format!("{PREFIX}{random}_{by}_{instance}"),
        [Some(id), None] | [None, Some(id)] => format!("{PREFIX}{random}_{by}{AND}{id}_{instance}"),
        [Some(one), Some(two)] => {
            format!("{PREFIX}{random}_{by}{AND}{one}{AND}{two}_{instance}")
        }
    }
}

/// A token for a claimed activity.
pub(crate) fn for_work(id: i64, in_session: bool) -> String {
    let random = Uuid::new_v4().simple();
    if in_session {
        format!("{PREFIX}{random}_{id}{IN_SESSION}")
    } else {
        format!("{PREFIX}{random}_{id}")
    }
}

/// Parses the token of a claimed instance.
pub(crate) fn turn(token: &str) -> Result<TurnToken<'_>> {
    let parsed = parts_of(token).and_then(|(random, key)| {
        let (bounds, instance) = key.split_once('_')?;
        let mut numbers = bounds.split(AND);
        let visible_by = numbers.next()?;
        let of_cut_claim = visible_by.strip_suffix(CUT);
        let mut late = [None; 2];
        for place in &mut late {
            *place = match numbers.next() {
                Some(id) => Some(id.parse().ok()?),
                None => None,
            };
        }
        if numbers.next().is_some() {
            return None;
        }
        // In halves: the text of a number with 128 bits takes several times as long to read.
        let (high, low) = random.split_at_checked(RANDOM_LEN / 2)?;
        let half = |text| u64::from_str_radix(text, 16).ok().map(u128::from);
        let random = (half(high)? << 64) | half(low)?;
        // Not every bit of a UUID is random; folded, every bit of the result is.
        let folded = (random >> 64) ^ random.rotate_left(17);
        Some(TurnToken {
            instance,
            bounds: Bounds {
                visible_by: of_cut_claim.unwrap_or(visible_by).parse().ok()?,
                late,
                is_cut: of_cut_claim.is_some(),
            },
            next_incarnation: Incarnation::from_random(folded as u64),
        })
    });
    Ok(parsed.ok_or(Refusal::InvalidToken)?)
}

/// Parses the token of a claimed activity.
pub(crate) fn work(token: &str) -> Result<WorkToken> {
    let parsed = parts_of(token).and_then(|(_, key)| {
        let plain = key.strip_suffix(IN_SESSION);
        Some(WorkToken {
            id: plain.unwrap_or(key).parse().ok()?,
            in_session: plain.is_some(),
        })
    });
    Ok(parsed.ok_or(Refusal::InvalidToken)?)
}

/// The random part, and what follows it.
fn parts_of(token: &str) -> Option<(&str, &str)> {
    let rest = token.strip_prefix(PREFIX)?;
    let (random, key) = rest.split_at_checked(RANDOM_LEN)?;
    Some((random, key.strip_prefix('_')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        visible_by: 1,
        late: [None; 2],
        is_cut: false,
    };

    #[test]
    fn a_token_says_what_it_was_granted_for() {
        for instance in ["order-7", "", "_", "a\0b", "päckchen", "lock_x_y"] {
            for late in [[None, None], [Some(4), None], [Some(4), Some(9)]] {
                for is_cut in [false, true] {
                    let bounds = Bounds {
                        visible_by: 17,
                        late,
                        is_cut,
                    };
                    let token = for_turn(instance, bounds);
                    let said = turn(&token).unwrap();
                    assert_eq!((said.instance, said.bounds), (instance, bounds));
                }
            }
        }
        for in_session in [false, true] {
            let token = for_work(42, in_session);
            let expected = WorkToken { id: 42, in_session };
            assert_eq!(work(&token).unwrap(), expected);
        }
    }

    #[test]
    fn two_claims_of_an_unborn_instance_give_it_two_lives() {
        let (first, second) = (for_turn("a", BOUNDS), for_turn("a", BOUNDS));
        let incarnation = |token| turn(token).unwrap().next_incarnation;
        assert_eq!(incarnation(&first), incarnation(&first));
        assert_ne!(incarnation(&first), incarnation(&second));
    }

    #[test]
    fn what_was_never_granted_is_refused() {
        for token in ["", "lock_", "invalid-token", "lock_é", "lock_0123"] {
            assert!(turn(token).is_err(), "{token}");
            assert!(work(token).is_err(), "{token}");
        }
        assert!(work(&for_turn("order-7", BOUNDS)).is_err());
    }
}
