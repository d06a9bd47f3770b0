//! End to end, by flow.

mod histories;
mod recorded_handlers;
mod smoke;
mod support;
