//! End to end, by flow.

mod histories;
#[allow(
    unreachable_pub,
    reason = "the file is shared with other crates as it is"
)]
mod recorded_handlers;
mod smoke;
mod support;
