//! What a test does to the workers of a harness: kills, deployments, a store that fails.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use duroxide_runtime::Handlers;

use crate::fate::Moment;
use crate::harness::Harness;
use crate::script::Script;
use crate::workers::Code;

impl Harness {
    /// Kills all workers now and starts them again with other code: a deployment. What is running goes on with the new
    /// code, or diverges; what waits for a handler that the new code lacks goes on waiting.
    ///
    /// ```
    /// use std::time::Duration;
    /// use duroxide::OrchestrationStatus;
    /// use duroxide::prelude::*;
    /// use duroxide::testing::{Harness, block_on};
    ///
    /// #[duroxide::orchestration(name = "trial")]
    /// async fn old(ctx: OrchestrationContext, user: String) -> Result<String, String> {
    ///     ctx.schedule_timer(Duration::from_secs(30 * 86_400)).await;
    ///     Ok(format!("{user} pays 5"))
    /// }
    ///
    /// #[duroxide::orchestration(name = "trial")]
    /// async fn new(ctx: OrchestrationContext, user: String) -> Result<String, String> {
    ///     ctx.schedule_timer(Duration::from_secs(20 * 86_400)).await;
    ///     Ok(format!("{user} pays 7"))
    /// }
    ///
    /// block_on(async {
    ///     let mut harness = Harness::builder().handlers(Handlers::new().register(old)).start().await;
    ///     harness.client().start(old, "ada".to_owned()).id("t").await.unwrap();
    ///     harness.advance(Duration::from_secs(86_400)).await;
    ///     harness.deploy(Handlers::new().register(new)).await;
    ///     let status = harness.wait("t").await;
    ///     // A timer may change its length: what was recorded holds.
    ///     assert!(matches!(&status, OrchestrationStatus::Completed { output, .. } if output == "ada pays 7"), "{status:?}");
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// When the code is not complete, or contradicts itself.
    pub async fn deploy(&mut self, handlers: Handlers) {
        let (activities, orchestrations) = handlers
            .build()
            .unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let code = Code {
            activities: Script::stage(&self.script, &activities),
            orchestrations: self.script.stage_children(&orchestrations),
        };
        *self
            .workers
            .code
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = code;
        self.crash().await;
    }

    /// Kills all workers now and starts them again. What was not committed is lost; leases run out by themselves.
    pub async fn crash(&mut self) {
        for worker in 0..self.workers.count() {
            self.workers.crash(worker).await;
        }
    }

    /// Kills one of several workers now, counted from 0, and starts it again.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    pub async fn crash_worker(&mut self, worker: usize) {
        let count = self.workers.count();
        assert!(worker < count, "there are {count} workers, counted from 0");
        self.workers.crash(worker).await;
    }

    /// Kills the worker that makes the n-th commit from now, before that commit reaches the store, and starts it again.
    pub fn crash_before_commit(&self, nth: u64) {
        self.workers.fate.die_at_commit(nth, Moment::Before);
    }

    /// Kills the worker that makes the n-th commit from now, after that commit reached the store but before the worker
    /// heard of it, and starts it again.
    pub fn crash_after_commit(&self, nth: u64) {
        self.workers.fate.die_at_commit(nth, Moment::After);
    }

    /// Kills the worker that makes the n-th call of this name from now, and starts it again. Calls have the names of
    /// the methods of `Provider`: `claim_turns`, `ack_work_item`, `renew_work_item_lock`; `commit` is
    /// `ack_orchestration_item` or `ack_work_item`.
    ///
    /// # Panics
    ///
    /// If workers never make such a call.
    pub fn crash_at(&self, call: &str, nth: u64, moment: Moment) {
        self.workers.fate.die_at(call, nth, moment);
    }

    /// Lets the store fail the n-th call of this name from now, with an error that says that trying again may help.
    /// Names as in [`crash_at`](Self::crash_at).
    ///
    /// ```
    /// use duroxide::testing::{Harness, Moment, block_on};
    /// use duroxide::{OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
    ///
    /// async fn hello(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    ///     ctx.schedule_activity("greet", name).await
    /// }
    ///
    /// block_on(async {
    ///     let mut harness = Harness::builder()
    ///         .orchestrations(OrchestrationRegistry::builder().register("hello", hello).build())
    ///         .stub_value("greet", "hello")
    ///         .start()
    ///         .await;
    ///     harness.fail_store("ack_orchestration_item", 1, Moment::After);
    ///     let status = harness.run("hello", "ada").await;
    ///     assert!(matches!(status, OrchestrationStatus::Completed { .. }));
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// If workers never make such a call.
    pub fn fail_store(&self, call: &str, nth: u64, moment: Moment) {
        self.workers.fate.fail_at(call, nth, moment);
    }

    /// Commits so far, over all lives.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.workers.fate.commits()
    }

    /// Calls of this name that workers have made so far, over all lives.
    #[must_use]
    pub fn store_calls(&self, call: &str) -> u64 {
        self.workers.fate.calls(call)
    }

    /// Crashes so far.
    #[must_use]
    pub fn crashes(&self) -> u32 {
        self.workers.crashes.load(Ordering::Relaxed)
    }
}
