//! An activity or an orchestration.

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Activity,
    Orchestration,
}

impl Kind {
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Activity => "an activity",
            Self::Orchestration => "an orchestration",
        }
    }
}
