//! A store called from the engine's own timekeeping thread. Its calls are polled inside the context of the async
//! runtime the engine was started in, so that whatever they spawn or connect belongs to that one.

use duroxide_core::provider::ProviderError;
use tokio::runtime::Handle;
use tokio_util::context::TokioContext;

use super::Layer;

/// The layer that enters the async runtime.
#[derive(Debug)]
pub(crate) struct OnHost(pub(crate) Handle);

impl Layer for OnHost {
    async fn around<T: Send>(
        &self,
        _operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> Result<T, ProviderError> {
        TokioContext::new(call, self.0.clone()).await
    }
}
