//! Activities are handed out whatever their instance does, until a commit takes them away.

mod delivery;
mod removal;

pub use delivery::*;
pub use removal::*;
