//! New incarnations for a snapshot that is restored into a store where its instances may have lived before. In: a
//! snapshot, and a number that was drawn for all snapshots that belong together. Out: the same snapshot with other
//! incarnations, in which parents and children still find each other.

use uuid::Uuid;

use super::super::Incarnation;
use super::{InstanceSnapshot, StoredLife};

impl InstanceSnapshot {
    /// The same instance as another life. Snapshots that are reborn with the same number keep to each other: a child
    /// finds its parent.
    ///
    /// Where a snapshot comes back into the store that it was taken from, nodes may remember the life it had, which
    /// went on differently.
    ///
    /// ```
    /// use duroxide_core::provider::{InstanceRecord, InstanceSnapshot, StoredLife};
    /// let with = |life, parent_life| InstanceSnapshot {
    ///     record: Some(InstanceRecord { life, parent_life, ..InstanceRecord::default() }),
    ///     ..InstanceSnapshot::of("one")
    /// };
    /// let lives = |it: InstanceSnapshot| it.record.map(|record| (record.life, record.parent_life)).unwrap();
    /// let (parent, _) = lives(with(Some(StoredLife(7)), None).reborn(42));
    /// let (child, of) = lives(with(Some(StoredLife(8)), Some(StoredLife(7))).reborn(42));
    /// assert_eq!(of, parent, "still parent and child");
    /// assert_ne!(parent, Some(StoredLife(7)), "and lives of their own");
    /// assert_ne!(child, parent);
    /// ```
    #[must_use]
    pub fn reborn(mut self, number: u64) -> Self {
        self.each_life(|life| another(number, life));
        self.settled()
    }

    /// The same snapshot with a life where an early build recorded none, so that every store can keep it. The life
    /// follows from the id.
    #[must_use]
    pub fn settled(mut self) -> Self {
        if let Some(record) = &mut self.record
            && record.life.and_then(StoredLife::incarnation).is_none()
        {
            record.life = Some(drawn(&format!("duroxide:life:{}", self.instance_id)));
        }
        self
    }

    /// The same snapshot with the life that follows from the id, as if no other were known: of an instance that comes
    /// from a store without lives, and may come again because the first time was cut short.
    #[must_use]
    pub fn with_life_of_its_id(mut self) -> Self {
        self.each_life(|_| StoredLife(0));
        let mut settled = self.settled();
        let own = settled.record.as_ref().and_then(|record| record.life);
        if let Some(record) = &mut settled.record {
            record.parent_life = None;
        }
        settled.messages.iter_mut().for_each(|it| it.sent_by = None);
        settled.activities.iter_mut().for_each(|it| it.life = own);
        settled
            .dead_letters
            .iter_mut()
            .for_each(|it| it.life = None);
        settled
    }

    fn each_life(&mut self, change: impl Fn(StoredLife) -> StoredLife) {
        let change = |life: &mut Option<StoredLife>| *life = life.map(&change);
        if let Some(record) = &mut self.record {
            change(&mut record.life);
            change(&mut record.parent_life);
        }
        self.messages
            .iter_mut()
            .for_each(|it| change(&mut it.sent_by));
        self.activities
            .iter_mut()
            .for_each(|it| change(&mut it.life));
        self.dead_letters
            .iter_mut()
            .for_each(|it| change(&mut it.life));
    }
}

fn another(number: u64, life: StoredLife) -> StoredLife {
    drawn(&format!("duroxide:life:{number}:{}", life.0))
}

/// A life that follows from a text.
fn drawn(text: &str) -> StoredLife {
    let (bits, _) = Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).as_u64_pair();
    Incarnation::from_random(bits).into()
}
