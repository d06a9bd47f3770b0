//! What a provider must do, one behaviour per function, grouped by module.

pub mod atomicity;
pub mod bulk_deletion;
pub mod cancellation;
pub mod capability_filtering;
pub mod custom_status;
pub mod deletion;
pub mod error_handling;
pub mod instance_creation;
pub mod instance_locking;
pub mod kv_store;
pub mod lock_expiration;
pub mod long_polling;
pub mod management;
pub mod multi_execution;
pub mod poison_message;
pub mod prune;
pub mod queue_semantics;
pub mod sessions;
pub mod tag_filtering;
