//! All durable operations of one execution. In: commands, recorded events, drops. Out: answers for the code's futures.
//!
//! Every operation has a slot for the whole execution; nothing here walks all slots in a turn that goes on, so the cost
//! of a turn does not grow with the history.

use std::collections::{BTreeMap, HashMap};
use std::task::Waker;

use super::machines::{Call, Mailbox, QueueMessage, Resolution, Signals};
use super::on_close::OnClose;
use crate::limits::{HOLD_QUEUE_MESSAGES_FROM, HOLD_QUEUE_MESSAGES_FROM_BYTES};
use crate::message::{KEYS_QUEUE, SeenKeys, message_parts, plain_message};

/// What an operation waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Activity,
    Timer,
    Wait {
        name: String,
    },
    Dequeue {
        name: String,
    },
    Child {
        name: String,
        /// Its recorded, short id; empty until it is recorded.
        instance: String,
        /// When it was recorded.
        scheduled_ms: u64,
    },
    /// A request to cancel this execution. Nothing is scheduled for it; the recorded request answers it.
    Cancellation,
}

impl OperationKind {
    /// The word for a completion of this kind.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Timer => "timer",
            Self::Wait { .. } => "external wait",
            Self::Dequeue { .. } => "dequeue",
            Self::Child { .. } => "suborchestration",
            Self::Cancellation => "cancellation",
        }
    }
}

/// One durable operation.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) kind: OperationKind,
    pub(crate) call: Call,
    /// A cancel record exists, so none is written again.
    pub(crate) cancel_recorded: bool,
    /// Failures that would end the orchestration are handed to the code instead.
    pub(crate) surfaces_failures: bool,
    /// For a child.
    pub(crate) on_close: OnClose,
    waker: Option<Waker>,
}

impl Operation {
    /// Whether the code still holds the future and has no answer.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.call, Call::Issued | Call::Open { .. })
    }

    /// The event that scheduled it, once it is recorded.
    pub(crate) fn event_id(&self) -> Option<u64> {
        match self.call {
            Call::Issued | Call::DroppedIssued => None,
            Call::Open { id }
            | Call::Answered { id, .. }
            | Call::Taken { id }
            | Call::Dropped { id, .. } => Some(id),
        }
    }
}

/// The slots, and who waits where.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    slots: Vec<Operation>,
    by_event: HashMap<u64, usize>,
    signals: Signals,
    mailboxes: BTreeMap<String, Mailbox>,
    keys: SeenKeys,
    messages: u64,
    /// How many queue messages the code has not taken, and their bytes.
    unread: usize,
    unread_bytes: usize,
    /// Dropped and recorded since the last turn ended.
    dropped: Vec<usize>,
    /// Operations the code still holds and that are not answered, leaving aside those that watch for cancellation.
    waiting: usize,
    /// Slots that watch for a request to cancel.
    watching: Vec<usize>,
    /// How often the code began to watch.
    watches_begun: u64,
}

impl Operations {
    /// The code asked for something; returns its slot.
    pub(crate) fn issue(&mut self, kind: OperationKind) -> usize {
        self.slots.push(Operation {
            kind,
            call: Call::Issued,
            cancel_recorded: false,
            surfaces_failures: false,
            on_close: OnClose::default(),
            waker: None,
        });
        self.waiting += 1;
        self.slots.len() - 1
    }

    /// The code watches for a request to cancel; returns the slot. There is no schedule event to wait for.
    pub(crate) fn watch_cancellation(&mut self) -> usize {
        self.slots.push(Operation {
            kind: OperationKind::Cancellation,
            call: Call::Open { id: 0 },
            cancel_recorded: false,
            surfaces_failures: false,
            on_close: OnClose::default(),
            waker: None,
        });
        let slot = self.slots.len() - 1;
        self.watches_begun += 1;
        self.watching.push(slot);
        slot
    }

    /// Whether this is a watch for a request to cancel.
    pub(crate) fn is_watch(&self, slot: usize) -> bool {
        matches!(self.slots[slot].kind, OperationKind::Cancellation)
    }

    /// Whether the code holds a watch for a request to cancel.
    pub(crate) fn watches_cancellation(&self) -> bool {
        let is_open = |slot: &usize| matches!(self.slots[*slot].call, Call::Open { .. });
        self.watching.iter().any(is_open)
    }

    /// How often the code has begun to watch for a request to cancel.
    pub(crate) fn watches_begun(&self) -> u64 {
        self.watches_begun
    }

