//! A provider around a provider. In: a call of the contract. Out: the same call, or what a layer makes of it. The
//! contract is spelled out once, at the foot of this file; measuring, fault injection and broken stores for tests are
//! layers.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_core::Event;
use duroxide_core::provider::{
    BlockedInstance, ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, ExecutionMetadata,
    InstanceOutcome, InstanceWatch, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, Submission, Submitted, SystemStats, TagFilter,
    TurnClaim, TurnWrites, WorkClaim, WorkItem,
};

/// A provider behind a [`Layer`].
pub struct Layered<L> {
    inner: Arc<dyn Provider>,
    layer: L,
}

impl<L: Layer> Layered<L> {
    /// Puts a layer around a provider.
    #[must_use]
    pub fn around(inner: Arc<dyn Provider>, layer: L) -> Self {
        Self { inner, layer }
    }

    /// The layer.
    pub fn layer(&self) -> &L {
        &self.layer
    }
}

impl<L> fmt::Debug for Layered<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered")
            .field("inner", &self.inner.name())
            .finish_non_exhaustive()
    }
}

/// Writes, from one list of the calls of [`Provider`], the methods of [`Layer`] that pass them on and the provider that
/// calls those methods.
macro_rules! calls {
    ($($call:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        /// What happens to the calls of a provider.
        ///
        /// [`around`](Self::around) sees every call by its name. Each call also has a method of its own, which sees the
        /// arguments: a layer overrides those it wants to change and passes the rest on, to `next` and through
        /// `around`.
        ///
        /// ```
        /// use duroxide_core::provider::ProviderError;
        /// use duroxide_runtime::observability::Layer;
        /// use std::sync::atomic::{AtomicUsize, Ordering};
        ///
        /// /// Counts calls.
        /// struct Count(AtomicUsize);
        ///
        /// impl Layer for Count {
        ///     async fn around<T: Send>(
        ///         &self,
        ///         _operation: &'static str,
        ///         call: impl Future<Output = Result<T, ProviderError>> + Send,
        ///     ) -> Result<T, ProviderError> {
        ///         self.0.fetch_add(1, Ordering::Relaxed);
        ///         call.await
        ///     }
        /// }
        /// ```
        #[allow(clippy::too_many_arguments, reason = "the published signatures, and one more")]
        pub trait Layer: Send + Sync + 'static {
            /// Runs a call, or not. `operation` is the name of the method of [`Provider`].
            fn around<T: Send>(
                &self,
                operation: &'static str,
                call: impl Future<Output = Result<T, ProviderError>> + Send,
            ) -> impl Future<Output = Result<T, ProviderError>> + Send {
                let _ = operation;
                call
            }

            /// Answers [`Provider::name`].
            fn name<'a>(&'a self, next: &'a dyn Provider) -> &'a str {
                next.name()
            }

            /// Answers [`Provider::as_management_capability`].
            fn as_management_capability<'a>(
                &'a self,
                next: &'a dyn Provider,
            ) -> Option<&'a dyn ProviderAdmin> {
                next.as_management_capability()
            }

            /// Answers [`Provider::watch_instance`].
            fn watch_instance(
                &self,
                next: &dyn Provider,
                instance: &str,
            ) -> Option<Box<dyn InstanceWatch>> {
                next.watch_instance(instance)
            }

            /// Passes [`Provider::ack_holding_queue_messages`] on through [`around`](Self::around), as the commit that
            /// it is: as `ack_orchestration_item`.
            fn ack_holding_queue_messages(
                &self,
                next: &dyn Provider,
                lock_token: &str,
                writes: TurnWrites,
            ) -> impl Future<Output = Result<bool, ProviderError>> + Send {
                async move {
                    let commit = next.ack_holding_queue_messages(lock_token, writes);
                    self.around("ack_orchestration_item", commit).await
                }
            }
            $(
                #[doc = concat!("Passes [`Provider::", stringify!($call), "`] on through [`around`](Self::around).")]
                fn $call(
                    &self,
                    next: &dyn Provider,
                    $($argument: $kind),*
                ) -> impl Future<Output = Result<$answer, ProviderError>> + Send {
                    async move { self.around(stringify!($call), next.$call($($argument),*)).await }
                }
            )*
        }

        #[async_trait]
        impl<L: Layer> Provider for Layered<L> {
            fn name(&self) -> &str {
                self.layer.name(&*self.inner)
            }

            fn version(&self) -> &str {
                self.inner.version()
            }

            fn submits_in_one_step(&self) -> bool {
                self.inner.submits_in_one_step()
            }

            fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
                self.layer.as_management_capability(&*self.inner)
            }

            fn watch_instance(&self, instance: &str) -> Option<Box<dyn InstanceWatch>> {
                self.layer.watch_instance(&*self.inner, instance)
            }

            async fn ack_holding_queue_messages(
                &self,
                lock_token: &str,
                writes: TurnWrites,
            ) -> Result<bool, ProviderError> {
                let next = &*self.inner;
                self.layer.ack_holding_queue_messages(next, lock_token, writes).await
            }
            $(
                async fn $call(&self, $($argument: $kind),*) -> Result<$answer, ProviderError> {
                    self.layer.$call(&*self.inner, $($argument),*).await
                }
            )*
        }
    };
}

