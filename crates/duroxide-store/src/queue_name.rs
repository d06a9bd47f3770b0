//! Which queue is meant, and how it delivers. Imports nothing of messages, claims and guards, which all name queues.

use std::borrow::Cow;

use crate::error::StoreError;

/// Names a queue and says how it delivers. A name is used with one kind of delivery only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// The name, unique among the queues of a store.
    pub name: Cow<'static, str>,
    /// The way in which it delivers.
    pub delivery: Delivery,
}

/// How a queue delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// All visible messages of a group together, one lease per group.
    Grouped,
    /// One message at a time, one lease each.
    Single,
}

impl Queue {
    /// A queue that delivers whole groups.
    pub const fn grouped(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            delivery: Delivery::Grouped,
        }
    }

    /// A queue that delivers single messages.
    pub const fn single(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            delivery: Delivery::Single,
        }
    }

    /// Checks that the queue delivers this way.
    ///
    /// # Errors
    ///
    /// [`StoreError::Permanent`] if it does not.
    pub fn expect(&self, delivery: Delivery) -> Result<(), StoreError> {
        if self.delivery == delivery {
            return Ok(());
        }
        Err(StoreError::Permanent(format!(
            "queue {} cannot be used for {:?} delivery, or was used for another before",
            self.name, delivery
        )))
    }
}
