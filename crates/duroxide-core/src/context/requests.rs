//! Requests that clients wait on, and what an instance publishes about itself. Both live in key-values under reserved keys, so
//! every store has them.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::OrchestrationContext;
use super::activities::encoded;
use crate::codec;
use crate::definition::Payload;

/// What keys begin with that are the engine's own.
pub(super) const RESERVED_KEY_PREFIX: &str = "duroxide:";

const REPLY_PREFIX: &str = "duroxide:reply:";
const VIEW_KEY: &str = "duroxide:view";

/// How many replies an instance keeps for clients that have not fetched them, the latest ones.
pub const REPLIES_MAX: usize = 32;

/// The queue that requests of this name travel on.
#[doc(hidden)]
#[must_use]
pub fn request_queue(name: &str) -> String {
    format!("duroxide:ask:{name}")
}

/// The key that a reply is kept under.
#[doc(hidden)]
#[must_use]
pub fn reply_key(ask: &str) -> String {
    format!("{REPLY_PREFIX}{ask}")
}

/// The key that a view is kept under.
#[doc(hidden)]
#[must_use]
pub fn view_key() -> &'static str {
    VIEW_KEY
}

/// Whether the engine keeps something of its own under a key.
#[doc(hidden)]
#[must_use]
pub fn is_reserved_key(key: &str) -> bool {
    key.starts_with(RESERVED_KEY_PREFIX)
}

/// A request as it travels.
#[derive(Debug, Serialize, Deserialize)]
#[doc(hidden)]
pub struct AskLetter {
    /// The id that the client gave it.
    pub ask: String,
    /// The request.
    pub request: String,
}

/// A reply as it is kept.
#[derive(Debug, Serialize, Deserialize)]
#[doc(hidden)]
pub struct KeptReply {
    /// Its number, counted over the life of the instance.
    pub number: u64,
    /// The reply, or why the request was refused.
    pub reply: Result<String, String>,
}

/// Requests of one name, in the order in which they came; see [`OrchestrationContext::requests`].
#[derive(Debug)]
pub struct Requests<Req, Reply> {
    ctx: OrchestrationContext,
    name: String,
    types: PhantomData<fn() -> (Req, Reply)>,
}

/// A request that a client waits on. Answer it with [`OrchestrationContext::reply`] or [`OrchestrationContext::refuse`]. It
/// serialises: one that is not answered before a continue-as-new can go into the next execution's input.
#[derive(Debug, Serialize, Deserialize)]
#[must_use = "a client waits for the reply"]
pub struct Request<Req, Reply> {
    ask: String,
    value: Req,
    #[serde(skip)]
    types: PhantomData<fn() -> Reply>,
}

impl<Req, Reply> Request<Req, Reply> {
    /// What is asked.
    #[must_use]
    pub fn value(&self) -> &Req {
        &self.value
    }

    /// The id of the request; a client that asks again under the same id gets the same reply.
    #[must_use]
    pub fn ask_id(&self) -> &str {
        &self.ask
    }
}

impl<Req: Payload, Reply: Payload> Requests<Req, Reply> {
    /// Waits for the next request. One that does not decode is refused and passed over.
    pub async fn next(&mut self) -> Request<Req, Reply> {
        loop {
            let text = self.ctx.dequeue_event(request_queue(&self.name)).await;
            // Only clients of the engine write here; what is no letter names nobody who waits.
            let Ok(letter) = serde_json::from_str::<AskLetter>(&text) else {
                continue;
            };
            match codec::decode(&letter.request) {
                Ok(value) => {
                    return Request {
                        ask: letter.ask,
                        value,
                        types: PhantomData,
                    };
                }
                Err(error) => {
                    let why = format!("the request does not decode: {error}");
                    self.ctx.keep_reply(&letter.ask, Err(why));
                }
            }
        }
    }
}

