//! News: which queues may have something new to claim, turns, activities, or both, and from where on.

/// Where something may have become claimable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Queues {
    pub(crate) turns: bool,
    pub(crate) work: bool,
}

impl Queues {
    pub(crate) const TURNS: Self = Self {
        turns: true,
        work: false,
    };
    pub(crate) const WORK: Self = Self {
        turns: false,
        work: true,
    };
    pub(crate) const BOTH: Self = Self {
        turns: true,
        work: true,
    };
}

/// Stands for any key of a queue: something may have become claimable anywhere in it.
pub(crate) const ANYWHERE: i64 = i64::MIN;
/// Stands for no key that a claim does not look at in any case: the rows were there all the time.
pub(crate) const NOTHING_NEW: i64 = i64::MAX;

/// What may have become claimable, for each queue from which key on. The key of an activity is its number, that of a
/// turn the time at which its inbox is ready.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) turns: Option<i64>,
    pub(crate) work: Option<i64>,
}

impl News {
    /// Adds other news: the smaller key counts.
    pub(crate) fn add(&mut self, other: Self) {
        self.turns = earlier(self.turns, other.turns);
        self.work = earlier(self.work, other.work);
    }
}

impl From<Queues> for News {
    fn from(queues: Queues) -> Self {
        Self {
            turns: queues.turns.then_some(ANYWHERE),
            work: queues.work.then_some(ANYWHERE),
        }
    }
}

fn earlier(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}