    /// Resolves every watch for a request to cancel; false if the code holds none.
    pub(crate) fn request_cancellation(&mut self, reason: &str) -> bool {
        let mut reached = false;
        for slot in std::mem::take(&mut self.watching) {
            let operation = &mut self.slots[slot];
            if matches!(operation.call, Call::Open { .. }) {
                let with = Resolution::Data(reason.to_owned());
                operation.call = Call::Answered { id: 0, with };
                self.wake(slot);
                reached = true;
            }
        }
        reached
    }

    /// Its schedule event was recorded.
    pub(crate) fn recorded(&mut self, slot: usize, event_id: u64) {
        self.by_event.insert(event_id, slot);
        let operation = &mut self.slots[slot];
        operation.call = std::mem::replace(&mut operation.call, Call::Issued).recorded(event_id);
        if matches!(operation.call, Call::Dropped { .. }) {
            if operation.on_close != OnClose::Leave {
                self.dropped.push(slot);
            }
            return;
        }
        match &operation.kind {
            OperationKind::Wait { name } => self.signals.subscribe(name, slot),
            OperationKind::Dequeue { name } => {
                let ready = self
                    .mailboxes
                    .entry(name.clone())
                    .or_default()
                    .subscribe(slot);
                if ready {
                    self.wake(slot);
                }
            }
            OperationKind::Activity
            | OperationKind::Timer
            | OperationKind::Child { .. }
            | OperationKind::Cancellation => {}
        }
    }

    /// A child was recorded; its id and time became known.
    pub(crate) fn child_recorded(&mut self, slot: usize, recorded: &str, at_ms: u64) {
        if let OperationKind::Child {
            instance,
            scheduled_ms,
            ..
        } = &mut self.slots[slot].kind
        {
            recorded.clone_into(instance);
            *scheduled_ms = at_ms;
        }
    }

    /// The operation scheduled by an event.
    pub(crate) fn by_event(&self, event_id: u64) -> Option<&Operation> {
        self.by_event.get(&event_id).map(|slot| &self.slots[*slot])
    }

    /// The slot of the operation scheduled by an event.
    pub(crate) fn slot_of(&self, event_id: u64) -> Option<usize> {
        self.by_event.get(&event_id).copied()
    }

    /// The operation in a slot.
    pub(crate) fn get_mut(&mut self, slot: usize) -> &mut Operation {
        &mut self.slots[slot]
    }

    /// The operation in a slot.
    pub(crate) fn get(&self, slot: usize) -> &Operation {
        &self.slots[slot]
    }

    /// An answer arrived for the operation scheduled by an event; false if that operation waits for none.
    pub(crate) fn answer(&mut self, event_id: u64, with: Resolution) -> bool {
        match self.by_event.get(&event_id) {
            Some(&slot) => self.answer_slot(slot, with),
            None => false,
        }
    }

    fn answer_slot(&mut self, slot: usize, with: Resolution) -> bool {
        let operation = &mut self.slots[slot];
        if !operation.call.awaits_answer() {
            return false;
        }
        let held = matches!(operation.call, Call::Open { .. });
        let call = std::mem::replace(&mut operation.call, Call::Issued);
        match call.answered(with) {
            Ok(next) => operation.call = next,
            Err(_) => return false,
        }
        if held {
            self.waiting -= 1;
            self.wake(slot);
        }
        true
    }

    /// Delivers a signal; false if the code does not wait for it.
    pub(crate) fn signal(&mut self, name: &str, data: &str) -> bool {
        match self.signals.accept(name) {
            Some(slot) => self.answer_slot(slot, Resolution::Data(data.to_owned())),
            None => false,
        }
    }

    /// Whether a recorded wait would get the next signal of this name.
    pub(crate) fn is_awaited(&self, signal: &str) -> bool {
        self.signals.is_awaited(signal)
    }

    /// The recorded wait, by its event, that would get the next signal of this name.
    pub(crate) fn wait_for(&self, signal: &str) -> Option<u64> {
        self.slots[self.signals.next(signal)?].event_id()
    }

    /// A queue message arrived.
    pub(crate) fn deliver(&mut self, queue: &str, data: &str) {
        if queue == KEYS_QUEUE {
            self.take_over_keys(data);
            return;
        }
        let (key, data) = message_parts(data);
        if let Some(key) = key {
            self.keys.insert(queue, key);
        }
        let message = QueueMessage {
            arrival: self.messages,
            data: data.to_owned(),
        };
        self.messages += 1;
        self.unread += 1;
        self.unread_bytes += data.len();
        let reader = self
            .mailboxes
            .entry(queue.to_owned())
            .or_default()
            .deliver(message);
        if let Some(reader) = reader {
            self.wake(reader);
        }
    }

