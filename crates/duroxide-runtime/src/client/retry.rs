//! Retrying failed instances from the point of failure. In: an id, and where to begin. Out: a message that asks the
//! instance for it; `orchestration/rewind` does it.

use std::time::Duration;

use duroxide_core::provider::ProviderError;
use duroxide_core::rewind::{NoRewind, Rewind, RewindMessage, RewindPoint, plan};

use super::audit::Change;
use super::{Client, ClientError};

/// Longest pause between two looks at a store that cannot wake.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

impl Client {
    /// Asks the nodes to retry a failed instance from the point of failure, in another execution of the same instance.
    /// `Ok` means that the store has the request; [`wait_for_retry`](Self::wait_for_retry) waits until a node has taken
    /// it.
    ///
    /// The new execution begins with the record of the failed one up to the failure ([`RewindPoint::Failure`]): what
    /// had succeeded is not run again, what had failed is asked for anew, under the idempotency key of the original
    /// call, and what the code did about the failure is forgotten, though not undone. What reached the instance after
    /// it had failed is gone. The failed execution stays as an earlier one. A failed child that the instance waits for
    /// is retried with it. A parent that received the failure does not receive it again: to go on with a whole tree,
    /// retry its root.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::{Client, ClientError};
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// let retried = client.retry_instance("order-7").await;
    /// assert!(matches!(retried, Err(ClientError::InstanceNotFound { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InstanceNotFound`, `InvalidInput` if it has not failed, `ManagementNotAvailable`, or what the store says.
    pub async fn retry_instance(&self, instance: &str) -> Result<Rewind, ClientError> {
        self.retry_instance_from(instance, RewindPoint::Failure)
            .await
    }

    /// As [`retry_instance`](Self::retry_instance), from a point of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`retry_instance`](Self::retry_instance), and `InvalidInput` if there is no such point.
    pub async fn retry_instance_from(
        &self,
        instance: &str,
        point: RewindPoint,
    ) -> Result<Rewind, ClientError> {
        let rewind = self.plan_retry(instance, point).await?;
        let request = RewindMessage::Rewind {
            execution_id: rewind.failed_execution_id,
            from_event_id: Some(rewind.from_event_id),
            failure: rewind.failure,
        };
        self.enqueue(request.to(instance), None).await?;
        let detail = format!(
            "execution {}, from event {}",
            rewind.failed_execution_id, rewind.from_event_id
        );
        self.audit(Change::of("retry", instance).with_detail(&detail));
        Ok(rewind)
    }

    /// What a retry would keep, drop and ask for anew; changes nothing.
    ///
    /// # Errors
    ///
    /// As [`retry_instance_from`](Self::retry_instance_from).
    pub async fn plan_retry(
        &self,
        instance: &str,
        point: RewindPoint,
    ) -> Result<Rewind, ClientError> {
        if !self.admin()?.can_rewind() {
            return Err(ClientError::Provider(ProviderError::permanent(
                "retry",
                "this store cannot rewind an execution",
            )));
        }
        let history = self.store.read(instance).await?;
        plan(&history, point).map_err(|error| match error {
            NoRewind::NoHistory => ClientError::InstanceNotFound {
                instance_id: instance.to_owned(),
            },
            other => {
                ClientError::invalid(format!("instance {instance} cannot be retried: {other}"))
            }
        })
    }

    /// Waits until a node has taken a retry: the instance runs again, or has ended anew.
    ///
    /// # Errors
    ///
    /// `Timeout` at the deadline, because no node runs that has its code or because a child that was cancelled has not
    /// ended; permanent store errors at once. Retryable ones are outwaited.
    pub async fn wait_for_retry(
        &self,
        rewind: &Rewind,
        timeout: Duration,
    ) -> Result<(), ClientError> {
        let instance = rewind.instance.as_str();
        self.wait_until(instance, timeout, LONGEST_PAUSE, || async move {
            let outcome = self.store.read_outcome(instance).await?;
            let taken = outcome.is_some_and(|it| it.execution_id > rewind.failed_execution_id);
            Ok(taken.then_some(()))
        })
        .await
    }
}
