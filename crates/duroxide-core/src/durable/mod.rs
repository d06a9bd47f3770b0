//! What the author's code and replay share while an execution runs: what the code asked for, and where each operation
//! stands. In: calls of the context, events of replay. Out: the next command to record, the answer to a poll. Nothing
//! here knows the context or replay; both stand above it.

mod cell;
mod command;
mod identity;
mod machines;
mod on_close;
mod operations;
mod presence;
mod shields;
mod syscalls;

pub use cell::InPlaceFuture;
pub(crate) use cell::{Cell, InPlace, NextExecution, RecordedKv, Shared, ShownToCode};
pub(crate) use command::{Command, CommandKind, Target};
pub(crate) use identity::Identity;
pub(crate) use machines::{Call, Resolution};
pub(crate) use on_close::OnClose;
pub(crate) use operations::{Operation, OperationKind};
pub(crate) use presence::{DROPPED, POLLED, Presence, WOKEN};
pub(crate) use shields::Shields;
pub use syscalls::{
    SYSCALL_ACTIVITY_CLAIMED, SYSCALL_AWAIT_INSTANCE, SYSCALL_GET_KV_VALUE, SYSCALL_NEW_GUID,
    SYSCALL_PATCHED, SYSCALL_PREFIX, SYSCALL_RUN_PREFIX, SYSCALL_SEND, SYSCALL_UTC_NOW_MS,
};
