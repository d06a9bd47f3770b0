//! Messages to an instance, with an answer to the sender. In: a queue, a payload, and a key that makes a repeated send
//! harmless. Out: one submission for the store, or why the instance does not take the message.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;

use duroxide_core::provider::{IdState, MessageRule, ProviderError, Submission, Submitted};
use duroxide_core::{
    Undelivered, WorkItem, check_queue_name, keyed_message, plain_message, unfit_key,
};
use serde::Serialize;

use super::{Client, ClientError};

/// Why a message was not sent.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The instance does not take it.
    #[error(transparent)]
    Undelivered(#[from] Undelivered),
    /// The call itself failed; the message may have been stored. Send it again with the same key.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl SendError {
    /// A stable code; docs/errors.md says what each means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Undelivered(error) => error.code(),
            Self::Client(error) => error.code(),
        }
    }
}

impl From<ProviderError> for SendError {
    fn from(error: ProviderError) -> Self {
        Self::Client(error.into())
    }
}

impl Client {
    /// Puts a message on a queue of an instance, once the returned value is awaited; the orchestration takes it with
    /// [`receive`](duroxide_core::OrchestrationContext::receive). `Ok` means that the store has the message, and that
    /// the instance runs or its start is stored.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use duroxide::prelude::*;
    /// use duroxide::providers::memory::MemoryProvider;
    /// use std::sync::Arc;
    ///
    /// let client = Client::new(Arc::new(MemoryProvider::new()));
    /// let lost = client.send("order-7", "payments", &2500_u64).await;
    /// assert!(matches!(lost, Err(SendError::Undelivered(Undelivered::NotFound { .. }))));
    ///
    /// client.start_orchestration("order-7", "order", "{}").await?;
    /// // Taken once, however often a sender that is not sure repeats it.
    /// client.send("order-7", "payments", &2500_u64).dedup_key("bank transfer 4711").await?;
    /// client.send("order-7", "payments", &2500_u64).dedup_key("bank transfer 4711").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn send<T: Serialize + ?Sized>(
        &self,
        instance: impl Into<String>,
        queue: impl Into<String>,
        message: &T,
    ) -> Sending {
        Sending {
            client: self.clone(),
            instance: instance.into(),
            queue: queue.into(),
            message: self.encoded(message, "message"),
            key: None,
            early: false,
        }
    }
}

/// A message that is sent when it is awaited; see [`Client::send`].
#[must_use = "nothing is sent before it is awaited"]
pub struct Sending {
    client: Client,
    instance: String,
    queue: String,
    message: Result<String, ClientError>,
    key: Option<String>,
    early: bool,
}

impl Sending {
    /// A key that is the same in every repetition of this send. The instance takes a message with a key that it has
    /// seen on the same queue as sent before and ignores it, also across crashes and continue-as-new. It remembers the
    /// last [`MESSAGE_KEYS_MAX`](duroxide_core::MESSAGE_KEYS_MAX) keys, each of at most
    /// [`MESSAGE_KEY_BYTES_MAX`](duroxide_core::MESSAGE_KEY_BYTES_MAX) bytes.
    pub fn dedup_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sends also if the store knows no instance of this id and no start for one. The message waits for the start for
    /// as long as the store's grace period for unknown instances lasts, one minute unless set otherwise; then it
    /// becomes a dead letter.
    pub fn early(mut self) -> Self {
        self.early = true;
        self
    }

    async fn send(self) -> Result<(), SendError> {
        let message = self.message?;
        check_queue_name(&self.queue).map_err(|why| Undelivered::Refused { why })?;
        let data = match &self.key {
            Some(key) => match unfit_key(key) {
                Some(why) => return Err(Undelivered::Refused { why }.into()),
                None => keyed_message(key, &message),
            },
            None => plain_message(message),
        };
        self.client
            .submit_message(self.instance, self.queue, data, self.early)
            .await
    }
}

impl Client {
    /// Stores a message for an instance that can take it.
    pub(super) async fn submit_message(
        &self,
        instance: String,
        name: String,
        data: String,
        early: bool,
    ) -> Result<(), SendError> {
        self.check_payload("instance id", &instance)?;
        self.check_payload("queue name", &name)?;
        let rule = if early {
            MessageRule::MustNotHaveEnded
        } else {
            MessageRule::MustBeAlive
        };
        let message = WorkItem::QueueMessage {
            instance: instance.clone(),
            name,
            data,
        };
        let submission = Submission::messages(instance.clone(), rule, vec![message]);
        match self.store.submit(submission).await? {
            Submitted::Refused(IdState::Unknown) => Err(Undelivered::NotFound { instance }.into()),
            Submitted::Refused(_) => Err(Undelivered::Ended { instance }.into()),
            _ => Ok(()),
        }
    }
}

impl IntoFuture for Sending {
    type Output = Result<(), SendError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending")
            .field("instance", &self.instance)
            .field("queue", &self.queue)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
