//! Words and rules of Duroxide.
//!
//! Events, work items, the storage contract, what authors call, and replay. No async runtime, no randomness, no I/O;
//! time is handed in.

pub mod clock;
pub mod event;
mod ids;
pub mod limits;
pub mod provider;
mod version;
mod work_item;

pub use event::{
    AppErrorKind, BUILD_VERSION, ConfigErrorKind, ErrorDetails, Event, EventKind, PoisonMessageType,
};
pub use ids::{
    INITIAL_EVENT_ID, INITIAL_EXECUTION_ID, LockToken, SUB_ORCH_AUTO_PREFIX,
    build_child_instance_id, is_auto_generated_sub_orch_id, uses_reserved_marker,
};
pub use provider::SystemStats;
pub use work_item::WorkItem;
