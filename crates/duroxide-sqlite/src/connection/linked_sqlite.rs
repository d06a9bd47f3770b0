//! The release of SQLite that this program links, where releases differ. In: its version. Out: who may checkpoint.
//!
//! Only one crate of a program may link SQLite, so another dependency (sqlx, diesel) may decide which release that is.

use std::sync::Once;

/// The first SQLite without the defect that lets a log which begins anew beside a checkpoint of another connection lose
/// commits.
const SOUND: (u32, u32, u32) = (3, 51, 3);

/// Which thread checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checkpoints {
    /// A thread beside the writer, and any other process.
    Beside,
    /// The writer of the one store that has the file open.
    WriterAlone,
}

/// What the linked SQLite allows. Warns once if that is not all.
pub(crate) fn checkpoints(wants_caution: bool) -> Checkpoints {
    static SAID: Once = Once::new();
    if parsed(rusqlite::version()) >= SOUND {
        return if wants_caution {
            Checkpoints::WriterAlone
        } else {
            Checkpoints::Beside
        };
    }
    SAID.call_once(|| {
        tracing::warn!(
            target: "duroxide::providers::sqlite",
            version = rusqlite::version(),
            "the linked SQLite may lose commits when one connection checkpoints beside another (fixed in 3.51.3): only the \
             writer checkpoints, and a file is opened by one store at a time; link a newer SQLite to lift both limits"
        );
    });
    Checkpoints::WriterAlone
}

fn parsed(version: &str) -> (u32, u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(parsed("3.51.3") >= SOUND);
        assert!(parsed("3.100.0") >= SOUND);
        assert!(parsed("4.0") >= SOUND);
        assert!(parsed("3.51.2") < SOUND);
        assert!(parsed("3.9.3") < SOUND);
        assert!(parsed("nonsense") < SOUND);
    }

    #[test]
    fn the_release_this_workspace_links_is_sound() {
        assert_eq!(checkpoints(false), Checkpoints::Beside);
        assert_eq!(checkpoints(true), Checkpoints::WriterAlone);
    }
}
