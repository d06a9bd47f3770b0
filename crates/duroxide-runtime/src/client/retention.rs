//! Retention by hand: from a program, or from the command line.

use duroxide_core::clock::{Clock, SystemClock};

use super::audit::Change;
use super::{Client, ClientError};
use crate::retention::{RetentionPolicy, RetentionReport, Sweep};

impl Client {
    /// Deletes what a policy says, in small steps, and returns what went. It may be stopped at any time and called
    /// again: the next call finds what is left. See [`RuntimeOptions::retention`](crate::RuntimeOptions::retention) for
    /// nodes that do it by themselves.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::{sync::Arc, time::Duration};
    /// use duroxide::{Client, RetentionPolicy, RetentionRule};
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// let month = Duration::from_secs(30 * 86_400);
    /// let rule = RetentionRule { ended_for: Some(month), ..RetentionRule::default() };
    /// let policy = RetentionPolicy::new().rule(rule);
    /// println!("{} would go", client.preview_retention(&policy).await?.instances);
    /// println!("{} are gone", client.apply_retention(&policy).await?.instances);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a policy that cannot work, `ManagementNotAvailable`, or what the store says.
    pub async fn apply_retention(
        &self,
        policy: &RetentionPolicy,
    ) -> Result<RetentionReport, ClientError> {
        self.apply_retention_with(policy, |_| {}).await
    }

    /// As [`apply_retention`](Self::apply_retention), and tells after each step what went so far.
    ///
    /// # Errors
    ///
    /// As [`apply_retention`](Self::apply_retention).
    pub async fn apply_retention_with(
        &self,
        policy: &RetentionPolicy,
        tell: impl FnMut(RetentionReport),
    ) -> Result<RetentionReport, ClientError> {
        let now_ms = self.time_of_retention(policy).await?;
        let sweep = Sweep::new(policy.clone(), now_ms);
        let done = self.sweep(sweep, tell).await?;
        if done != RetentionReport::default() {
            let (instances, executions) = (done.instances, done.executions);
            let detail = format!("{instances} instances, {executions} executions");
            self.audit(Change::of("retention", "").with_detail(&detail));
        }
        Ok(done)
    }

    /// What [`apply_retention`](Self::apply_retention) would delete now; nothing is changed.
    ///
    /// # Errors
    ///
    /// As [`apply_retention`](Self::apply_retention).
    pub async fn preview_retention(
        &self,
        policy: &RetentionPolicy,
    ) -> Result<RetentionReport, ClientError> {
        let now_ms = self.time_of_retention(policy).await?;
        let sweep = Sweep::preview(policy.clone(), now_ms);
        self.sweep(sweep, |_| {}).await
    }

    async fn time_of_retention(&self, policy: &RetentionPolicy) -> Result<u64, ClientError> {
        policy.validate().map_err(ClientError::invalid)?;
        let of_store = self.store.clock_ms().await?;
        Ok(of_store.unwrap_or_else(|| SystemClock.now_ms()))
    }

    async fn sweep(
        &self,
        mut sweep: Sweep,
        mut tell: impl FnMut(RetentionReport),
    ) -> Result<RetentionReport, ClientError> {
        let admin = self.admin()?;
        let mut total = RetentionReport::default();
        while let Some(done) = sweep.step(admin).await? {
            total.add(done);
            tell(total);
        }
        Ok(total)
    }
}
