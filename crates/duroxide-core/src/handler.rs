//! What the engine calls to run an author's orchestration.

use async_trait::async_trait;

use crate::codec;
use crate::context::OrchestrationContext;
use crate::definition::{Inputs, Orchestration};

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

/// The code of an [`Orchestration`].
pub trait OrchestrationBody: Orchestration {
    /// Runs it.
    fn run(
        &self,
        ctx: OrchestrationContext,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send + 'static;
}

/// The code of an [`Orchestration`] as an [`OrchestrationHandler`]: input, output and error travel as text.
#[derive(Debug, Clone)]
pub struct TypedOrchestration<O>(pub O);

#[async_trait]
impl<O: OrchestrationBody> OrchestrationHandler for TypedOrchestration<O> {
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String> {
        let input = Inputs::decode(&input)
            .map_err(|e| format!("the input of the orchestration does not decode: {e}"))?;
        match self.0.run(ctx, input).await {
            Ok(output) => codec::encode(&output),
            Err(error) => Err(codec::encode(&error)?),
        }
    }
}
