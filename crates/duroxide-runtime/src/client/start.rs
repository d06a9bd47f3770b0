//! Starting orchestrations: the published calls, and what all starts pass through. In: a start as the program gives it.
//! Out: one message or submission for the store, or `InvalidInput` before anything is stored. Never reads a history.

use std::time::Duration;

use duroxide_core::provider::{StartRule, Submission, Submitted};
use duroxide_core::{
    INITIAL_EXECUTION_ID, Labels, SUB_ORCH_AUTO_PREFIX, StartExtras, WorkItem, check_instance_id,
    check_labels, labelled_input, uses_reserved_marker,
};
use serde::Serialize;

use super::payload::encode;
use super::{Client, ClientError};

/// How often the client gives a start under a rule to a store that does not answer.
const TRIES_MAX: u32 = 3;
/// The pause before the second try; each is longer than the one before by as much.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

impl Client {
    /// Starts an orchestration. `Ok` means the start is durably queued; a start for an id that exists is ignored.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an id or input that cannot be used, else what the store says.
    pub async fn start_orchestration(
        &self,
        instance: impl Into<String>,
        orchestration: impl Into<String>,
        input: impl Into<String>,
    ) -> Result<(), ClientError> {
        let start = NewStart::new(instance, orchestration, input);
        self.enqueue_start(start, None).await
    }

    /// Starts exactly this version.
    ///
    /// # Errors
    ///
    /// As [`start_orchestration`](Self::start_orchestration).
    pub async fn start_orchestration_versioned(
        &self,
        instance: impl Into<String>,
        orchestration: impl Into<String>,
        version: impl Into<String>,
        input: impl Into<String>,
    ) -> Result<(), ClientError> {
        let start = NewStart {
            version: Some(version.into()),
            ..NewStart::new(instance, orchestration, input)
        };
        self.enqueue_start(start, None).await
    }

    /// Starts an orchestration with typed input.
    ///
    /// # Errors
    ///
    /// As [`start_orchestration`](Self::start_orchestration), or when the input does not serialise.
    pub async fn start_orchestration_typed<In: Serialize>(
        &self,
        instance: impl Into<String>,
        orchestration: impl Into<String>,
        input: In,
    ) -> Result<(), ClientError> {
        let input = encode(&input)?;
        let start = NewStart::new(instance, orchestration, input);
        self.enqueue_start(start, None).await
    }

    /// Starts exactly this version with typed input.
    ///
    /// # Errors
    ///
    /// As [`start_orchestration_typed`](Self::start_orchestration_typed).
    pub async fn start_orchestration_versioned_typed<In: Serialize>(
        &self,
        instance: impl Into<String>,
        orchestration: impl Into<String>,
        version: impl Into<String>,
        input: In,
    ) -> Result<(), ClientError> {
        let input = encode(&input)?;
        let start = NewStart {
            version: Some(version.into()),
            ..NewStart::new(instance, orchestration, input)
        };
        self.enqueue_start(start, None).await
    }

    /// Starts an orchestration, of exactly this version if there is one, with labels by which queries find it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::{Client, Labels};
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// let labels = Labels::from([("customer".to_owned(), "acme".to_owned())]);
    /// client.start_orchestration_labelled("order-7", "order", None, "3 apples", labels).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`start_orchestration`](Self::start_orchestration), and `InvalidInput` for labels that are not fit or too
    /// many.
    pub async fn start_orchestration_labelled(
        &self,
        instance: impl Into<String>,
        orchestration: impl Into<String>,
        version: Option<String>,
        input: impl Into<String>,
        labels: Labels,
    ) -> Result<(), ClientError> {
        let start = NewStart {
            version,
            labels,
            ..NewStart::new(instance, orchestration, input)
        };
        self.enqueue_start(start, None).await
    }

    /// Starts an orchestration with whatever a start can have: a version, labels, a memo, a time limit, a trace.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::client::NewStart;
    /// use duroxide::{Client, StartExtras};
    /// use std::time::Duration;
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// let extras = StartExtras::default().with_timeout(Duration::from_secs(3600))?;
    /// let start = NewStart { extras, ..NewStart::new("order-7", "order", "3 apples") };
    /// client.start_orchestration_with(start).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`start_orchestration_labelled`](Self::start_orchestration_labelled).
    pub async fn start_orchestration_with(&self, start: NewStart) -> Result<(), ClientError> {
        self.enqueue_start(start, None).await
    }

