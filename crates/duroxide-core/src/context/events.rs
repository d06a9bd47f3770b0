//! Signals and queues: what the outside world sends to a running orchestration.

use std::panic::Location;

use serde::de::DeserializeOwned;

use super::OrchestrationContext;
use crate::codec;
use crate::durable::{CommandKind, OperationKind, Resolution};
use crate::future::{DurableFuture, ScheduleKind};

impl OrchestrationContext {
    /// Waits for a signal. A signal that arrives before the wait is recorded is lost; use
    /// [`dequeue_event`](Self::dequeue_event) where that must not happen.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     // The wait is recorded before the question is asked, so the answer finds it.
    ///     let answer = ctx.schedule_wait("answer");
    ///     ctx.schedule_activity("ask", input).await?;
    ///     Ok(answer.await)
    /// }
    /// ```
    #[track_caller]
    pub fn schedule_wait(&self, name: impl Into<String>) -> DurableFuture<String> {
        let name = name.into();
        let operation = OperationKind::Wait { name: name.clone() };
        let command = CommandKind::Wait { name: name.clone() };
        let kind = ScheduleKind::ExternalWait { event_name: name };
        self.wait_for(operation, command, kind)
    }

    /// Waits for data that comes in from outside.
    #[track_caller]
    fn wait_for(
        &self,
        operation: OperationKind,
        command: CommandKind,
        kind: ScheduleKind,
    ) -> DurableFuture<String> {
        let location = Location::caller();
        let mut cell = self.shared.deciding(location);
        let slot = cell.call(operation, command, location);
        drop(cell);
        DurableFuture::waiting(self.shared.clone(), slot, kind, Resolution::into_data)
    }

    /// Waits for a signal with a typed payload.
    ///
    /// # Panics
    ///
    /// The future panics, which fails the orchestration, when the payload does not decode. See
    /// [`try_schedule_wait_typed`](Self::try_schedule_wait_typed).
    #[track_caller]
    pub fn schedule_wait_typed<T: DeserializeOwned + Send + 'static>(
        &self,
        name: impl Into<String>,
    ) -> DurableFuture<T> {
        self.schedule_wait(name).map(decode_or_panic)
    }

    /// Waits for a signal with a typed payload; a payload that does not decode is an `Err`.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     let count: u32 = ctx.try_schedule_wait_typed("count").await?;
    ///     Ok(format!("{input}: {count}"))
    /// }
    /// ```
    #[track_caller]
    pub fn try_schedule_wait_typed<T: DeserializeOwned + Send + 'static>(
        &self,
        name: impl Into<String>,
    ) -> DurableFuture<Result<T, String>> {
        self.schedule_wait(name).map(|data| codec::decode(&data))
    }

    /// Takes the next message of a queue. Messages wait until they are taken, also across continue-as-new.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     let first = ctx.dequeue_event("orders").await;
    ///     let second = ctx.dequeue_event("orders").await;
    ///     Ok(format!("{input}: {first}, then {second}"))
    /// }
    /// ```
    #[track_caller]
    pub fn dequeue_event(&self, queue: impl Into<String>) -> DurableFuture<String> {
        let name = queue.into();
        let operation = OperationKind::Dequeue { name: name.clone() };
        let command = CommandKind::Dequeue { name: name.clone() };
        let kind = ScheduleKind::QueueDequeue { event_name: name };
        self.wait_for(operation, command, kind)
    }

    /// Takes the next message of a queue, typed.
    ///
    /// # Panics
    ///
    /// The future panics, which fails the orchestration, when the payload does not decode. See
    /// [`try_dequeue_event_typed`](Self::try_dequeue_event_typed).
    #[track_caller]
    pub fn dequeue_event_typed<T: DeserializeOwned>(
        &self,
        queue: impl Into<String>,
    ) -> impl Future<Output = T> {
        let message = self.dequeue_event(queue);
        async move { decode_or_panic(message.await) }
    }

    /// Takes the next message of a queue, typed; a payload that does not decode is an `Err`.
    #[track_caller]
    pub fn try_dequeue_event_typed<T: DeserializeOwned + Send + 'static>(
        &self,
        queue: impl Into<String>,
    ) -> DurableFuture<Result<T, String>> {
        self.dequeue_event(queue).map(|data| codec::decode(&data))
    }

    /// The older name of [`dequeue_event`](Self::dequeue_event).
    #[deprecated(note = "use dequeue_event")]
    #[track_caller]
    pub fn schedule_wait_persistent(&self, name: impl Into<String>) -> DurableFuture<String> {
        self.dequeue_event(name)
    }

    /// The older name of [`dequeue_event_typed`](Self::dequeue_event_typed).
    #[deprecated(note = "use dequeue_event_typed")]
    #[track_caller]
    pub fn schedule_wait_persistent_typed<T: DeserializeOwned>(
        &self,
        name: impl Into<String>,
    ) -> impl Future<Output = T> {
        self.dequeue_event_typed(name)
    }
}

fn decode_or_panic<T: DeserializeOwned>(data: impl AsRef<str>) -> T {
    codec::decode(data.as_ref()).unwrap_or_else(|e| panic!("decode: {e}"))
}