impl OrchestrationContext {
    /// The requests of this name that clients wait on. They are taken in the order in which they came, also across
    /// continue-as-new; each gets one reply, also over crashes.
    ///
    /// ```
    /// use duroxide_core::OrchestrationContext;
    ///
    /// async fn account(ctx: OrchestrationContext, mut cents: u64) -> Result<u64, String> {
    ///     let mut withdrawals = ctx.requests::<u64, u64>("withdraw");
    ///     while cents > 0 {
    ///         let request = withdrawals.next().await;
    ///         match cents.checked_sub(*request.value()) {
    ///             Some(left) => {
    ///                 cents = left;
    ///                 ctx.reply(request, &left);
    ///             }
    ///             None => ctx.refuse(request, "not so much is left"),
    ///         }
    ///     }
    ///     Ok(cents)
    /// }
    /// ```
    #[must_use]
    pub fn requests<Req: Payload, Reply: Payload>(
        &self,
        name: impl Into<String>,
    ) -> Requests<Req, Reply> {
        Requests {
            ctx: self.clone(),
            name: name.into(),
            types: PhantomData,
        }
    }

    /// Answers a request. The reply is recorded with the turn; the client has it when the turn is committed. The last
    /// [`REPLIES_MAX`] replies are kept, each of at most 64 KiB.
    ///
    /// # Panics
    ///
    /// When the reply does not serialise, which fails the orchestration.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a request is answered once, so the answer takes it"
    )]
    #[track_caller]
    pub fn reply<Req, Reply: Payload>(&self, request: Request<Req, Reply>, reply: &Reply) {
        self.keep_reply(&request.ask, Ok(encoded(reply)));
    }

    /// Refuses a request; the client gets the reason.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a request is answered once, so the answer takes it"
    )]
    #[track_caller]
    pub fn refuse<Req, Reply>(&self, request: Request<Req, Reply>, reason: impl Into<String>) {
        self.keep_reply(&request.ask, Err(reason.into()));
    }

    /// Publishes what clients may see of this instance, in place of what was published before. They read it with
    /// `Client::view`, also after the end; it survives continue-as-new. At most 64 KiB.
    ///
    /// ```
    /// use duroxide_core::OrchestrationContext;
    ///
    /// async fn tour(ctx: OrchestrationContext, stops: Vec<String>) -> Result<u64, String> {
    ///     for (done, stop) in stops.iter().enumerate() {
    ///         ctx.publish(&(done, stop));
    ///         ctx.sleep(std::time::Duration::from_secs(3600)).await;
    ///     }
    ///     Ok(7)
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// When the view does not serialise, which fails the orchestration.
    #[track_caller]
    pub fn publish<T: Serialize + ?Sized>(&self, view: &T) {
        self.set_kv_value(VIEW_KEY, encoded(view));
    }

    /// What was published last.
    ///
    /// # Errors
    ///
    /// When it is not of this type.
    pub fn published<T: DeserializeOwned>(&self) -> Result<Option<T>, String> {
        let view = self.get_kv_value(VIEW_KEY);
        view.map(|text| codec::decode(&text)).transpose()
    }

    /// Keeps a reply, and forgets the oldest if there are too many. The first reply to a request is the one that counts.
    #[track_caller]
    fn keep_reply(&self, ask: &str, reply: Result<String, String>) {
        let mut kept = self.kept_replies();
        if kept.iter().any(|(_, key)| *key == reply_key(ask)) {
            return;
        }
        let number = kept.iter().map(|(number, _)| number + 1).max().unwrap_or(1);
        kept.sort();
        let too_many = (kept.len() + 1).saturating_sub(REPLIES_MAX);
        for (_, key) in kept.into_iter().take(too_many) {
            self.clear_kv_value(key);
        }
        self.set_kv_value(reply_key(ask), encoded(&KeptReply { number, reply }));
    }

    fn kept_replies(&self) -> Vec<(u64, String)> {
        let cell = self.shared.cell();
        let replies = cell
            .kv
            .iter()
            .filter(|(key, _)| key.starts_with(REPLY_PREFIX));
        let numbered = replies.map(|(key, entry)| {
            let reply = serde_json::from_str::<KeptReply>(&entry.value);
            (reply.map_or(0, |reply| reply.number), key.clone())
        });
        numbered.collect()
    }
}
