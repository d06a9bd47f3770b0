//! What operators are told is true, and what they delete is what they asked for.

mod deleting;
mod queues;
mod records;

pub use deleting::*;
pub use queues::*;
pub use records::*;
