//! The reserved names under which questions to the host are recorded.

/// What activity names of the engine itself begin with.
pub const SYSCALL_PREFIX: &str = "__duroxide_syscall:";
/// A fresh random id.
pub const SYSCALL_NEW_GUID: &str = "__duroxide_syscall:new_guid";
/// The current time in milliseconds since the Unix epoch.
pub const SYSCALL_UTC_NOW_MS: &str = "__duroxide_syscall:utc_now_ms";
/// A key-value of another instance.
pub const SYSCALL_GET_KV_VALUE: &str = "__duroxide_syscall:get_kv_value";
/// Whether a worker ever claimed an activity of this execution.
pub const SYSCALL_ACTIVITY_CLAIMED: &str = "__duroxide_syscall:activity_claimed";
/// Work that runs in place; the name that the author gave it follows.
pub const SYSCALL_RUN_PREFIX: &str = "__duroxide_syscall:run:";
/// A message to a queue of an instance.
pub const SYSCALL_SEND: &str = "__duroxide_syscall:send";
/// The end of an instance that the caller did not start; workers look for it.
pub const SYSCALL_AWAIT_INSTANCE: &str = "__duroxide_syscall:await_instance";
/// A patch that the code took; the input is its id.
pub const SYSCALL_PATCHED: &str = "__duroxide_syscall:patched";
