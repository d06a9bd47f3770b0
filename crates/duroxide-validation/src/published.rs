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

/// Load tests: configuration, results and the ready-made scenarios.
pub mod provider_stress_tests {
    pub use crate::stress::{
        Audit, Latencies, ProviderStressFactory, StressReport, StressTestConfig, StressTestResult,
        create_default_activities, create_default_orchestrations, measure_stress_test,
        print_comparison_table, run_stress_test,
    };
    pub use crate::stress::{
        continue_as_new, fan_in, large_payload, parallel_orchestrations, timers,
    };
}

/// The load tests under their other published name.
pub mod provider_stress_test {
    pub use super::provider_stress_tests::*;
}
