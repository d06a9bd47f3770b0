//! The example provider of the guide passes the kit; what it does not offer is skipped.

#[path = "../../examples/tiny_provider/admin.rs"]
mod admin;
#[path = "../../examples/tiny_provider/factory.rs"]
mod factory;
#[path = "../../examples/tiny_provider/history.rs"]
mod history;
#[path = "../../examples/tiny_provider/provider.rs"]
mod provider;
#[path = "../../examples/tiny_provider/state.rs"]
mod state;
#[path = "../../examples/tiny_provider/turns.rs"]
mod turns;
#[path = "../../examples/tiny_provider/work.rs"]
mod work;

use duroxide_validation::run_all_validations;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_passes_every_case_it_can_run() {
    let report = run_all_validations(factory::TinyFactory::default()).await;
    report.assert_ok();
    assert!(report.passed().count() > 330, "{}", report.table());
}
