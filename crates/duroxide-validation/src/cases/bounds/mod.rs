//! How much one claim takes: a bounded part of one instance's messages, of those of all its instances together, a
//! bounded number of new sessions.

mod in_all;
mod messages;
mod sessions;

pub use in_all::*;
pub use messages::*;
pub use sessions::*;
