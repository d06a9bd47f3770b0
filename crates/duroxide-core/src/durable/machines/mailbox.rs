//! One FIFO queue of an execution: queue messages that arrived, and readers that wait in the order they asked.
//!
//! The n-th waiting reader is offered the n-th unread queue message, and both leave together when the code takes it. A
//! reader that is dropped leaves alone, so its queue message goes to the next one; nothing is read twice and nothing is
//! skipped.

use std::collections::VecDeque;

use crate::defect::Defect;

/// A queue message and its place in the arrival order over all queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueMessage {
    pub(crate) arrival: u64,
    pub(crate) data: String,
}

/// Unread queue messages and waiting readers of one queue.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    unread: VecDeque<QueueMessage>,
    readers: Vec<usize>,
}

impl Mailbox {
    /// A queue message arrived; returns the reader it makes ready.
    pub(crate) fn deliver(&mut self, message: QueueMessage) -> Option<usize> {
        self.unread.push_back(message);
        self.readers.get(self.unread.len() - 1).copied()
    }

    /// A reader was recorded; returns whether a queue message waits for it.
    pub(crate) fn subscribe(&mut self, reader: usize) -> bool {
        self.readers.push(reader);
        self.readers.len() <= self.unread.len()
    }

    /// The code looks for the queue message of its reader.
    pub(crate) fn take(&mut self, reader: usize) -> Option<String> {
        let place = self.readers.iter().position(|r| *r == reader)?;
        let message = self.unread.remove(place)?;
        self.readers.remove(place);
        Some(message.data)
    }

    /// A reader was dropped; returns the one that became ready through it, if any.
    pub(crate) fn unsubscribe(&mut self, reader: usize) -> Option<usize> {
        let place = self.readers.iter().position(|r| *r == reader)?;
        self.readers.remove(place);
        if Defect::DroppedReaderTakes.is_on() {
            self.unread.remove(place);
        }
        // Every later reader moves up one queue message; the last one with a queue message may have had none before.
        let last_served = self.unread.len().checked_sub(1)?;
        (place <= last_served)
            .then(|| self.readers.get(last_served).copied())
            .flatten()
    }

    /// Whether a reader waits for which there is no queue message.
    pub(crate) fn is_wanting(&self) -> bool {
        self.readers.len() > self.unread.len()
    }

    /// Queue messages that the code has not taken.
    pub(crate) fn unread(&self) -> impl Iterator<Item = &QueueMessage> {
        self.unread.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(arrival: u64) -> QueueMessage {
        QueueMessage {
            arrival,
            data: format!("m{arrival}"),
        }
    }

    #[test]
    fn dropping_an_older_reader_after_a_newer_one_read_skips_nothing() {
        let mut mailbox = Mailbox::default();
        for arrival in 0..3 {
            mailbox.deliver(message(arrival));
        }
        mailbox.subscribe(1);
        mailbox.subscribe(2);
        assert_eq!(mailbox.take(2).as_deref(), Some("m1"));
        mailbox.unsubscribe(1);
        mailbox.subscribe(3);
        assert_eq!(mailbox.take(3).as_deref(), Some("m0"));
        mailbox.subscribe(4);
        assert_eq!(mailbox.take(4).as_deref(), Some("m2"));
    }

    #[test]
    fn a_message_of_a_dropped_reader_goes_to_the_next() {
        let mut mailbox = Mailbox::default();
        mailbox.subscribe(1);
        mailbox.subscribe(2);
        assert_eq!(mailbox.deliver(message(0)), Some(1));
        assert_eq!(mailbox.unsubscribe(1), Some(2));
        assert_eq!(mailbox.take(2).as_deref(), Some("m0"));
    }

    #[test]
    fn a_reader_without_a_message_waits() {
        let mut mailbox = Mailbox::default();
        assert!(!mailbox.subscribe(1));
        assert_eq!(mailbox.take(1), None);
        assert_eq!(mailbox.deliver(message(0)), Some(1));
    }
}
