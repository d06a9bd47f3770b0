//! Starting orchestrations by their definition. In: a definition, its input, and what a start can have beside it. Out:
//! once the value is awaited, one submission for the store, and a [`Handle`](super::Handle) to the instance.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use duroxide_core::provider::{IdState, StartRule, Submission, Submitted};
use duroxide_core::{
    Arguments, Labels, Orchestration, StartExtras, ToOrchestration, TraceContext, Undelivered,
    WorkItem, check_queue_name, keyed_message, plain_message, unfit_key,
};
use serde::Serialize;

use super::audit::Change;
use super::start::{NewStart, asked_once};
use super::{Client, ClientError, Handle};

impl Client {
    /// Starts an orchestration by its definition, once the returned value is awaited. `Ok` means that the start is
    /// stored. A start for an id that exists is ignored: the handle is that of the instance which has the id.
    ///
    /// ```
    /// # async fn example(client: duroxide::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use duroxide::OrchestrationRef;
    ///
    /// const INVOICE: OrchestrationRef<u64, String> = OrchestrationRef::new("invoice");
    ///
    /// let invoice = client.start(INVOICE, 7).id("invoice-7").await?;
    /// println!("{}", invoice.result().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn start<Via, T: ToOrchestration<Via>>(
        &self,
        orchestration: T,
        input: impl Arguments<<T::Orchestration as Orchestration>::Input>,
    ) -> Start<T::Orchestration> {
        let orchestration = orchestration.to_orchestration();
        Start {
            client: self.clone(),
            input: input.encode(),
            id: None,
            version: orchestration.version().map(str::to_owned),
            delay: None,
            if_exists: IfExists::default(),
            messages: Vec::new(),
            labels: Labels::new(),
            extras: Ok(StartExtras::default()),
            orchestration,
        }
    }

    /// The handle of an instance that was started elsewhere. Nothing is asked of the store.
    pub fn handle<Via, T: ToOrchestration<Via>>(
        &self,
        orchestration: T,
        id: impl Into<String>,
    ) -> Handle<T::Orchestration> {
        Handle::new(self.clone(), orchestration.to_orchestration(), id.into())
    }
}

impl Client {
    /// Stores a start with its messages, as the caller chose.
    async fn submit_start(
        &self,
        mut start: NewStart,
        delay: Option<Duration>,
        choice: IfExists,
        messages: Vec<WorkItem>,
    ) -> Result<(), ClientError> {
        if choice == IfExists::Use && messages.is_empty() {
            // The first turn ignores a start of an instance that exists.
            return self.enqueue_start(start, delay).await;
        }
        let id = start.instance.clone();
        let has_messages = !messages.is_empty();
        start.extras = asked_once(start.extras);
        let submission = Submission::start(self.start_item(start)?, delay, choice.rule(), messages);
        match self.submit(submission).await? {
            Submitted::Started | Submitted::Joined(_) => Ok(()),
            Submitted::Replaced => {
                tracing::info!(target: "duroxide::runtime", instance_id = %id, "replaced a finished instance");
                self.audit(Change::of("replace", &id));
                Ok(())
            }
            Submitted::Refused(IdState::Ended) if choice == IfExists::Use && has_messages => {
                let ended = Undelivered::Ended { instance: id };
                Err(ClientError::invalid(ended.to_string()))
            }
            Submitted::Refused(_) if choice == IfExists::Use => Ok(()),
            Submitted::Refused(found) => Err(ClientError::invalid(refusal(&id, found))),
            other => Err(ClientError::invalid(format!(
                "the store answered {other:?}"
            ))),
        }
    }
}

impl IfExists {
    fn rule(self) -> StartRule {
        match self {
            Self::Use => StartRule::UseWhatIsThere,
            Self::Fail => StartRule::MustBeNew,
            Self::ReplaceFinished => StartRule::ReplaceFinished,
        }
    }
}

fn refusal(id: &str, found: IdState) -> String {
    let state = match found {
        IdState::Ended => "has ended",
        IdState::Starting => "is about to start",
        IdState::Unfinished => {
            "has ended, and cannot be replaced while its parent is there or something that it started runs"
        }
        _ => "runs",
    };
    format!("instance {id} exists and {state}")
}

