//! Sending something to a running orchestration, by the published calls: signals, queue messages, requests to cancel.
//! In: an id and a payload. Out: one message for the store. Only `raise_event_if_awaited` looks at the instance
//! first; `messages.rs` tells a sender whether the instance takes the message.

use duroxide_core::event::awaits_signal;
use duroxide_core::{
    TERMINATE_PREFIX, WorkItem, is_engine_queue, plain_message, termination_reason,
};
use serde::Serialize;

use super::audit::Change;
use super::payload::encode;
use super::{Client, ClientError};

impl Client {
    /// Raises a positional signal. It reaches a wait that is already recorded; otherwise it is kept in the history and
    /// recorded without effect. Use [`enqueue_event`](Self::enqueue_event) for messages that must not be lost.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a payload that is too large, else what the store says.
    pub async fn raise_event(
        &self,
        instance: impl Into<String>,
        event_name: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<(), ClientError> {
        let (instance, name, data) = (instance.into(), event_name.into(), data.into());
        self.check_event(&instance, ("event name", &name), &data)?;
        let signal = WorkItem::ExternalRaised {
            instance,
            name,
            data,
        };
        self.enqueue(signal, None).await
    }

    /// Raises a positional signal only if a wait for it is recorded; returns whether it was raised. A sender that gets
    /// `false` knows that its signal would have been lost, and may try again or use a queue.
    ///
    /// # Errors
    ///
    /// As [`raise_event`](Self::raise_event).
    pub async fn raise_event_if_awaited(
        &self,
        instance: impl Into<String>,
        event_name: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<bool, ClientError> {
        let (instance, name) = (instance.into(), event_name.into());
        let history = self.store.read(&instance).await?;
        if !awaits_signal(&history, &name) {
            return Ok(false);
        }
        self.raise_event(instance, name, data).await?;
        Ok(true)
    }

    /// Raises a positional signal with a typed payload.
    ///
    /// # Errors
    ///
    /// As [`raise_event`](Self::raise_event), or when the payload does not serialise.
    pub async fn raise_event_typed<T: Serialize>(
        &self,
        instance: impl Into<String>,
        event_name: impl Into<String>,
        data: &T,
    ) -> Result<(), ClientError> {
        self.raise_event(instance, event_name, encode(data)?).await
    }

    /// Puts a message into a queue of an orchestration, where it waits until it is taken.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a payload that is too large and for a queue of the engine, else what the store says.
    pub async fn enqueue_event(
        &self,
        instance: impl Into<String>,
        queue: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<(), ClientError> {
        let (instance, name, data) = (instance.into(), queue.into(), data.into());
        self.check_event(&instance, ("queue name", &name), &data)?;
        if is_engine_queue(&name) {
            let why = format!("the queue '{name}' is the engine's own");
            return Err(ClientError::invalid(why));
        }
        let message = WorkItem::QueueMessage {
            instance,
            name,
            data: plain_message(data),
        };
        self.enqueue(message, None).await
    }

    /// Puts a typed message into a queue of an orchestration.
    ///
    /// # Errors
    ///
    /// As [`enqueue_event`](Self::enqueue_event), or when the payload does not serialise.
    pub async fn enqueue_event_typed<T: Serialize>(
        &self,
        instance: impl Into<String>,
        queue: impl Into<String>,
        data: &T,
    ) -> Result<(), ClientError> {
        self.enqueue_event(instance, queue, encode(data)?).await
    }

    /// The older name of [`enqueue_event`](Self::enqueue_event).
    ///
    /// # Errors
    ///
    /// As [`enqueue_event`](Self::enqueue_event).
    #[deprecated(note = "use enqueue_event")]
    pub async fn raise_event_persistent(
        &self,
        instance: impl Into<String>,
        event_name: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<(), ClientError> {
        self.enqueue_event(instance, event_name, data).await
    }

    /// Asks an orchestration to end. Its open activities and children are cancelled with it. Code that watches for the
    /// request ([`cancellation_requested`](duroxide_core::OrchestrationContext::cancellation_requested)) puts things
    /// right first. Asking again changes nothing.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a reason that is too large or begins with the reserved [`TERMINATE_PREFIX`], else what the
    /// store says.
    pub async fn cancel_instance(
        &self,
        instance: impl Into<String>,
        reason: impl Into<String>,
    ) -> Result<(), ClientError> {
        let reason = reason.into();
        if termination_reason(&reason).is_some() {
            return Err(ClientError::invalid(format!(
                "cancel reason must not begin with the reserved '{TERMINATE_PREFIX}'; to end an instance at once, use terminate_instance"
            )));
        }
        self.send_cancel(instance.into(), reason).await
    }

    /// Ends an orchestration at once, as cancelled with this reason. Its code is not asked, even if it watches for
    /// requests to cancel; its open activities are cancelled, its children terminated.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a reason that is too large, else what the store says.
    ///
    /// ```
    /// # async fn example(client: duroxide::Client) -> Result<(), duroxide::ClientError> {
    /// client.cancel_instance("order-7", "the customer left").await?;
    /// // It takes too long to put things right.
    /// client.terminate_instance("order-7", "gave up waiting").await
    /// # }
    /// ```
    pub async fn terminate_instance(
        &self,
        instance: impl Into<String>,
        reason: impl Into<String>,
    ) -> Result<(), ClientError> {
        let reason = format!("{TERMINATE_PREFIX}{}", reason.into());
        self.send_cancel(instance.into(), reason).await
    }

    /// Refuses an event before it is stored.
    fn check_event(
        &self,
        instance: &str,
        (what, name): (&str, &str),
        data: &str,
    ) -> Result<(), ClientError> {
        self.check_payload("instance id", instance)?;
        self.check_payload(what, name)?;
        self.check_payload("event data", data)
    }

    async fn send_cancel(&self, instance: String, reason: String) -> Result<(), ClientError> {
        self.check_payload("instance id", &instance)?;
        self.check_payload("cancel reason", &reason)?;
        let item = WorkItem::CancelInstance {
            instance: instance.clone(),
            reason: reason.clone(),
        };
        self.enqueue(item, None).await?;
        let change = match termination_reason(&reason) {
            Some(reason) => Change::of("terminate", &instance).with_detail(reason),
            None => Change::of("cancel", &instance).with_detail(&reason),
        };
        self.audit(change);
        Ok(())
    }
}