    /// The code polls a future.
    pub(crate) fn poll(&mut self, slot: usize, waker: &Waker) -> Option<Resolution> {
        let operation = &mut self.slots[slot];
        let taken = match (&operation.kind, &operation.call) {
            (OperationKind::Dequeue { name }, &Call::Open { id }) => {
                let message = self.mailboxes.get_mut(name).and_then(|m| m.take(slot));
                if let Some(data) = &message {
                    operation.call = Call::Taken { id };
                    self.waiting -= 1;
                    self.unread = self.unread.saturating_sub(1);
                    self.unread_bytes = self.unread_bytes.saturating_sub(data.len());
                }
                message.map(Resolution::Data)
            }
            _ => {
                let call = std::mem::replace(&mut operation.call, Call::Issued);
                let (next, taken) = call.take();
                operation.call = next;
                taken
            }
        };
        if taken.is_none() {
            operation.waker = Some(waker.clone());
        }
        taken
    }

    /// The code dropped a future before it resolved.
    pub(crate) fn drop_future(&mut self, slot: usize) {
        let operation = &mut self.slots[slot];
        if operation.kind == OperationKind::Cancellation {
            operation.call = Call::DroppedIssued;
            self.watching.retain(|watching| *watching != slot);
            return;
        }
        let held = matches!(operation.call, Call::Issued | Call::Open { .. });
        operation.waker = None;
        operation.call = std::mem::replace(&mut operation.call, Call::Issued).dropped();
        if held {
            self.waiting -= 1;
        }
        // An abandoned child goes on; the engine records nothing about its future.
        if matches!(operation.call, Call::Dropped { .. }) && operation.on_close != OnClose::Leave {
            self.dropped.push(slot);
        }
        match operation.kind.clone() {
            OperationKind::Wait { name } => self.signals.unsubscribe(&name, slot),
            OperationKind::Dequeue { name } => {
                let next = self
                    .mailboxes
                    .get_mut(&name)
                    .and_then(|m| m.unsubscribe(slot));
                if let Some(next) = next {
                    self.wake(next);
                }
            }
            OperationKind::Activity
            | OperationKind::Timer
            | OperationKind::Child { .. }
            | OperationKind::Cancellation => {}
        }
    }

    fn wake(&mut self, slot: usize) {
        if let Some(waker) = self.slots[slot].waker.take() {
            waker.wake();
        }
    }

    /// Whether the code waits for anything that can still be recorded.
    pub(crate) fn anything_open(&self) -> bool {
        self.waiting > 0
    }

    /// A cancel record exists for the operation scheduled by an event.
    pub(crate) fn mark_cancel_recorded(&mut self, event_id: u64) {
        if let Some(&slot) = self.by_event.get(&event_id) {
            self.slots[slot].cancel_recorded = true;
        }
    }

    /// Operations that were dropped since this was last asked, those with a cancel record included.
    pub(crate) fn take_dropped(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.dropped)
    }

    /// All operations, in the order they were issued.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Operation)> {
        self.slots.iter().enumerate()
    }

    /// An earlier execution hands on the keys of the messages that came in.
    pub(crate) fn take_over_keys(&mut self, keys: &str) {
        self.keys.take_over(keys);
    }

    /// Whether a message with this key came in before.
    pub(crate) fn has_seen(&self, queue: &str, key: &str) -> bool {
        self.keys.contains(queue, key)
    }

    /// Whether the code has so many queue messages that it did not take that further ones are of no use now.
    pub(crate) fn has_many_unread(&self) -> bool {
        self.unread >= HOLD_QUEUE_MESSAGES_FROM
            || self.unread_bytes >= HOLD_QUEUE_MESSAGES_FROM_BYTES
    }

    /// Whether the code waits for a queue message that it does not have. Looks at each queue.
    pub(crate) fn wants_queue_messages(&self) -> bool {
        self.mailboxes.values().any(Mailbox::is_wanting)
    }

    /// Queue messages that the code has not taken, in the order they arrived, and the keys of those that came in.
    pub(crate) fn unread(&self) -> Vec<(String, String)> {
        let mut messages: Vec<_> = self
            .mailboxes
            .iter()
            .flat_map(|(queue, mailbox)| mailbox.unread().map(move |message| (queue, message)))
            .collect();
        messages.sort_by_key(|(_, message)| message.arrival);
        messages
            .into_iter()
            .map(|(queue, message)| (queue.clone(), plain_message(message.data.clone())))
            .chain(
                self.keys
                    .handed_on()
                    .map(|keys| (KEYS_QUEUE.to_owned(), keys)),
            )
            .collect()
    }
}
