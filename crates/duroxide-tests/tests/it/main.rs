//! End to end, by flow.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod faulty;
mod histories;
mod recorded;
#[allow(
    unreachable_pub,
    reason = "the file is shared with other crates as it is"
)]
mod recorded_handlers;
mod samples;
mod support;

mod announced;
mod applying;
mod async_runtimes;
mod audit;
mod bad_input;
mod blocked;
mod cancel;
mod cancel_without_code;
mod children;
mod client;
mod closed;
mod config;
mod continue_as_new;
mod cooperative;
mod defects;
mod detached;
mod endless;
mod error_codes;
mod events;
mod explained;
mod labels;
mod late_answers;
mod leases;
mod lives;
mod logs;
mod messages;
mod metrics;
mod monitoring;
mod nodes;
mod outage;
mod pausing;
mod poison;
mod process_ends;
mod queue_messages;
mod recovery;
mod retention;
mod retried;
mod retry;
mod routing;
mod shutdown;
mod smoke;
mod spans;
mod start;
mod state;
mod timers;
mod typed_on_store;
mod verifying;
mod versions;
