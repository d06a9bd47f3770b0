//! Where a move stands, by what both stores say of themselves. Both are closed while it is under way, each with the
//! number of the move, so that after a kill at any moment the next call knows what is left to do.
//!
//! ```text
//! target                     source                     next
//! open, empty                open                       close the target
//! move X from …              open                       close the source
//! move X from …              move X to …                copy and compare, then say in the source where it went
//! move X from …              moved to … (move X)        open the target
//! open                       moved to … (move X)        nothing
//! ```
//!
//! Each step is a compare-and-set on what the store says: of two calls at the same time one makes it, and the other one
//! looks again.

use uuid::Uuid;

/// How both say that it is under way.
const UNFINISHED: &str = " is not finished; call `duroxide move` again to finish it";

/// What is left to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing has begun.
    Fresh,
    /// The target is closed for this move, the source is open.
    TargetReady(Uuid),
    /// Both are closed: instances go over.
    UnderWay(Uuid),
    /// All are there; the target is still to be opened.
    Arrived(Uuid),
    /// It is done already.
    Done,
    /// They cannot be moved into each other.
    Refused(String),
}

/// Where a move between these two places stands.
pub(super) fn of(source: Option<&str>, target: Option<&str>, from: &str, to: &str) -> Standing {
    let coming = target.and_then(coming);
    match (source, target) {
        (None, None) => Standing::Fresh,
        (Some(source), Some(target)) if source == target => {
            Standing::Refused("both are the same store".to_owned())
        }
        (_, Some(reason)) if coming.is_none() => {
            Standing::Refused(format!("the target is closed: {reason}"))
        }
        (None, Some(reason)) => match coming {
            Some((id, place)) if place == from => Standing::TargetReady(id),
            _ => Standing::Refused(format!(
                "the target is closed for another source: {reason}, or open the target with `duroxide reopen`"
            )),
        },
        (Some(reason), _) => match (going(reason), gone(reason), coming) {
            (Some(source), _, Some((target, _))) if source == target => Standing::UnderWay(source),
            (_, Some(source), Some((target, _))) if source == target => Standing::Arrived(source),
            (_, Some(_), None) if is_in(reason, to) => Standing::Done,
            _ => Standing::Refused(format!("the source is closed: {reason}")),
        },
    }
}

/// What a target says while instances come.
pub(super) fn coming_from(source: &str, id: Uuid) -> String {
    format!("move {id} from {source}{UNFINISHED}")
}

/// What a source says while its instances go.
pub(super) fn going_to(target: &str, id: Uuid) -> String {
    format!("move {id} to {target}{UNFINISHED}")
}

/// What a source says for good.
pub(super) fn moved_to(target: &str, id: Uuid) -> String {
    format!("moved to {target} (move {id}); use that store instead")
}

/// Whether a source says that it was moved, to wherever.
pub(super) fn is_moved(source: &str) -> bool {
    gone(source).is_some()
}

/// Whether a source says that it was moved to this very target.
pub(super) fn is_in(source: &str, target: &str) -> bool {
    gone(source).is_some_and(|id| moved_to(target, id) == source)
}

/// The number of a move and where it comes from.
fn coming(reason: &str) -> Option<(Uuid, &str)> {
    let (id, rest) = reason.strip_prefix("move ")?.split_once(' ')?;
    let place = rest.strip_prefix("from ")?.strip_suffix(UNFINISHED)?;
    Some((id.parse().ok()?, place))
}

fn going(reason: &str) -> Option<Uuid> {
    let (id, rest) = reason.strip_prefix("move ")?.split_once(' ')?;
    rest.strip_prefix("to ")?;
    id.parse().ok()
}

fn gone(reason: &str) -> Option<Uuid> {
    let (_, rest) = reason.strip_prefix("moved to ")?.rsplit_once("(move ")?;
    let (id, _) = rest.split_once(')')?;
    id.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_of_a_move_is_told_from_both_stores() {
        let (id, other) = (Uuid::from_u128(7), Uuid::from_u128(8));
        let (from, to) = ("sqlite:a (move b) from c.db", "postgres://h/db (schema x)");
        let (coming, going) = (coming_from(from, id), going_to(to, id));
        let gone = moved_to(to, id);
        let of = |source: Option<&String>, target: Option<&String>| {
            super::of(
                source.map(String::as_str),
                target.map(String::as_str),
                from,
                to,
            )
        };
        assert_eq!(of(None, None), Standing::Fresh);
        assert_eq!(of(None, Some(&coming)), Standing::TargetReady(id));
        assert_eq!(of(Some(&going), Some(&coming)), Standing::UnderWay(id));
        assert_eq!(of(Some(&gone), Some(&coming)), Standing::Arrived(id));
        assert_eq!(of(Some(&gone), None), Standing::Done);
        let strange = "for the night".to_owned();
        let foreign = coming_from(from, other);
        let of_another = coming_from("sqlite:another.db", id);
        let elsewhere = moved_to("postgres://h/db", id);
        for (source, target) in [
            (Some(&strange), None),
            (Some(&strange), Some(&coming)),
            (None, Some(&strange)),
            (None, Some(&going)),
            (None, Some(&of_another)),
            (Some(&going), None),
            (Some(&going), Some(&foreign)),
            (Some(&gone), Some(&foreign)),
            (Some(&gone), Some(&strange)),
            (Some(&elsewhere), None),
            (Some(&coming), None),
            (Some(&coming), Some(&coming)),
        ] {
            let standing = of(source, target);
            assert!(matches!(standing, Standing::Refused(_)), "{standing:?}");
        }
    }
}