    /// Starts an orchestration unless the store already knows the id, as an instance or as a start that is queued;
    /// returns whether it was unknown. Of callers at the same moment one gets `true`. If the answer of the store is
    /// lost, the client asks again.
    ///
    /// # Errors
    ///
    /// As [`start_orchestration`](Self::start_orchestration).
    pub async fn start_orchestration_if_absent(
        &self,
        instance: impl Into<String>,
        orchestration: impl Into<String>,
        input: impl Into<String>,
    ) -> Result<bool, ClientError> {
        let start = self.start_item(NewStart {
            extras: asked_once(StartExtras::default()),
            ..NewStart::new(instance, orchestration, input)
        })?;
        let submission = Submission::start(start, None, StartRule::MustBeNew, Vec::new());
        Ok(self.submit(submission).await? == Submitted::Started)
    }

    /// Gives the store a start under a rule, once more if it does not answer: the store knows what the same request
    /// asked for, so the start is neither stored twice nor refused because of itself.
    pub(super) async fn submit(&self, submission: Submission) -> Result<Submitted, ClientError> {
        let is_safe = submission.request().is_some() && self.store.submits_in_one_step();
        let mut tries = 1;
        loop {
            match self.store.submit(submission.clone()).await {
                Err(error) if error.is_retryable() && is_safe && tries < TRIES_MAX => {
                    tracing::debug!(target: "duroxide::runtime", %error, "the store did not answer a start; the client tries it again");
                    tokio::time::sleep(RETRY_PAUSE * tries).await;
                    tries += 1;
                }
                answer => return Ok(answer?),
            }
        }
    }

    /// Puts a start on the queue, to be seen after a delay if there is one.
    pub(super) async fn enqueue_start(
        &self,
        start: NewStart,
        delay: Option<Duration>,
    ) -> Result<(), ClientError> {
        let start = self.start_item(start)?;
        self.enqueue(start, delay).await
    }

    /// The start as it is stored, if it can be.
    pub(super) fn start_item(&self, start: NewStart) -> Result<WorkItem, ClientError> {
        self.check_start(&start)?;
        Ok(WorkItem::StartOrchestration {
            instance: start.instance,
            orchestration: start.orchestration,
            input: start
                .extras
                .in_front_of(labelled_input(&start.labels, start.input)),
            version: start.version,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: INITIAL_EXECUTION_ID,
        })
    }

    /// Whether a start like this can be stored.
    fn check_start(&self, start: &NewStart) -> Result<(), ClientError> {
        check_id(&start.instance)?;
        self.check_payload("orchestration name", &start.orchestration)?;
        self.check_payload("version", start.version.as_deref().unwrap_or_default())?;
        self.check_payload("orchestration input", &start.input)?;
        check_labels(&start.labels).map_err(ClientError::invalid)?;
        start.extras.check().map_err(ClientError::invalid)
    }
}

/// Names the request that asks for a start, unless its caller did.
pub(super) fn asked_once(mut extras: StartExtras) -> StartExtras {
    let drawn = || uuid::Uuid::new_v4().to_string();
    extras.request.get_or_insert_with(drawn);
    extras
}

/// A start that is to be sent; see [`Client::start_orchestration_with`].
#[derive(Debug, Clone)]
pub struct NewStart {
    /// Id of the instance.
    pub instance: String,
    /// Name of its handler.
    pub orchestration: String,
    /// Version of the handler; `None` for the one that the node's policy chooses.
    pub version: Option<String>,
    /// Input, as the handler is given it.
    pub input: String,
    /// Labels by which people find the instance.
    pub labels: Labels,
    /// Memo, time limit, trace and request id.
    pub extras: StartExtras,
}

impl NewStart {
    /// A start without a version, labels and extras.
    #[must_use]
    pub fn new(
        instance: impl Into<String>,
        orchestration: impl Into<String>,
        input: impl Into<String>,
    ) -> Self {
        Self {
            instance: instance.into(),
            orchestration: orchestration.into(),
            version: None,
            input: input.into(),
            labels: Labels::new(),
            extras: StartExtras::default(),
        }
    }
}

fn check_id(instance: &str) -> Result<(), ClientError> {
    check_instance_id(instance).map_err(ClientError::invalid)?;
    if uses_reserved_marker(instance) {
        return Err(ClientError::invalid(format!(
            "instance id '{instance}' uses the reserved sub-orchestration marker '{SUB_ORCH_AUTO_PREFIX}'"
        )));
    }
    Ok(())
}
