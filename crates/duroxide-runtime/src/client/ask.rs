//! Requests that an instance answers, and what it publishes. In: a request under an id. Out: its one reply, also to a
//! client that asks again after its own restart.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use duroxide_core::{
    AskMessage, KeptReply, Payload, ReplyCount, Undelivered, codec, keyed_message, reply_count_key,
    reply_key, request_queue, unfit_key, view_key,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{Client, ClientError, SendError};
use crate::OrchestrationStatus;
use crate::undelivered::undelivered;

/// Longest pause between two looks at a store that cannot wake.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// How long a client waits before it sends a request again.
const SENT_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Why a client has no reply.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The orchestration refused the request.
    #[error("the request was refused: {reason}")]
    Refused {
        /// The reason that it gave.
        reason: String,
    },
    /// The instance has ended, and this request has no reply.
    #[error("the instance has ended without a reply")]
    Ended,
    /// There is no such instance, or the request cannot be sent.
    #[error(transparent)]
    Undelivered(Undelivered),
    /// The reply is not of the type that the client asked for.
    #[error("the reply does not decode: {error}")]
    Undecodable {
        /// What the decoder said.
        error: String,
    },
    /// The instance gave so many replies since this client last looked that it forgot some; the one to this request may
    /// be among them. Its history has the reply, if it was given.
    #[error("the reply may be forgotten: the instance has given more than it keeps")]
    Forgotten,
    /// The call failed or took too long; the request may be under way. Ask again under the same id.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl AskError {
    /// A stable code; docs/errors.md says what each means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "D0160",
            Self::Ended => "D0161",
            Self::Undelivered(error) => error.code(),
            Self::Undecodable { .. } => "D0162",
            Self::Forgotten => "D0163",
            Self::Client(error) => error.code(),
        }
    }
}

impl Client {
    /// Asks a running orchestration something and waits for its reply. The orchestration takes requests with
    /// [`requests`](duroxide_core::OrchestrationContext::requests), in order, and answers each once.
    ///
    /// ```
    /// # async fn example(client: duroxide::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use duroxide::prelude::*;
    ///
    /// let left: u64 = client.ask("account-7", "withdraw", &20_u64).id("atm 3, no. 4711").await?;
    /// // After a restart of this program: the same id gives the same reply and withdraws nothing.
    /// let same: u64 = client.ask("account-7", "withdraw", &20_u64).id("atm 3, no. 4711").await?;
    /// assert_eq!(left, same);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ask<Req: Serialize + ?Sized, Reply: Payload>(
        &self,
        instance: impl Into<String>,
        name: impl Into<String>,
        request: &Req,
    ) -> Ask<Reply> {
        Ask {
            client: self.clone(),
            instance: instance.into(),
            name: name.into(),
            request: self.encoded(request, "request"),
            id: None,
            limit: Duration::MAX,
            types: PhantomData,
        }
    }

    /// What an instance published last with [`publish`](duroxide_core::OrchestrationContext::publish); `None` if it
    /// published nothing, or there is no such instance.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the view is not of this type, else what the store says.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), duroxide::ClientError> {
    /// use duroxide::Client;
    /// use duroxide::providers::memory::MemoryProvider;
    /// use std::sync::Arc;
    ///
    /// let client = Client::new(Arc::new(MemoryProvider::new()));
    /// assert_eq!(client.view::<u64>("tour-7").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn view<T: DeserializeOwned>(
        &self,
        instance: &str,
    ) -> Result<Option<T>, ClientError> {
        let Some(text) = self.get_kv_value(instance, view_key()).await? else {
            return Ok(None);
        };
        codec::decode(&text)
            .map(Some)
            .map_err(|error| ClientError::invalid(format!("the view does not decode: {error}")))
    }
}

/// A request that is sent when it is awaited; see [`Client::ask`].
#[must_use = "nothing is asked before it is awaited"]
pub struct Ask<Reply> {
    client: Client,
    instance: String,
    name: String,
    request: Result<String, ClientError>,
    id: Option<String>,
    limit: Duration,
    types: PhantomData<fn() -> Reply>,
}

/// What a look at the store found.
enum Found {
    Reply(String),
    Ended,
    Forgotten,
    /// The instance was deleted.
    Gone(Undelivered),
}

