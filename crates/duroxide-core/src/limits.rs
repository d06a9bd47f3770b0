//! Limits that hold for every orchestration. Exactly the limit is accepted; one byte or one key more is not.

/// What the failure of an orchestration says that broke a limit.
pub(crate) const EXCEEDS_LIMIT: &str = "exceeds limit";

/// How many unread queue messages the published crate carries into the next execution. Here all of them are carried.
pub const MAX_CARRY_FORWARD_EVENTS: usize = 100;
/// From this many unread queue messages on, code that waits for none of them leaves further ones in the queue. They
/// would be recorded, and carried from execution to execution, without use.
pub const HOLD_QUEUE_MESSAGES_FROM: usize = 16;
/// The same for their size: from this many bytes of unread queue messages on.
pub const HOLD_QUEUE_MESSAGES_FROM_BYTES: usize = 65_536;
/// Longest instance id, in bytes: what every store can index.
pub const MAX_INSTANCE_ID_BYTES: usize = 1024;
/// Largest custom status, in bytes.
pub const MAX_CUSTOM_STATUS_BYTES: usize = 262_144;
/// Tags one worker may subscribe to.
pub const MAX_WORKER_TAGS: usize = 5;
/// Longest activity tag, in bytes.
pub const MAX_TAG_NAME_BYTES: usize = 256;
/// Keys one instance may hold.
pub const MAX_KV_KEYS: usize = 150;
/// Largest value of one key, in bytes.
pub const MAX_KV_VALUE_BYTES: usize = 65_536;
/// Largest input, output, event payload or error text, in bytes, unless the runtime is configured otherwise.
pub const DEFAULT_PAYLOAD_BYTES_MAX: usize = 2 * 1024 * 1024;