/// A start that is stored when it is awaited.
#[must_use = "nothing is started before it is awaited"]
pub struct Start<O> {
    client: Client,
    orchestration: O,
    input: Result<String, String>,
    id: Option<String>,
    version: Option<String>,
    delay: Option<Duration>,
    if_exists: IfExists,
    messages: Vec<Result<(String, String), ClientError>>,
    labels: Labels,
    extras: Result<StartExtras, String>,
}

/// What a start does if the store knows its id already: an instance, or a start that no node has taken up, delayed or
/// not.
///
/// The store looks and writes in one step: of many starts of one id at the same moment that must be the first, one is
/// accepted and the others are refused. A store of another kind that has only the published methods looks first and
/// writes later; see [`Provider::submits_in_one_step`](duroxide_core::provider::Provider::submits_in_one_step).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum IfExists {
    /// Nothing is started; the handle leads to what has the id.
    #[default]
    Use,
    /// The start is refused with `InvalidInput`. If the store does not answer, the start may have been stored all the
    /// same; one that is repeated with the same [`request_id`](Start::request_id) is not refused because of that.
    Fail,
    /// An instance that has ended is deleted with its children and the start is stored, both or neither. While the
    /// instance or one of its children runs, the start is refused with `InvalidInput`. The new instance counts its
    /// executions and calls from the beginning: its activities have the idempotency keys that those of the deleted one
    /// had.
    ReplaceFinished,
}

impl<O: Orchestration> Start<O> {
    /// The instance's id. Without one it gets a random id.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// A key that is the same in every repetition of this start: without an id of its own the instance gets one that
    /// follows from the orchestration's name and the key, so a repeated start finds the instance of the first.
    pub fn dedup_key(mut self, key: impl fmt::Display) -> Self {
        let id = format!("{}:{key}", self.orchestration.name());
        self.id.get_or_insert(id);
        self
    }

    /// Exactly this version, whatever the definition says.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// The version that the policy of the registry chooses, whatever the definition says.
    pub fn any_version(mut self) -> Self {
        self.version = None;
        self
    }