impl<Reply: Payload> Ask<Reply> {
    /// The id of the request. Asked again under the same id, the orchestration sees it once and its reply is found
    /// again: the instance keeps the last [`REPLIES_MAX`](duroxide_core::REPLIES_MAX) replies. Without one the request
    /// gets a random id.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Waits for at most this long; then the error is [`ClientError::Timeout`].
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    async fn run(self) -> Result<Reply, AskError> {
        let ask = self.id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let (client, instance) = (&self.client, &self.instance);
        if let Some(why) = unfit_key(&ask) {
            return Err(ClientError::invalid(format!("id of a request: {why}")).into());
        }
        let key = reply_key(&self.name, &ask);
        let missed = Missed::default();
        let look = || client.find_reply(instance, &key, &missed);
        // A reply from before outlives the end of the instance.
        if let Some(Found::Reply(text)) = look().await? {
            return reply_of(&text);
        }
        let message = AskMessage {
            ask: ask.clone(),
            request: self.request?,
        };
        let message = client.encoded(&message, "request")?;
        let (queue, data) = (request_queue(&self.name), keyed_message(&ask, &message));
        let began = Instant::now();
        // Sent again from time to time: the key makes that harmless, and an instance that was deleted and started again
        // meanwhile has not seen the request.
        loop {
            let sent = client.submit_message(instance.clone(), queue.clone(), data.clone(), false);
            match sent.await {
                Ok(()) => {}
                Err(SendError::Undelivered(undelivered)) => {
                    // The reply may have come with the end, after the last look.
                    return match (look().await?, undelivered) {
                        (Some(Found::Reply(text)), _) => reply_of(&text),
                        (_, Undelivered::Ended { .. }) => Err(AskError::Ended),
                        (_, other) => Err(AskError::Undelivered(other)),
                    };
                }
                Err(SendError::Client(error)) => return Err(error.into()),
            }
            let left = self.limit.saturating_sub(began.elapsed());
            let wait = left.min(SENT_AGAIN_AFTER);
            match client.wait_until(instance, wait, LONGEST_PAUSE, look).await {
                Ok(Found::Reply(text)) => return reply_of(&text),
                Ok(Found::Ended) => return Err(AskError::Ended),
                Ok(Found::Forgotten) => return Err(AskError::Forgotten),
                Ok(Found::Gone(undelivered)) => return Err(AskError::Undelivered(undelivered)),
                Err(ClientError::Timeout) if wait < left => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Client {
    /// The reply under this key, or that none can come any more.
    async fn find_reply(
        &self,
        instance: &str,
        key: &str,
        missed: &Missed,
    ) -> Result<Option<Found>, ClientError> {
        // In this order: what is committed with the end is seen, and what is forgotten after this count is in the next.
        let count = self.get_kv_value(instance, reply_count_key()).await?;
        let status = self.get_orchestration_status(instance).await?;
        let reply = self.get_kv_value(instance, key).await?;
        let is_forgotten = missed.look(count.as_deref());
        Ok(match (reply, status) {
            (Some(text), _) => Some(Found::Reply(text)),
            (None, OrchestrationStatus::NotFound) => undelivered(self.store.as_ref(), instance)
                .await?
                .map(Found::Gone),
            (None, status) if status.is_terminal() => Some(Found::Ended),
            (None, _) => is_forgotten.then_some(Found::Forgotten),
        })
    }
}

/// What the last two looks of a client saw of the number of replies.
///
/// A reply that one look did not find and that was gone before the next look was given after the first of them; its
/// number is higher than the count that was read before that look, and not higher than what is forgotten by the look
/// after both.
#[derive(Debug, Default)]
struct Missed(Mutex<[Option<ReplyCount>; 2]>);

impl Missed {
    /// Whether a reply may have come and gone between looks. A count that goes back is that of another life.
    fn look(&self, count: Option<&str>) -> bool {
        let count = count.and_then(|text| serde_json::from_str::<ReplyCount>(text).ok());
        let count = count.unwrap_or_default();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let [before, last] = *seen;
        if last.is_some_and(|last| count.given < last.given) {
            *seen = [None, Some(count)];
            return false;
        }
        *seen = [last, Some(count)];
        before.is_some_and(|before| count.forgotten > before.given)
    }
}

fn reply_of<Reply: Payload>(text: &str) -> Result<Reply, AskError> {
    let undecodable = |error: String| AskError::Undecodable { error };
    let kept: KeptReply = serde_json::from_str(text).map_err(|e| undecodable(e.to_string()))?;
    match kept.reply {
        Ok(reply) => codec::decode(&reply).map_err(undecodable),
        Err(reason) => Err(AskError::Refused { reason }),
    }
}

impl<Reply: Payload> IntoFuture for Ask<Reply> {
    type Output = Result<Reply, AskError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<Reply> fmt::Debug for Ask<Reply> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("instance", &self.instance)
            .field("name", &self.name)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_hears_of_forgotten_replies_only_if_it_did_not_look_meanwhile() {
        let look = |missed: &Missed, given: u64, forgotten: u64| {
            let count = ReplyCount { given, forgotten };
            missed.look(Some(&serde_json::to_string(&count).unwrap()))
        };
        let attentive = Missed::default();
        assert!(!attentive.look(None));
        for given in (100..10_000).step_by(100) {
            let forgotten = u64::saturating_sub(given, 1_000);
            assert!(!look(&attentive, given, forgotten), "{given}");
        }
        let late = Missed::default();
        assert!(!late.look(None));
        assert!(!look(&late, 1_500, 500), "the next look is the judge");
        assert!(look(&late, 1_600, 600), "reply 300 came and went unseen");
        let of_another_life = Missed::default();
        assert!(!look(&of_another_life, 5_000, 4_000));
        assert!(!look(&of_another_life, 200, 0));
        assert!(!look(&of_another_life, 300, 0));
    }
}
