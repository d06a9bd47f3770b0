//! What a life of a worker can do. In: the words of its command line. Out: which tag it serves, and which code it has.

use std::process::Command;

use crate::random::Random;

/// A tag that some lives do not serve.
pub(crate) const TAG: &str = "gpu";
/// The versions of the code that has two.
pub(crate) const VERSIONS: [&str; 2] = ["1.0.0", "2.0.0"];

/// What one life can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skills {
    pub(crate) serves_tag: bool,
    /// Has both versions, if not said otherwise.
    pub(crate) only_version: Option<String>,
    /// Runs what takes its process with it, and gives up after so many attempts.
    pub(crate) poison: Option<u32>,
}

impl Skills {
    /// Everything, and no poison.
    pub(crate) const ALL: Self = Self {
        serves_tag: true,
        only_version: None,
        poison: None,
    };

    pub(crate) fn of(untagged: bool, only_version: Option<String>, poison: Option<u32>) -> Self {
        Self {
            serves_tag: !untagged,
            only_version,
            poison,
        }
    }

    /// Those of a life in a rolling upgrade: half of them can do everything.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let kind = random.between(0, 12);
        Self {
            serves_tag: !kind.is_multiple_of(4),
            only_version: match kind {
                1 | 2 => Some(VERSIONS[0].to_owned()),
                3 | 4 => Some(VERSIONS[1].to_owned()),
                _ => None,
            },
            poison: None,
        }
    }

    /// The versions it has.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &'static str> {
        let has = |version: &&str| {
            self.only_version
                .as_deref()
                .is_none_or(|only| only == *version)
        };
        VERSIONS.into_iter().filter(has)
    }

    /// Tells a worker about them.
    pub(crate) fn name_to(&self, worker: &mut Command) {
        if !self.serves_tag {
            worker.arg("--untagged");
        }
        if let Some(version) = &self.only_version {
            worker.args(["--only-version", version]);
        }
        if let Some(attempts) = self.poison {
            worker.args(["--poison", &attempts.to_string()]);
        }
    }
}
