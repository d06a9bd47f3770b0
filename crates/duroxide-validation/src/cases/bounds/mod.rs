//! How much one claim takes: a bounded part of one instance's messages, a bounded number of new sessions.

mod messages;
mod sessions;

pub use messages::*;
pub use sessions::*;
