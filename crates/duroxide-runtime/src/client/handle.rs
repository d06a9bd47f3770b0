//! One instance by its definition: its typed result, and what can be done to it.

use std::error::Error;
use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use duroxide_core::{Orchestration, OrchestrationError, Payload, Undecodable, codec};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Ask, Changes, Client, ClientError, Sending};
use crate::status::OrchestrationStatus;

/// An instance of an orchestration. Awaiting the handle waits for the result.
#[derive(Clone)]
pub struct Handle<O> {
    client: Client,
    orchestration: O,
    id: String,
}

/// Why a client has no result of an orchestration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ResultError<E> {
    /// The orchestration ended without a value.
    Orchestration(OrchestrationError<E>),
    /// The client could not read the result; the orchestration may still run or have succeeded.
    Client(ClientError),
}

impl<E> ResultError<E> {
    /// A stable code; docs/errors.md says what each means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Orchestration(error) => error.code(),
            Self::Client(error) => error.code(),
        }
    }

    /// The orchestration's own error, if that is what it is.
    #[must_use]
    pub fn failed(&self) -> Option<&E> {
        match self {
            Self::Orchestration(error) => error.failed(),
            Self::Client(_) => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for ResultError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Orchestration(error) => error.fmt(f),
            Self::Client(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for ResultError<E> {}

impl<E> From<ClientError> for ResultError<E> {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl<O: Orchestration> Handle<O> {
    pub(super) fn new(client: Client, orchestration: O, id: String) -> Self {
        Self {
            client,
            orchestration,
            id,
        }
    }

    /// The instance's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for the end, however long it takes.
    ///
    /// # Errors
    ///
    /// How the orchestration ended without a value, or permanent errors of the store.
    pub async fn result(&self) -> Result<O::Output, ResultError<O::Error>> {
        self.result_within(Duration::MAX).await
    }

    /// Waits for the end, for at most this long.
    ///
    /// # Errors
    ///
    /// As [`result`](Self::result), and [`ClientError::Timeout`] at the deadline.
    pub async fn result_within(&self, limit: Duration) -> Result<O::Output, ResultError<O::Error>> {
        let status = self.client.wait_for_orchestration(&self.id, limit).await?;
        result_of(status)
    }

    /// Where the instance stands now.
    ///
    /// # Errors
    ///
    /// What the store says.
    pub async fn status(&self) -> Result<OrchestrationStatus, ClientError> {
        self.client.get_orchestration_status(&self.id).await
    }

    /// Puts a message on one of the instance's queues; the orchestration takes it with
    /// [`receive`](duroxide_core::OrchestrationContext::receive).
    ///
    /// # Errors
    ///
    /// When it is awaited: as [`Client::send`].
    pub fn send<T: Serialize + ?Sized>(&self, queue: &str, message: &T) -> Sending {
        self.client.send(&self.id, queue, message)
    }

    /// Asks the orchestration something and waits for its reply, once the returned value is awaited; see
    /// [`Client::ask`].
    pub fn ask<Req: Serialize + ?Sized, Reply: Payload>(
        &self,
        name: &str,
        request: &Req,
    ) -> Ask<Reply> {
        self.client.ask(&self.id, name, request)
    }

    /// What the instance published last; see [`Client::view`].
    ///
    /// # Errors
    ///
    /// As [`Client::view`].
    pub async fn view<T: Payload>(&self) -> Result<Option<T>, ClientError> {
        self.client.view(&self.id).await
    }

    /// Follows what the instance publishes, until it ends; see [`Client::changes`].
    pub fn changes<T: Payload>(&self) -> Changes<T> {
        self.client.changes(&self.id)
    }

    /// The memo that the instance was started with; see [`Client::memo`].
    ///
    /// # Errors
    ///
    /// As [`Client::memo`].
    pub async fn memo<T: DeserializeOwned>(&self) -> Result<Option<T>, ClientError> {
        self.client.memo(&self.id).await
    }

    /// Asks the orchestration to end; see [`Client::cancel_instance`].
    ///
    /// # Errors
    ///
    /// What the store says.
    pub async fn cancel(&self, reason: impl Into<String>) -> Result<(), ClientError> {
        self.client.cancel_instance(&self.id, reason).await
    }

    /// Ends the orchestration at once; see [`Client::terminate_instance`].
    ///
    /// # Errors
    ///
    /// What the store says.
    pub async fn terminate(&self, reason: impl Into<String>) -> Result<(), ClientError> {
        self.client.terminate_instance(&self.id, reason).await
    }
}

fn result_of<T: Payload, E: Payload>(status: OrchestrationStatus) -> Result<T, ResultError<E>> {
    match status {
        OrchestrationStatus::Completed { output: text, .. } => {
            codec::decode(&text).map_err(|error| {
                let undecodable = Undecodable { text, error };
                ResultError::Orchestration(OrchestrationError::Undecodable(undecodable))
            })
        }
        OrchestrationStatus::Failed { details, .. } => {
            Err(ResultError::Orchestration(OrchestrationError::of(details)))
        }
        OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. } => {
            Err(ClientError::Timeout.into())
        }
    }
}

impl<O: Orchestration> IntoFuture for Handle<O> {
    type Output = Result<O::Output, ResultError<O::Error>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.result().await })
    }
}

impl<O: Orchestration> fmt::Debug for Handle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("orchestration", &self.orchestration.name())
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
