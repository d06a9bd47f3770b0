//! Clients: one per instance id. In: a plan of lives. Out: calls to the store, and a log of what was acknowledged.
//!
//! A call that fails may have taken effect; then it is done again, and the log says that the outcome of the first is
//! not known.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide_core::limits::HOLD_QUEUE_MESSAGES_FROM_BYTES;
use duroxide_core::provider::{Provider, PruneOptions};
use duroxide_core::{EventKind, StartExtras};
use duroxide_runtime::client::NewStart;
use duroxide_runtime::{AskError, Client, ClientError, OrchestrationStatus};

use crate::model::{Expected, expect};
use crate::plan::{LifeEnd, LifePlan, RootPlan, StartPlan};
use crate::program::Step;
use crate::program::{ORCHESTRATION, QUEUE, REQUEST, Run, VERSIONS};
use crate::sim::Sim;

/// What a client knows of one life.
#[derive(Debug, Clone, Default)]
pub struct LifeLog {
    pub started_ms: Option<u64>,
    /// Queue messages in the order they were sent, with whether they were acknowledged.
    pub queue_messages: Vec<(String, bool)>,
    /// What the client saw at the end.
    pub outcome: Option<OrchestrationStatus>,
    pub ended_ms: Option<u64>,
    pub is_deleted: bool,
    pub is_cancelled: bool,
    pub is_pruned: bool,
}

/// The client of one instance id.
pub struct RootClient {
    pub sim: Arc<Sim>,
    pub client: Client,
    /// The store itself, for looks that disturb nothing.
    pub store: Arc<dyn Provider>,
    pub plan: RootPlan,
    pub lives: Mutex<Vec<LifeLog>>,
}

impl fmt::Debug for RootClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootClient")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

/// Whether an instance ended because a client asked for it.
#[must_use]
pub fn is_cancelled(outcome: &OrchestrationStatus) -> bool {
    matches!(outcome, OrchestrationStatus::Failed { details, .. } if details.is_cancelled())
}

/// Pause before a call is done again.
pub(crate) const AGAIN: Duration = Duration::from_millis(200);
/// How long a call may take that is done again otherwise.
const CALL_MAX: Duration = Duration::from_secs(20);

impl RootClient {
    /// The path of a life's program.
    #[must_use]
    pub fn path(&self, life: usize) -> String {
        format!("{}#{life}", self.plan.id)
    }

    /// What a life must do.
    #[must_use]
    pub fn expected(&self, life: usize) -> Expected {
        expect(
            life as u32,
            &self.path(life),
            &self.plan.lives[life].program,
        )
    }

    /// How a life ended, as its client saw it.
    pub(crate) fn outcome_of(&self, life: usize) -> Option<OrchestrationStatus> {
        let lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        lives.get(life)?.outcome.clone()
    }

    fn begin_log(&self) {
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        lives.push(LifeLog::default());
    }

    fn log(&self, change: impl FnOnce(&mut LifeLog)) {
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = lives.last_mut() {
            change(last);
        }
    }

    /// Lives all lives of the id.
    pub async fn live(self: Arc<Self>) {
        for (number, life) in self.plan.lives.iter().enumerate() {
            tokio::time::sleep(life.start_after).await;
            self.begin_log();
            self.one_life(number, life).await;
            if life.restarts {
                self.restart(number).await;
            }
            let next = self.plan.lives.get(number + 1);
            if next.is_some_and(|next| next.start != StartPlan::InPlace) {
                self.delete(false).await;
            }
        }
    }

