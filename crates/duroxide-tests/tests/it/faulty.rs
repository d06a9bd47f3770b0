//! A store that fails, hangs, panics or answers late on request, and counts its calls; otherwise it is the store it
//! wraps.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide::providers::{
    ClaimedTurn, ExecutionMetadata, Provider, ProviderError, ScheduledActivityIdentifier,
    TurnClaim, TurnHistory, WorkItem,
};
use duroxide::runtime::observability::{Layer, Layered};
use duroxide::{Event, EventKind, OrchestrationContext};
use tokio::sync::watch;

/// Calls to spoil: which, how many after how many good ones, and how.
struct Fault {
    operation: &'static str,
    spared: usize,
    left: usize,
    how: How,
}

#[derive(Clone)]
enum How {
    Fails(ProviderError),
    Hangs,
    Panics,
    /// The call takes effect; its answer comes when a later claim was confirmed from memory.
    AnswersLate,
    /// The call takes effect; its answer comes so much later.
    AnswersAfter(Duration),
    /// The call takes effect; its caller is told that the store is out of reach.
    LosesAnswer,
}

#[derive(Default)]
struct Book {
    faults: Vec<Fault>,
    calls: HashMap<&'static str, usize>,
    /// The store refuses turns that record this output, for good.
    refused_output: Option<String>,
    /// The store refuses turns that record nothing, for good.
    refuses_empty_turns: bool,
}

/// What goes wrong.
pub(crate) struct Faults {
    book: Mutex<Book>,
    /// Whether a claim was confirmed from memory since an answer is held back.
    confirmed: watch::Sender<bool>,
}

/// A store with faults.
pub(crate) type Faulty = Layered<Faults>;

pub(crate) fn over(inner: Arc<dyn Provider>) -> Arc<Faulty> {
    let faults = Faults {
        book: Mutex::default(),
        confirmed: watch::Sender::new(false),
    };
    Arc::new(Layered::around(inner, faults))
}

impl Faults {
    /// Fails the next calls of an operation as if the store were out of reach.
    pub(crate) fn unavailable(&self, operation: &'static str, times: usize) {
        let error = ProviderError::retryable(operation, "out of reach");
        self.fail(operation, times, error);
    }

    pub(crate) fn fail(&self, operation: &'static str, times: usize, error: ProviderError) {
        self.spoil(operation, 0, times, How::Fails(error));
    }

    /// The next calls of an operation never come back.
    pub(crate) fn hang(&self, operation: &'static str, times: usize) {
        self.spoil(operation, 0, times, How::Hangs);
    }

    /// The next calls of an operation panic.
    pub(crate) fn panic(&self, operation: &'static str, times: usize) {
        self.spoil(operation, 0, times, How::Panics);
    }

    /// After some good ones, one call takes effect and its answer is held back until a later claim was confirmed from
    /// memory. That claim's own answer comes a moment after the one that was held back.
    pub(crate) fn answer_late(&self, operation: &'static str, spared: usize) {
        self.spoil(operation, spared, 1, How::AnswersLate);
    }

    /// An answer that is still held back comes now: on a busy machine no later claim may have been confirmed from
    /// memory.
    pub(crate) fn answer_now(&self) {
        self.confirmed.send_replace(true);
    }

    /// The next calls of an operation take effect; their answers come so much later.
    pub(crate) fn answer_after(&self, operation: &'static str, times: usize, delay: Duration) {
        self.spoil(operation, 0, times, How::AnswersAfter(delay));
    }

    /// After some good ones, one call takes effect and its caller hears that the store is out of reach.
    pub(crate) fn lose_answer(&self, operation: &'static str, spared: usize) {
        self.spoil(operation, spared, 1, How::LosesAnswer);
    }

    fn spoil(&self, operation: &'static str, spared: usize, left: usize, how: How) {
        self.book().faults.push(Fault {
            operation,
            spared,
            left,
            how,
        });
    }

