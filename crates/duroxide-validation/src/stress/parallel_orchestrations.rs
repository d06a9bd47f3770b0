//! Many small instances at once.

use std::error::Error;

pub use super::{ProviderStressFactory, StressTestConfig, StressTestResult};
use super::{create_default_activities, create_default_orchestrations, run_stress_test};

/// Runs the default orchestration with the factory's configuration.
///
/// # Errors
///
/// If anything was lost or doubled.
pub async fn run_parallel_orchestrations_test(
    factory: &dyn ProviderStressFactory,
) -> Result<StressTestResult, Box<dyn Error>> {
    run_parallel_orchestrations_test_with_config(factory, factory.stress_test_config()).await
}

/// Runs the default orchestration with this configuration.
///
/// # Errors
///
/// If anything was lost or doubled.
pub async fn run_parallel_orchestrations_test_with_config(
    factory: &dyn ProviderStressFactory,
    config: StressTestConfig,
) -> Result<StressTestResult, Box<dyn Error>> {
    let activities = create_default_activities(config.activity_delay_ms);
    let store = factory.create_provider().await;
    run_stress_test(config, store, activities, create_default_orchestrations()).await
}