calls! {
    fetch_orchestration_item(
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>
    ) -> Option<(OrchestrationItem, String, u32)>;
    ack_orchestration_item(
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>
    ) -> ();
    abandon_orchestration_item(
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool
    ) -> ();
    read(instance: &str) -> Vec<Event>;
    read_with_execution(instance: &str, execution_id: u64) -> Vec<Event>;
    append_with_execution(instance: &str, execution_id: u64, new_events: Vec<Event>) -> ();
    enqueue_for_worker(item: WorkItem) -> ();
    fetch_work_item(
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter
    ) -> Option<(WorkItem, String, u32)>;
    ack_work_item(token: &str, completion: Option<WorkItem>) -> ();
    renew_work_item_lock(token: &str, extend_for: Duration) -> ();
    renew_session_lock(
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration
    ) -> usize;
    cleanup_orphaned_sessions(idle_timeout: Duration) -> usize;
    abandon_work_item(token: &str, delay: Option<Duration>, ignore_attempt: bool) -> ();
    renew_orchestration_item_lock(token: &str, extend_for: Duration) -> ();
    enqueue_for_orchestrator(item: WorkItem, delay: Option<Duration>) -> ();
    submit(submission: Submission) -> Submitted;
    get_custom_status(instance: &str, last_seen_version: u64) -> Option<(Option<String>, u64)>;
    get_kv_value(instance: &str, key: &str) -> Option<String>;
    get_kv_all_values(instance: &str) -> HashMap<String, String>;
    get_instance_stats(instance: &str) -> Option<SystemStats>;
    claim_turns(claim: TurnClaim) -> Vec<ClaimedTurn>;
    claim_work(claim: WorkClaim) -> Vec<ClaimedWork>;
    lost_work_items(tokens: &[String]) -> Option<Vec<String>>;
    activity_claimed(activity: &ScheduledActivityIdentifier) -> Option<bool>;
    heartbeat_work_item(token: &str, extend_for: Duration, call: u64, details: &str) -> bool;
    last_heartbeat(call: &ScheduledActivityIdentifier) -> Option<String>;
    dead_letter_messages(lock_token: &str, positions: &[usize], reason: &str) -> bool;
    rest_orchestration_item(lock_token: &str, rest: Duration, ignore_attempt: bool) -> bool;
    note_blocked(lock_token: &str, blocked: &BlockedInstance, node: &str) -> bool;
    store_lease(lock_token: &str) -> ();
    dead_letter_work_item(token: &str, reason: &str) -> bool;
    clock_ms() -> Option<u64>;
    read_outcome(instance: &str) -> Option<InstanceOutcome>;
    execution_handler(instance: &str, execution_id: u64) -> Option<(String, String)>;
}