    /// From now on the operation works again.
    pub(crate) fn heal(&self, operation: &'static str) {
        self.book().faults.retain(|f| f.operation != operation);
    }

    /// Refuses, for good, every turn that ends with this output.
    pub(crate) fn refuse_output(&self, output: &str) {
        self.book().refused_output = Some(output.to_owned());
    }

    /// Refuses, for good, every turn that records nothing.
    pub(crate) fn refuse_empty_turns(&self) {
        self.book().refuses_empty_turns = true;
    }

    /// Takes every output again.
    pub(crate) fn refuse_nothing(&self) {
        self.book().refused_output = None;
    }

    pub(crate) fn calls(&self, operation: &'static str) -> usize {
        self.book().calls.get(operation).copied().unwrap_or(0)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_fault(&self, operation: &'static str) -> Option<How> {
        let mut book = self.book();
        *book.calls.entry(operation).or_default() += 1;
        let fault = book
            .faults
            .iter_mut()
            .find(|f| f.operation == operation && f.left > 0)?;
        if fault.spared > 0 {
            fault.spared -= 1;
            return None;
        }
        fault.left -= 1;
        Some(fault.how.clone())
    }

    fn refuses(&self, history_delta: &[Event]) -> bool {
        if history_delta.is_empty() {
            return self.book().refuses_empty_turns;
        }
        let refused = self.book().refused_output.clone();
        history_delta.iter().any(|event| match &event.kind {
            EventKind::OrchestrationCompleted { output } => Some(output) == refused.as_ref(),
            _ => false,
        })
    }
}

impl Layer for Faults {
    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> Result<T, ProviderError> {
        match self.next_fault(operation) {
            None => call.await,
            Some(How::Fails(error)) => Err(error),
            Some(How::Hangs) => std::future::pending().await,
            Some(How::Panics) => panic!("{operation} panics"),
            Some(How::AnswersLate) => {
                self.confirmed.send_replace(false);
                let answer = call.await;
                let mut confirmed = self.confirmed.subscribe();
                let _never_closed = confirmed.wait_for(|confirmed| *confirmed).await;
                answer
            }
            Some(How::AnswersAfter(delay)) => {
                let answer = call.await;
                tokio::time::sleep(delay).await;
                answer
            }
            Some(How::LosesAnswer) => {
                call.await?;
                let lost = "the commit may have happened";
                Err(ProviderError::retryable(operation, lost))
            }
        }
    }

    async fn ack_orchestration_item(
        &self,
        next: &dyn Provider,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "ack_orchestration_item";
        if self.refuses(&history_delta) {
            let error = "the store does not take this";
            return Err(ProviderError::permanent(OPERATION, error));
        }
        let call = next.ack_orchestration_item(
            lock_token,
            execution_id,
            history_delta,
            worker_items,
            orchestrator_items,
            metadata,
            cancelled_activities,
        );
        self.around(OPERATION, call).await
    }

    async fn claim_turns(
        &self,
        next: &dyn Provider,
        claim: TurnClaim,
    ) -> Result<Vec<ClaimedTurn>, ProviderError> {
        let claimed = self.around("claim_turns", next.claim_turns(claim)).await?;
        let from_memory = |turn: &ClaimedTurn| matches!(turn.history, TurnHistory::Unchanged(_));
        let held_back = self.confirmed.receiver_count() > 0;
        if held_back && claimed.iter().any(from_memory) {
            self.confirmed.send_replace(true);
            // Long enough for the task that hears the late answer to go on.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(claimed)
    }
}

/// A child that ends with its input, at once, after a wait or after continue-as-new; see [`Faults::refuse_output`].
pub(crate) async fn child(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    match input.as_str() {
        "waits" => Ok(ctx.schedule_wait("go").await),
        "continues" => ctx.continue_as_new("refuse me").await,
        _ => Ok(input),
    }
}
