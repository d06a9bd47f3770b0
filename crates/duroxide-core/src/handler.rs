//! What the engine calls to run an author's orchestration.

use async_trait::async_trait;

use crate::context::OrchestrationContext;

/// An orchestration: deterministic glue that may be run from its start any number of times.
#[async_trait]
pub trait OrchestrationHandler: Send + Sync {
    /// Runs the orchestration.
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String>;
}

/// An async function as an [`OrchestrationHandler`].
#[derive(Debug, Clone)]
pub struct FnOrchestration<F, Fut>(pub F)
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, String>> + Send + 'static;

#[async_trait]
impl<F, Fut> OrchestrationHandler for FnOrchestration<F, Fut>
where
    F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, String>> + Send + 'static,
{
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String> {
        (self.0)(ctx, input).await
    }
}
