//! New incarnations for a snapshot that is restored into a store where its instances may have lived before. In: a
//! snapshot, and a number that was drawn for all snapshots that belong together. Out: the same snapshot with other
//! incarnations, in which parents and children still find each other.

use uuid::Uuid;

use super::super::Incarnation;
use super::{InstanceSnapshot, StoredIncarnation};

impl InstanceSnapshot {
    /// The same instance as another life. Snapshots that are reborn with the same number keep to each other: a child
    /// finds its parent.
    ///
    /// Where a snapshot comes back into the store that it was taken from, nodes may remember the life it had, which
    /// went on differently.
    ///
    /// ```
    /// use duroxide_core::provider::{InstanceRecord, InstanceSnapshot, StoredIncarnation};
    /// let [seven, eight] = [7, 8].map(|number| Some(StoredIncarnation(number)));
    /// let with = |incarnation, parent_incarnation| InstanceSnapshot {
    ///     record: Some(InstanceRecord { incarnation, parent_incarnation, ..InstanceRecord::default() }),
    ///     ..InstanceSnapshot::of("one")
    /// };
    /// let both = |it: InstanceSnapshot| {
    ///     let record = it.record.unwrap();
    ///     (record.incarnation, record.parent_incarnation)
    /// };
    /// let (parent, _) = both(with(seven, None).reborn(42));
    /// let (child, of) = both(with(eight, seven).reborn(42));
    /// assert_eq!(of, parent, "still parent and child");
    /// assert_ne!(parent, seven, "and lives of their own");
    /// assert_ne!(child, parent);
    /// ```
    #[must_use]
    pub fn reborn(mut self, number: u64) -> Self {
        self.each_incarnation(|incarnation| another(number, incarnation));
        self.settled()
    }

    /// The same snapshot with a life where an early build recorded none, so that every store can keep it. The life
    /// follows from the id.
    #[must_use]
    pub fn settled(mut self) -> Self {
        if let Some(record) = &mut self.record
            && record
                .incarnation
                .and_then(StoredIncarnation::incarnation)
                .is_none()
        {
            record.incarnation = Some(drawn(&format!("duroxide:life:{}", self.instance_id)));
        }
        self
    }

    /// The same snapshot with the life that follows from the id, as if no other were known: of an instance that comes
    /// from a store without lives, and may come again because the first time was cut short.
    #[must_use]
    pub fn with_incarnation_of_its_id(mut self) -> Self {
        self.each_incarnation(|_| StoredIncarnation(0));
        let mut settled = self.settled();
        let own = settled
            .record
            .as_ref()
            .and_then(|record| record.incarnation);
        if let Some(record) = &mut settled.record {
            record.parent_incarnation = None;
        }
        settled.messages.iter_mut().for_each(|it| it.sent_by = None);
        settled
            .activities
            .iter_mut()
            .for_each(|it| it.incarnation = own);
        settled
            .dead_letters
            .iter_mut()
            .for_each(|it| it.incarnation = None);
        settled
    }

    fn each_incarnation(&mut self, change: impl Fn(StoredIncarnation) -> StoredIncarnation) {
        let change =
            |incarnation: &mut Option<StoredIncarnation>| *incarnation = incarnation.map(&change);
        if let Some(record) = &mut self.record {
            change(&mut record.incarnation);
            change(&mut record.parent_incarnation);
        }
        self.messages
            .iter_mut()
            .for_each(|it| change(&mut it.sent_by));
        self.activities
            .iter_mut()
            .for_each(|it| change(&mut it.incarnation));
        self.dead_letters
            .iter_mut()
            .for_each(|it| change(&mut it.incarnation));
    }
}

fn another(number: u64, incarnation: StoredIncarnation) -> StoredIncarnation {
    drawn(&format!("duroxide:life:{number}:{}", incarnation.0))
}

/// A life that follows from a text.
fn drawn(text: &str) -> StoredIncarnation {
    let (bits, _) = Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).as_u64_pair();
    Incarnation::from_random(bits).into()
}
