//! Rules of the contract that every store applies in the same way. In: work items, events and what a row says beside
//! its text. Out: answers that two stores must not give differently. No store is opened here, and no row is read or
//! written.
//!
//! Authors of providers use this module; the runtime does not.

mod json;
pub mod lane;
mod refusal;
mod turn;
mod unreadable;
mod watched;

pub use json::{
    Activity, activity, completion_only, event_from_json, event_to_json, orchestrator_only,
    work_item_from_json, work_item_to_json,
};
pub use refusal::Refusal;
pub use turn::{
    begins_later_execution, carried_messages, ended_by, last_custom_status, merges_key_values,
};
pub use unreadable::{UnreadableMessage, failed_activity};
pub use watched::{InstanceChange, InstanceFeed};