    async fn one_life(&self, number: usize, life: &LifePlan) {
        let expected = self.expected(number);
        match life.start {
            StartPlan::Plain => self.start(number, life).await,
            StartPlan::Once | StartPlan::InPlace => self.submit(number, life, &expected).await,
        }
        self.log(|log| log.started_ms = Some(self.sim.now_ms()));
        let doings = async {
            futures_util::join!(
                self.queue_messages(number, life, &expected),
                self.signals(life.signal_pause, &expected),
                self.ends(life),
                self.looks(life),
                self.pauses(life),
                self.asks(number, &expected),
                self.keyed(number, life, &expected),
            );
            std::future::pending::<()>().await;
        };
        let deleted = async {
            match life.end {
                LifeEnd::Delete { after } => {
                    tokio::time::sleep(after).await;
                    self.delete(true).await;
                }
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = deleted => self.log(|log| log.is_deleted = true),
            outcome = self.last_outcome(life) => self.log(|log| {
                log.outcome = Some(outcome);
                log.ended_ms = Some(self.sim.now_ms());
            }),
            () = doings => {}
        }
    }

    async fn start(&self, number: usize, life: &LifePlan) {
        let run = Run::new(number as u32, self.path(number), life.program.clone());
        let (input, version) = (run.encode(), VERSIONS[life.program.version]);
        let extras = match life.end {
            LifeEnd::Limit { after } => StartExtras::default().with_timeout(after),
            _ => Ok(StartExtras::default()),
        };
        let extras = extras.expect("limits are longer than nothing");
        let start = || {
            let start = NewStart {
                version: Some(version.to_owned()),
                extras: extras.clone(),
                ..NewStart::new(&self.plan.id, ORCHESTRATION, input.clone())
            };
            self.client.start_orchestration_with(start)
        };
        self.until_acknowledged("start", start).await;
    }

    /// Waits for the end that counts: one that a retry follows does not.
    async fn last_outcome(&self, life: &LifePlan) -> OrchestrationStatus {
        loop {
            let outcome = self.outcome().await;
            if !life.retries || !is_cancelled(&outcome) {
                return outcome;
            }
            self.retry().await;
        }
    }

    /// Retries until the instance runs, or has ended anew.
    async fn retry(&self) {
        let id = &self.plan.id;
        loop {
            match tokio::time::timeout(CALL_MAX, self.client.retry_instance(id)).await {
                Ok(Ok(rewind)) => {
                    self.sim.note(format_args!("retry {id} acknowledged"));
                    let wait = Duration::from_secs(60);
                    if self.client.wait_for_retry(&rewind, wait).await.is_ok() {
                        return;
                    }
                }
                // A request that its client gave up was taken.
                Ok(Err(error)) if !error.is_retryable() => return,
                Ok(Err(_)) | Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Waits for the end, however long that takes.
    async fn outcome(&self) -> OrchestrationStatus {
        let id = &self.plan.id;
        loop {
            let wait = Duration::from_secs(60);
            match self.client.wait_for_orchestration(id, wait).await {
                Ok(status) => {
                    self.sim.note(format_args!("{id} ended: {status:?}"));
                    return status;
                }
                Err(error) if error.is_retryable() => tokio::time::sleep(AGAIN).await,
                Err(error) => {
                    self.sim
                        .violation(format!("waiting for {id} is refused: {error}"));
                    std::future::pending().await
                }
            }
        }
    }

    /// Makes the queue messages of some instances so long that one of them unread is enough: the store keeps the
    /// others.
    fn padding(&self) -> String {
        let last = self.plan.id.bytes().last();
        if last.is_some_and(|last| last % 3 == 0) {
            "x".repeat(HOLD_QUEUE_MESSAGES_FROM_BYTES)
        } else {
            String::new()
        }
    }

    /// Sends what the program reads, one message after the other.
    async fn queue_messages(&self, number: usize, life: &LifePlan, expected: &Expected) {
        let steps = life.program.steps.iter();
        let perhaps = steps.filter(|step| matches!(step, Step::DequeueOrTimer(_)));
        let count = expected.queue_messages + perhaps.count();
        for seq in 0..count {
            tokio::time::sleep(life.message_pause).await;
            for again in 0.. {
                let message = format!("{number}-{seq}.{again}{}", self.padding());
                // It may be taken before its sender hears that it was stored.
                self.log(|log| log.queue_messages.push((message.clone(), false)));
                let sent = self
                    .client
                    .enqueue_event(&self.plan.id, QUEUE, message)
                    .await;
                let is_sent = self.is_acknowledged("enqueue", sent);
                if is_sent {
                    self.log(|log| log.queue_messages.last_mut().expect("just pushed").1 = true);
                    break;
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Raises each signal once its wait is recorded.
    async fn signals(&self, pause: Duration, expected: &Expected) {
        let mut left: Vec<&String> = expected.signals.iter().collect();
        while !left.is_empty() {
            let waited_for = self.open_waits().await;
            for name in &left {
                if !waited_for.contains(*name) {
                    continue;
                }
                let raise = || {
                    self.client
                        .raise_event(&self.plan.id, *name, format!("go {name}"))
                };
                self.until_acknowledged("signal", raise).await;
            }
            left.retain(|name| !waited_for.contains(*name));
            tokio::time::sleep(pause).await;
        }
    }

    async fn open_waits(&self) -> Vec<String> {
        let history = self.store.read(&self.plan.id).await.unwrap_or_default();
        let answered: Vec<u64> = history.iter().filter_map(|e| e.source_event_id).collect();
        let open = history.iter().filter_map(|event| match &event.kind {
            EventKind::ExternalSubscribed { name } if !answered.contains(&event.event_id) => {
                Some(name.clone())
            }
            _ => None,
        });
        open.collect()
    }

    async fn ends(&self, life: &LifePlan) {
        let id = &self.plan.id;
        match life.end {
            LifeEnd::Cancel {
                after,
                times,
                pause,
            } => {
                tokio::time::sleep(after).await;
                self.log(|log| log.is_cancelled = true);
                for _ in 0..times {
                    let cancel = || self.client.cancel_instance(id, "enough");
                    self.until_acknowledged("cancel", cancel).await;
                    tokio::time::sleep(pause).await;
                }
            }
            LifeEnd::Terminate { after } => {
                tokio::time::sleep(after).await;
                self.log(|log| log.is_cancelled = true);
                let end = || self.client.terminate_instance(id, "enough");
                self.until_acknowledged("terminate", end).await;
            }
            LifeEnd::Alone | LifeEnd::Delete { .. } | LifeEnd::Limit { .. } => {}
        }
    }

    /// Holds the instance back and lets it go on, a few times.
    async fn pauses(&self, life: &LifePlan) {
        let Some(pause) = life.pauses else {
            return;
        };
        let id = &self.plan.id;
        for _ in 0..4 {
            tokio::time::sleep(pause).await;
            self.until_settled(|| self.client.pause_instance(id)).await;
            self.sim.note(format_args!("{id} is paused"));
            tokio::time::sleep(pause).await;
            self.until_settled(|| self.client.resume_instance(id)).await;
            self.sim.note(format_args!("{id} is resumed"));
        }
    }

    /// Until it is done, or refused because the instance is not there or has ended.
    async fn until_settled<F>(&self, call: impl Fn() -> F)
    where
        F: Future<Output = Result<bool, ClientError>>,
    {
        loop {
            match tokio::time::timeout(CALL_MAX, call()).await {
                Ok(Ok(_)) => return,
                Ok(Err(error)) if !error.is_retryable() => return,
                Ok(Err(_)) | Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Asks what the program answers, one request after the other; each is asked again under its id until it is
    /// answered.
    async fn asks(&self, number: usize, expected: &Expected) {
        let id = &self.plan.id;
        for request in 0..expected.answers {
            loop {
                let ask = self.client.ask::<u32, u32>(id, REQUEST, &request);
                let ask = ask.id(format!("{number}-{request}")).timeout(CALL_MAX);
                match ask.await {
                    Ok(reply) if reply == 2 * request => break,
                    Ok(reply) => {
                        let text = format!("{id} life {number} answered {request} with {reply}");
                        self.sim.violation(text);
                        return;
                    }
                    // It was cancelled, or it is not there yet.
                    Err(AskError::Ended) => return,
                    Err(AskError::Client(_) | AskError::Undelivered(_)) => {
                        tokio::time::sleep(AGAIN).await;
                    }
                    Err(error) => {
                        let text = format!("{id} life {number}, request {request}: {error}");
                        self.sim.violation(text);
                        return;
                    }
                }
            }
        }
    }

    /// Reads and prunes meanwhile. What is read is checked at the end; here nothing may break.
    async fn looks(&self, life: &LifePlan) {
        let id = &self.plan.id;
        if !life.reads && !life.prunes {
            return;
        }
        loop {
            tokio::time::sleep(Duration::from_secs(3)).await;
            if life.reads {
                let _status = self.client.get_orchestration_status(id).await;
                let _values = self.client.get_kv_all_values(id).await;
                let _history = self.client.read_execution_history(id, 1).await;
            }
            if life.prunes {
                let options = PruneOptions {
                    keep_last: Some(1),
                    completed_before: None,
                };
                self.log(|log| log.is_pruned = true);
                let _pruned = self.client.prune_executions(id, options).await;
            }
        }
    }

    /// Deletes the id until it is gone.
    async fn delete(&self, force: bool) {
        let id = &self.plan.id;
        for tries in 0.. {
            // Without force a tree with children that still run is refused for a while.
            let force = force || tries > 20;
            let deleted = self.client.delete_instance(id, force).await;
            self.sim.note(format_args!(
                "delete {id}, force {force}: {}",
                deleted.is_ok()
            ));
            match deleted {
                Ok(_) => return,
                Err(ClientError::InstanceNotFound { .. }) if !force => return,
                Err(_) => tokio::time::sleep(AGAIN * 5).await,
            }
        }
    }

    fn is_acknowledged(&self, what: &str, result: Result<(), ClientError>) -> bool {
        let id = &self.plan.id;
        match result {
            Ok(()) => {
                self.sim.note(format_args!("{what} {id} acknowledged"));
                true
            }
            Err(error) => {
                if !error.is_retryable() {
                    self.sim
                        .violation(format!("{what} of {id} is refused: {error}"));
                }
                false
            }
        }
    }

    async fn until_acknowledged<F>(&self, what: &str, call: impl Fn() -> F)
    where
        F: Future<Output = Result<(), ClientError>>,
    {
        while !self.is_acknowledged(what, call().await) {
            tokio::time::sleep(AGAIN).await;
        }
    }
}
