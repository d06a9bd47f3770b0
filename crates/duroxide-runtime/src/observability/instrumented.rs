//! A store that is measured: every call is timed and every error counted, then passed on as it is. A panic in the store
//! is an error like others: it must not end the dispatcher that happened to call.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use duroxide_core::provider::{Provider, ProviderError};
use tokio::time::Instant;

use super::{Layer, Layered, MetricsProvider};

/// A store that is measured.
pub type InstrumentedProvider = Layered<Measure>;

/// The layer that measures.
#[derive(Debug)]
pub struct Measure {
    metrics: Option<Arc<MetricsProvider>>,
}

impl Layered<Measure> {
    /// Measures a store; without metrics it only passes calls on.
    #[must_use]
    pub fn new(inner: Arc<dyn Provider>, metrics: Option<Arc<MetricsProvider>>) -> Self {
        Self::around(inner, Measure { metrics })
    }
}

impl Layer for Measure {
    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> Result<T, ProviderError> {
        let Some(metrics) = &self.metrics else {
            return call.await;
        };
        let operation = published_name(operation);
        let started = Instant::now();
        let result = contained(operation, call).await;
        let status = if result.is_ok() { "success" } else { "error" };
        metrics.record_provider_operation(operation, started.elapsed().as_secs_f64(), status);
        if let Err(error) = &result {
            let class = if error.is_retryable() {
                "retryable"
            } else {
                "permanent"
            };
            metrics.record_provider_error(operation, class);
        }
        result
    }
}

/// Runs a call; a panic in it counts as a failure that may pass.
async fn contained<T>(
    operation: &'static str,
    call: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    let mut call = pin!(call);
    poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))).unwrap_or_else(|_| {
            let error = ProviderError::retryable(operation, "the store panicked");
            Poll::Ready(Err(error))
        })
    })
    .await
}

/// The name under which an operation was always measured, whichever method does it.
fn published_name(operation: &'static str) -> &'static str {
    match operation {
        "claim_turns" => "fetch_orchestration_item",
        "claim_work" => "fetch_work_item",
        "enqueue_for_orchestrator" => "enqueue_orchestrator",
        other => other,
    }
}
