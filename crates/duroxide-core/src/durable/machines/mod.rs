//! One small state machine per durable operation. In: commands and events. Out: what the author's future resolves to.

mod call;
mod mailbox;
mod signals;

pub(crate) use call::{Call, Resolution};
pub(crate) use mailbox::{Mailbox, QueueMessage};
pub(crate) use signals::Signals;
