//! Where a move stands, by what both stores say of themselves. Both are closed while it is under way, each with the number of the move,
//! so that whoever is killed at whatever moment, the next call knows what is left to do.
//!
//! ```text
//! target                     source                     next
//! open, empty                open                       close the target
//! move X from …              open                       close the source
//! move X from …              move X to …                copy and compare, then say in the source where it went
//! move X from …              moved to … (move X)        open the target
//! open                       moved to … (move X)        nothing
//! ```

use uuid::Uuid;

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

pub(super) fn of(source: Option<&str>, target: Option<&str>) -> Standing {
    let (coming, target_says) = (target.and_then(coming), target);
    match (source, target_says) {
        (None, None) => Standing::Fresh,
        (None, Some(_)) if coming.is_some() => {
            coming.map_or(Standing::Fresh, Standing::TargetReady)
        }
        (_, Some(reason)) if coming.is_none() => {
            Standing::Refused(format!("the target is closed: {reason}"))
        }
        (Some(reason), _) => match (going(reason), gone(reason), coming) {
            (Some(source), _, Some(target)) if source == target => Standing::UnderWay(source),
            (_, Some(source), Some(target)) if source == target => Standing::Arrived(source),
            (_, Some(_), None) => Standing::Done,
            _ => Standing::Refused(format!("the source is closed: {reason}")),
        },
        (None, Some(reason)) => Standing::Refused(format!("the target is closed: {reason}")),
    }
}

/// What a target says while instances come.
pub(super) fn coming_from(source: &str, id: Uuid) -> String {
    format!("move {id} from {source} is not finished; call `duroxide move` again to finish it")
}

/// What a source says while its instances go.
pub(super) fn going_to(target: &str, id: Uuid) -> String {
    format!("move {id} to {target} is not finished; call `duroxide move` again to finish it")
}

/// What a source says for good.
pub(super) fn moved_to(target: &str, id: Uuid) -> String {
    format!("moved to {target} (move {id}); use that store instead")
}

/// Whether a source says that it was moved to this very target.
pub(super) fn is_in(source: Option<&str>, target: &str) -> bool {
    source.is_some_and(|reason| gone(reason).is_some_and(|id| moved_to(target, id) == reason))
}

fn coming(reason: &str) -> Option<Uuid> {
    let (id, rest) = reason.strip_prefix("move ")?.split_once(' ')?;
    rest.strip_prefix("from ")?;
    id.parse().ok()
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
        let coming = coming_from("sqlite:a (move b) from c.db", id);
        let going = going_to("postgres://h/db", id);
        let gone = moved_to("redb:x (move y)", id);
        let of = |source: Option<&String>, target: Option<&String>| {
            super::of(source.map(String::as_str), target.map(String::as_str))
        };
        assert_eq!(of(None, None), Standing::Fresh);
        assert_eq!(of(None, Some(&coming)), Standing::TargetReady(id));
        assert_eq!(of(Some(&going), Some(&coming)), Standing::UnderWay(id));
        assert_eq!(of(Some(&gone), Some(&coming)), Standing::Arrived(id));
        assert_eq!(of(Some(&gone), None), Standing::Done);
        assert!(is_in(Some(&gone), "redb:x (move y)"));
        assert!(!is_in(Some(&gone), "redb:x"), "another target");
        let strange = "for the night".to_owned();
        let foreign = coming_from("x", other);
        for (source, target) in [
            (Some(&strange), None),
            (Some(&strange), Some(&coming)),
            (None, Some(&strange)),
            (None, Some(&going)),
            (Some(&going), None),
            (Some(&going), Some(&foreign)),
            (Some(&gone), Some(&foreign)),
            (Some(&gone), Some(&strange)),
            (Some(&coming), None),
        ] {
            let standing = of(source, target);
            assert!(matches!(standing, Standing::Refused(_)), "{standing:?}");
        }
    }
}