    /// The id of the request that asks for this start, which a caller that repeats it gives again: letters and digits
    /// of ASCII, `-` and `_`. A store that has the id of the instance because of the same request, queued, running or
    /// ended, stores nothing and answers as the first time, whatever [`if_exists`](Self::if_exists) says. Without one
    /// each start is a request of its own.
    ///
    /// ```
    /// # async fn example(client: duroxide::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::OrchestrationRef;
    /// # const INVOICE: OrchestrationRef<u64, String> = OrchestrationRef::new("invoice");
    /// use duroxide::IfExists;
    ///
    /// // A web server that got the same click twice starts the invoice once, and succeeds twice.
    /// let start = || client.start(INVOICE, 7).id("invoice-7").if_exists(IfExists::Fail).request_id("click-1");
    /// start().await?;
    /// start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_id(self, id: impl Into<String>) -> Self {
        self.extend(|extras| extras.with_request(id))
    }

    /// Gives the instance a label, by which queries find it. Awaiting the start refuses one that is not fit, or one too
    /// many.
    ///
    /// ```
    /// # async fn example(client: duroxide::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::OrchestrationRef;
    /// # const INVOICE: OrchestrationRef<u64, String> = OrchestrationRef::new("invoice");
    /// let invoice = client.start(INVOICE, 7).label("customer", "acme").label("region", "eu").await?;
    /// # drop(invoice);
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Gives the instance a memo: a small value that lists show and its code reads (`ctx.memo()`), and that decides
    /// nothing by itself. Awaiting the start refuses one that does not serialise, or is longer than
    /// [`MEMO_BYTES_MAX`](duroxide_core::MEMO_BYTES_MAX) as JSON.
    ///
    /// ```
    /// # async fn example(client: duroxide::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::OrchestrationRef;
    /// # use std::time::Duration;
    /// # const INVOICE: OrchestrationRef<u64, String> = OrchestrationRef::new("invoice");
    /// let day = Duration::from_secs(86_400);
    /// let invoice = client.start(INVOICE, 7).memo(&("asked by", "Ada")).timeout(day).await?;
    /// # drop(invoice);
    /// # Ok(())
    /// # }
    /// ```
    pub fn memo<T: Serialize + ?Sized>(self, memo: &T) -> Self {
        self.extend(|extras| extras.with_memo(memo))
    }

    /// How long the instance may take, all its executions together, from its first turn on. After that it fails with
    /// [`OrchestrationError::TimedOut`](duroxide_core::OrchestrationError::TimedOut), whatever its code does; its
    /// activities and children are cancelled. Without it an instance may take for ever.
    pub fn timeout(self, limit: Duration) -> Self {
        self.extend(|extras| extras.with_timeout(limit))
    }

    /// The trace that this start is part of: what the instance does belongs to it.
    ///
    /// ```
    /// # async fn example(client: duroxide::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::OrchestrationRef;
    /// # const INVOICE: OrchestrationRef<u64, String> = OrchestrationRef::new("invoice");
    /// use duroxide::TraceContext;
    ///
    /// // As a web server gets it with a request.
    /// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let invoice = client.start(INVOICE, 7).trace_context(TraceContext::parse(header, None)?).await?;
    /// # drop(invoice);
    /// # Ok(())
    /// # }
    /// ```
    pub fn trace_context(self, trace: TraceContext) -> Self {
        self.extend(|extras| Ok(extras.with_trace(trace)))
    }

    /// Only the first mistake is reported.
    fn extend(mut self, change: impl FnOnce(StartExtras) -> Result<StartExtras, String>) -> Self {
        self.extras = self.extras.and_then(change);
        self
    }

    /// Begins after this long.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// What to do if the id exists.
    pub fn if_exists(mut self, choice: IfExists) -> Self {
        self.if_exists = choice;
        self
    }

    /// Puts a message on a queue of the instance, in front of those that come later. An instance that has the id and
    /// runs gets the message too, unless [`if_exists`](Self::if_exists) refuses the start; if it has ended, the start
    /// is refused. The start and its messages are stored together or not at all.
    pub fn message<T: Serialize + ?Sized>(self, queue: impl Into<String>, message: &T) -> Self {
        let text = self.client.encoded(message, "message");
        self.with_message(queue.into(), text.map(plain_message))
    }

    /// As [`message`](Self::message), with a key that makes a repeated start send it once; see
    /// [`dedup_key`](super::Sending::dedup_key).
    pub fn keyed_message<T: Serialize + ?Sized>(
        self,
        queue: impl Into<String>,
        key: &str,
        message: &T,
    ) -> Self {
        let text = self.client.encoded(message, "message");
        let data = match unfit_key(key) {
            Some(why) => Err(ClientError::invalid(why)),
            None => text.map(|text| keyed_message(key, &text)),
        };
        self.with_message(queue.into(), data)
    }

    fn with_message(mut self, queue: String, data: Result<String, ClientError>) -> Self {
        let checked = check_queue_name(&queue).map_err(ClientError::invalid);
        let message = checked.and(data).map(|data| (queue, data));
        self.messages.push(message);
        self
    }

    async fn send(self) -> Result<Handle<O>, ClientError> {
        let input = self
            .input
            .map_err(|e| ClientError::invalid(format!("encode: {e}")))?;
        let id = self.id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let messages: Vec<_> = self.messages.into_iter().collect::<Result<_, _>>()?;
        let start = NewStart {
            instance: id.clone(),
            orchestration: self.orchestration.name().to_owned(),
            version: self.version,
            input,
            labels: self.labels,
            extras: self.extras.map_err(ClientError::invalid)?,
        };
        let messages = messages.into_iter().map(|(name, data)| {
            let instance = id.clone();
            WorkItem::QueueMessage {
                instance,
                name,
                data,
            }
        });
        let client = &self.client;
        client
            .submit_start(start, self.delay, self.if_exists, messages.collect())
            .await?;
        Ok(Handle::new(self.client, self.orchestration, id))
    }
}

impl<O: Orchestration> IntoFuture for Start<O> {
    type Output = Result<Handle<O>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl<O> fmt::Debug for Start<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Start")
            .field("id", &self.id)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
