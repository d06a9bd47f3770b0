//! One test under many seeds.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::builder::HarnessBuilder;
use crate::harness::{Harness, block_on};
use crate::seed::{SEED, seed_of_environment};

impl Harness {
    /// Runs a test once with each seed, each time from the beginning. Says which seed failed; `DUROXIDE_SEED=N` runs
    /// that one alone. The test gets a builder that has its seed. Not for async tests: it brings its own async runtime.
    ///
    /// ```
    /// use duroxide::testing::Harness;
    /// use duroxide::{Either2, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
    ///
    /// async fn first(ctx: OrchestrationContext, _input: String) -> Result<String, String> {
    ///     let (left, right) = (ctx.schedule_activity("left", ""), ctx.schedule_activity("right", ""));
    ///     match ctx.select2(left, right).await {
    ///         Either2::First(answer) | Either2::Second(answer) => answer,
    ///     }
    /// }
    ///
    /// Harness::many(0..20, |harness| async move {
    ///     let mut harness = harness
    ///         .orchestrations(OrchestrationRegistry::builder().register("first", first).build())
    ///         .stub_value("left", "done")
    ///         .stub_value("right", "done")
    ///         .start()
    ///         .await;
    ///     let status = harness.run("first", "").await;
    ///     assert!(matches!(status, OrchestrationStatus::Completed { output, .. } if output == "done"));
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// If the test panics under one of the seeds, or if there is no seed.
    pub fn many<F, Fut>(seeds: impl IntoIterator<Item = u64>, test: F)
    where
        F: Fn(HarnessBuilder) -> Fut,
        Fut: Future<Output = ()>,
    {
        let seeds: Vec<u64> = match seed_of_environment() {
            Some(seed) => vec![seed],
            None => seeds.into_iter().collect(),
        };
        assert!(!seeds.is_empty(), "a test without seeds tests nothing");
        for seed in seeds {
            let run = || block_on(test(Self::builder().seed(seed)));
            if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                eprintln!("the test fails with seed {seed}; to run it alone: {SEED}={seed}");
                resume_unwind(panic);
            }
        }
    }
}
