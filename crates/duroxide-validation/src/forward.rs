//! A factory around another one: what makes providers is its own, everything else is forwarded. In: the type, the field
//! with the inner factory, and its own methods. Out: its implementation of [`ProviderFactory`](crate::ProviderFactory).

/// Implements [`ProviderFactory`](crate::ProviderFactory) for a factory that changes the providers of another one. Its
/// own are the methods that make providers or factories.
#[doc(hidden)]
#[macro_export]
macro_rules! __forwarding_factory {
    ($factory:ty => $inner:ident { $($own:tt)* }) => {
        #[async_trait::async_trait]
        impl $crate::ProviderFactory for $factory {
            $($own)*

            fn lock_timeout(&self) -> std::time::Duration {
                self.$inner.lock_timeout()
            }

            fn short_poll_threshold(&self) -> std::time::Duration {
                self.$inner.short_poll_threshold()
            }

            fn wake_latency(&self) -> std::time::Duration {
                self.$inner.wake_latency()
            }

            fn engine_patience(&self) -> std::time::Duration {
                self.$inner.engine_patience()
            }

            async fn corrupt_instance_history(&self, instance: &str) {
                self.$inner.corrupt_instance_history(instance).await;
            }

            async fn get_max_attempt_count(&self, instance: &str) -> u32 {
                self.$inner.get_max_attempt_count(instance).await
            }

            fn supports(&self, capability: $crate::Capability) -> bool {
                self.$inner.supports(capability)
            }

            fn must_offer(&self) -> &'static [$crate::Capability] {
                self.$inner.must_offer()
            }

            fn long_polls(&self) -> bool {
                self.$inner.long_polls()
            }

            fn clock(&self) -> Option<std::sync::Arc<dyn $crate::TestClock>> {
                self.$inner.clock()
            }

            fn unknown_instance_grace(&self) -> Option<std::time::Duration> {
                self.$inner.unknown_instance_grace()
            }

            async fn corrupt_orchestrator_messages(&self, instance: &str) {
                self.$inner.corrupt_orchestrator_messages(instance).await;
            }

            async fn corrupt_worker_items(&self, instance: &str) {
                self.$inner.corrupt_worker_items(instance).await;
            }
        }
    };
}
