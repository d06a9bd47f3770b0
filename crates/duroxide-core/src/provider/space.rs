//! Space that a store holds and does not use.

use serde::{Deserialize, Serialize};

/// What one step of giving space back did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenBack {
    /// Bytes that the step gave back to the file system.
    pub bytes: u64,
    /// Bytes that the store still holds and does not use. New data uses them first.
    pub free_bytes: u64,
    /// Another step would give nothing back: little is free, or the store cannot do it in steps.
    pub is_done: bool,
    /// Whether the store can do it in steps at all.
    pub in_steps: bool,
}
