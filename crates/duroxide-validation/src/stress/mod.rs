//! Load on a store under a running engine: how fast it is, and that nothing is lost or doubled under load.
//!
//! In: a store, registries, a configuration. Out: counts, throughput, true latencies from start to end, and the audit
//! of every history that was written.

mod audit;
mod config;
pub mod continue_as_new;
mod defaults;
mod drive;
pub mod fan_in;
pub mod large_payload;
pub mod parallel_orchestrations;
mod result;
pub mod timers;

pub use audit::Audit;
pub use config::{ProviderStressFactory, StressTestConfig};
pub use defaults::{create_default_activities, create_default_orchestrations};
pub use drive::{measure_stress_test, run_stress_test};
pub use result::{Latencies, StressReport, StressTestResult, print_comparison_table};

pub(crate) use drive::{Workload, drive};
