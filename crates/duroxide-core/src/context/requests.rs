//! Requests that clients wait on, and what an instance publishes about itself. Both live in key-values under reserved
//! keys, so every store has them.

use std::marker::PhantomData;
use std::time::{Duration, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::OrchestrationContext;
use super::activities::encoded;
use crate::codec;
use crate::definition::Payload;
use crate::limits::MAX_KV_VALUE_BYTES;

/// What keys begin with that are the engine's own.
pub(super) const RESERVED_KEY_PREFIX: &str = "duroxide:";

const REPLY_PREFIX: &str = "duroxide:reply:";
const VIEW_KEY: &str = "duroxide:view";
const REPLY_COUNT_KEY: &str = "duroxide:replies";

/// How many replies an instance keeps for clients that ask again, the latest ones. A younger reply than a minute is
/// kept beside them, so that a client that waits has it.
pub const REPLIES_MAX: usize = 32;

/// How long a reply is kept in any case, by the recorded time.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// How many replies are kept at most when young ones are forgotten, but for those of the running turn.
const YOUNG_REPLIES_MAX: usize = 1_000;

/// How many replies pass between two trims of replies younger than a minute. A client that looks at least once in
/// [`YOUNG_REPLIES_MAX`] replies less these misses none.
const SWEPT_EVERY: u64 = 100;

/// The queue that requests of this name travel on.
#[doc(hidden)]
#[must_use]
pub fn request_queue(name: &str) -> String {
    format!("duroxide:ask:{name}")
}

/// The key that the reply to a request of this name is kept under.
#[doc(hidden)]
#[must_use]
pub fn reply_key(name: &str, ask: &str) -> String {
    format!("{REPLY_PREFIX}{}:{name}:{ask}", name.len())
}

/// The key that a view is kept under.
#[doc(hidden)]
#[must_use]
pub fn view_key() -> &'static str {
    VIEW_KEY
}

/// The key that the number of replies is kept under.
#[doc(hidden)]
#[must_use]
pub fn reply_count_key() -> &'static str {
    REPLY_COUNT_KEY
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
pub struct AskMessage {
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
    /// Time at which it was given, by the recorded time.
    pub at_ms: u64,
    /// The reply, or why the request was refused.
    pub reply: Result<String, String>,
}

/// How many replies an instance has given, said from time to time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct ReplyCount {
    /// The number of the last reply; there may be later ones.
    pub given: u64,
    /// Replies up to this number are forgotten.
    pub forgotten: u64,
}

/// Requests of one name, in the order in which they came; see [`OrchestrationContext::requests`].
#[derive(Debug)]
pub struct Requests<Req, Reply> {
    ctx: OrchestrationContext,
    name: String,
    types: PhantomData<fn() -> (Req, Reply)>,
}

/// A request that a client waits on. Answer it with [`OrchestrationContext::reply`] or
/// [`OrchestrationContext::refuse`]. It serialises: one that is not answered before a continue-as-new can go into the
/// next execution's input.
#[derive(Debug, Serialize, Deserialize)]
#[must_use = "a client waits for the reply"]
pub struct Request<Req, Reply> {
    name: String,
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
            // Only clients of the engine write here; what does not decode names no client that waits.
            let Ok(message) = serde_json::from_str::<AskMessage>(&text) else {
                continue;
            };
            match codec::decode(&message.request) {
                Ok(value) => {
                    return Request {
                        name: self.name.clone(),
                        ask: message.ask,
                        value,
                        types: PhantomData,
                    };
                }
                Err(error) => {
                    let why = format!("the request does not decode: {error}");
                    self.ctx.keep_reply(&self.name, &message.ask, Err(why));
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
    /// [`REPLIES_MAX`] replies are kept, and of the last minute the last thousand; a client that did not look while so
    /// many were given gets the answer that it may have missed its own. A reply of more than 64 KiB becomes a refusal
    /// that says so.
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
        self.keep_reply(&request.name, &request.ask, Ok(encoded(reply)));
    }

    /// Refuses a request; the client gets the reason.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a request is answered once, so the answer takes it"
    )]
    #[track_caller]
    pub fn refuse<Req, Reply>(&self, request: Request<Req, Reply>, reason: impl Into<String>) {
        self.keep_reply(&request.name, &request.ask, Err(reason.into()));
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

    /// Keeps a reply, and forgets old ones if there are too many. The first reply to a request is the one that counts.
    #[track_caller]
    fn keep_reply(&self, name: &str, ask: &str, reply: Result<String, String>) {
        let (key, mut kept) = (reply_key(name, ask), self.kept_replies());
        if kept.iter().any(|one| one.key == key) {
            return;
        }
        let at_ms = self.now().duration_since(UNIX_EPOCH);
        let at_ms = at_ms.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
        kept.sort_by_key(|one| one.number);
        let number = kept.last().map_or(1, |one| one.number + 1);
        self.forget_replies(&kept, number, at_ms);
        let text = |reply| {
            let kept = KeptReply {
                number,
                at_ms,
                reply,
            };
            encoded(&kept)
        };
        let mut value = text(reply);
        if value.len() > MAX_KV_VALUE_BYTES {
            value = text(Err(format!(
                "the reply is larger than {MAX_KV_VALUE_BYTES} bytes"
            )));
        }
        self.set_kv_value(key, value);
    }

    /// Forgets old replies, and now and then young ones that are too many, before the reply of this number is kept.
    /// Those of this turn stay: no client has seen them yet.
    #[track_caller]
    fn forget_replies(&self, kept: &[Kept], number: u64, at_ms: u64) {
        let too_many = (kept.len() + 1).saturating_sub(REPLIES_MAX);
        let far_too_many = if number.is_multiple_of(SWEPT_EVERY) {
            (kept.len() + 1).saturating_sub(YOUNG_REPLIES_MAX)
        } else {
            0
        };
        let is_old = |one: &Kept| at_ms.saturating_sub(one.at_ms) > KEPT_FOR.as_millis() as u64;
        let earlier = kept.iter().take(too_many).enumerate();
        let gone = earlier
            .take_while(|(place, one)| (*place < far_too_many && one.at_ms < at_ms) || is_old(one))
            .count();
        for one in &kept[..gone] {
            self.clear_kv_value(&one.key);
        }
        // With every reply: a client compares it with what it read before.
        let count = ReplyCount {
            given: number,
            forgotten: kept
                .get(gone)
                .map_or(number, |first| first.number)
                .saturating_sub(1),
        };
        self.set_kv_value(REPLY_COUNT_KEY, encoded(&count));
    }

    fn kept_replies(&self) -> Vec<Kept> {
        let cell = self.shared.cell();
        let replies = cell
            .kv
            .iter()
            .filter(|(key, _)| key.starts_with(REPLY_PREFIX));
        let numbered = replies.map(|(key, entry)| {
            let reply = serde_json::from_str::<KeptReply>(&entry.value);
            let (number, at_ms) = reply.map_or((0, 0), |reply| (reply.number, reply.at_ms));
            Kept {
                number,
                at_ms,
                key: key.clone(),
            }
        });
        numbered.collect()
    }
}

/// A reply among those that are kept.
struct Kept {
    number: u64,
    at_ms: u64,
    key: String,
}
