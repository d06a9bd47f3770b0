//! What became of an operator's change of labels.

use crate::label::{LABELS_MAX, LabelChange, Labels};

/// What became of a change of labels.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Labelling {
    /// The instance has these labels now.
    Done(Labels),
    /// There is no such instance; nothing was changed.
    NoSuchInstance,
    /// The instance would have so many labels, which are too many; nothing was changed.
    TooMany(usize),
}

impl Labelling {
    /// What becomes of labels by these changes. Stores write what `Done` says, in the transaction in which they read
    /// `before`.
    ///
    /// ```
    /// use duroxide_core::{LabelChange, Labels, provider::Labelling};
    /// let before = Labels::from([("team".to_owned(), "blue".to_owned())]);
    /// let changes = [LabelChange::remove("team"), LabelChange::set("shift", "night")];
    /// let Labelling::Done(after) = Labelling::of(before, &changes) else { panic!("two are not too many") };
    /// assert_eq!(after.into_iter().collect::<Vec<_>>(), [("shift".to_owned(), "night".to_owned())]);
    /// ```
    #[must_use]
    pub fn of(before: Labels, changes: &[LabelChange]) -> Self {
        let had = before.len();
        let mut labels = before;
        for change in changes {
            change.apply(&mut labels);
        }
        match labels.len() {
            // What has too many already may become less.
            count if count > LABELS_MAX && count > had => Self::TooMany(count),
            _ => Self::Done(labels),
        }
    }
}
