//! The paths under which the published crate offers its kit.

/// The conformance cases: the first nine groups flat, the others by group.
pub mod provider_validations {
    pub use crate::cases::{
        atomicity::*, cancellation::*, error_handling::*, instance_creation::*,
        instance_locking::*, lock_expiration::*, management::*, multi_execution::*,
        queue_semantics::*,
    };
    pub use crate::cases::{
        bulk_deletion, capability_filtering, custom_status, deletion, kv_store, long_polling,
        poison_message, prune, race_replay, sessions, tag_filtering,
    };
    pub use crate::factory::ProviderFactory;
    pub use crate::{Report, run_all_validations};
}

/// The groups as modules, and the factory.
pub mod provider_validation {
    pub use crate::cases::*;
    pub use crate::factory::ProviderFactory;
}
