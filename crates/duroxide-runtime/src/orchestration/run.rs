//! Running a turn. In: where the code starts from, and the messages. Out: a commit and what follows from it; or the
//! claim given back, to run again from the record. The steps are those of the file: `drive.rs` runs the code,
//! [`decide`] looks at the outcome, `plan.rs` and `commit.rs` write it, `after.rs` says what was written.

use std::sync::Arc;

use duroxide_core::defect::Defect;
use duroxide_core::provider::ProviderError;
use duroxide_core::replay::{Divergence, FailedBy, Outcome};
use duroxide_core::{AppErrorKind, ErrorDetails, Event, WorkItem};
use tracing::Instrument as _;

use super::after::{AfterCommit, Decided};
use super::blocked::block;
use super::claim_in_hand::{ClaimInHand, INSTANCE_REST};
use super::commit::{Committed, RefusedCommit, commit, give_back, try_later};
use super::drive::{Driven, NotDriven, TurnStart, drive};
use super::forced::{self, CancelRequest, FailurePoint, ForcedEnd};
use super::plan::{ExecutionRef, TurnCommit, plan};
use super::turn_log::StartedBy;
use crate::engine::{BlockCause, Engine, Kept};
use crate::observability::code_spans;
use crate::options::OnDivergence;

/// Where a turn started from.
pub(super) enum Source {
    /// The execution begins with this turn.
    Beginning,
    /// The history was loaded.
    Record(Arc<[Event]>),
    /// The orchestration was kept in memory.
    Memory { bytes: usize },
}

impl Source {
    /// The loaded history, if there is one.
    fn recorded(&self) -> &[Event] {
        match self {
            Self::Record(history) => history,
            Self::Beginning | Self::Memory { .. } => &[],
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Beginning => 0,
            Self::Record(history) => history.iter().map(Event::payload_bytes).sum(),
            Self::Memory { bytes } => *bytes,
        }
    }
}

/// A request that may have to end the instance without its code, and everything that was claimed with it.
struct AskedEnd {
    request: CancelRequest,
    messages: Vec<WorkItem>,
}

impl AskedEnd {
    fn of(history: &[Event], messages: &[WorkItem]) -> Option<Box<Self>> {
        let request = CancelRequest::of(history, messages)?;
        Some(Box::new(Self {
            request,
            messages: messages.to_vec(),
        }))
    }
}

/// What is known about a turn before its code runs.
pub(super) struct TurnRun {
    pub(super) of: ExecutionRef,
    /// Set if the execution begins with this turn.
    pub(super) began: Option<StartedBy>,
    pub(super) source: Source,
    /// Answers to starts that came too late.
    pub(super) refusals: Vec<WorkItem>,
}

/// A turn whose code is here and fits, as far as is known before it runs.
pub(super) struct ReadyTurn<'a> {
    pub(super) claim: ClaimInHand<'a>,
    pub(super) run: TurnRun,
    pub(super) begin: TurnStart,
    pub(super) messages: Vec<WorkItem>,
}

/// Runs the code and commits what it decided.
pub(super) fn run<'a>(
    engine: &'a Arc<Engine>,
    ready: ReadyTurn<'a>,
) -> impl Future<Output = ()> + Send + 'a {
    let ReadyTurn {
        claim,
        run,
        begin,
        messages,
    } = ready;
    let cancel = AskedEnd::of(run.source.recorded(), &messages);
    let span = code_spans::turn(
        &run.of.instance,
        run.of.execution_id,
        &run.of.name,
        claim.attempt,
    );
    async move {
        match drive(engine, &claim.lease, begin, messages)
            .instrument(span)
            .await
        {
            Ok(driven) => match decide(engine, &claim, &driven) {
                Decision::Commit => {
                    commit_and_follow_up(engine, claim, run, driven, cancel).await;
                }
                Decision::Block(cause, report) => {
                    Box::pin(cannot_run(engine, claim, run, (cause, report), cancel)).await;
                }
                Decision::RunAgain(panic) => {
                    Box::pin(try_after_panic(engine, claim, &run.of, &panic)).await;
                }
            },
            Err(not_driven) => {
                Box::pin(settle_undriven(engine, claim, run, not_driven, cancel)).await;
            }
        }
    }
}

/// A turn that did not run to its end.
async fn settle_undriven(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    run: TurnRun,
    why: NotDriven,
    cancel: Option<Box<AskedEnd>>,
) {
    match why {
        NotDriven::Diverged(divergence, messages) => {
            diverged(engine, claim, run, (divergence, messages), cancel).await;
        }
        NotDriven::TooLong => {
            let limit = engine.options.turn_duration_max;
            tracing::warn!(target: "duroxide::runtime", instance_id = %run.of.instance, "the turn waited {limit:?} for work that runs in place or for the store; it is dropped and counted");
            try_later(engine, claim, INSTANCE_REST).await;
        }
        NotDriven::Store(error) if error.is_lease_lost() => {
            tracing::debug!(target: "duroxide::runtime", %error, "the lease of the turn is lost, it did nothing");
            give_back(engine, claim.lease, None).await;
        }
        NotDriven::Store(error) => {
            tracing::warn!(target: "duroxide::runtime", %error, "the turn could not ask the store, it will run again");
            wait_for_store(engine, claim).await;
        }
    }
}

/// The pause is made under the lease: a store that cannot rest an instance would only delay its claimed messages, and
/// later ones would overtake them.
async fn wait_for_store(engine: &Engine, claim: ClaimInHand<'_>) {
    tokio::time::sleep(INSTANCE_REST).await;
    give_back(engine, claim.lease, None).await;
}

/// What becomes of a turn that ran.
enum Decision {
    Commit,
    Block(BlockCause, String),
    RunAgain(ErrorDetails),
}

fn decide(engine: &Engine, claim: &ClaimInHand<'_>, driven: &Driven) -> Decision {
    let options = &engine.options;
    match &driven.turn.outcome {
        Outcome::Failed { details }
            if driven
                .turn
                .failed_by
                .is_some_and(FailedBy::is_cured_by_other_code)
                && options.on_divergence == OnDivergence::Block =>
        {
            let cause = match driven.turn.failed_by {
                Some(FailedBy::NotDurable) => BlockCause::ThisCode,
                _ => BlockCause::MayPass,
            };
            Decision::Block(cause, details.display_message())
        }
        Outcome::Failed { details }
            if is_panic(details) && claim.attempt <= options.orchestration_panic_retries =>
        {
            Decision::RunAgain(details.clone())
        }
        _ => Decision::Commit,
    }
}

/// Commits what the turn decided, and does what follows from that.
fn commit_and_follow_up<'a>(
    engine: &'a Engine,
    claim: ClaimInHand<'a>,
    run: TurnRun,
    driven: Driven,
    cancel: Option<Box<AskedEnd>>,
) -> impl Future<Output = ()> + Send + 'a {
    let Driven {
        execution,
        mut turn,
        to_send,
    } = driven;
    let decided = Decided::take(&mut turn);
    let bytes = run.source.bytes() + turn.events.iter().map(Event::payload_bytes).sum::<usize>();
    let mut planned = plan(&run.of, *turn);
    let writes = &mut planned.writes;
    writes.to_orchestrators.extend(run.refusals.clone());
    writes.to_orchestrators.extend(to_send);
    if let (false, Some(incarnation)) = (writes.to_workers.is_empty(), claim.incarnation) {
        engine.names.remember(
            incarnation,
            run.of.execution_id,
            &run.of.name,
            execution.version(),
        );
    }
    let after = AfterCommit::begin(engine, &claim, &run.of, &execution, writes, decided);
    async move {
        match commit(engine, run.of.whose(), claim.lease, planned).await {
            Committed::Yes => {
                let waits = after.waits();
                after.committed(engine, &run.of, run.began);
                if let (true, Some(incarnation)) = (waits, claim.incarnation) {
                    claim.memory.keep(Kept {
                        execution,
                        incarnation,
                        bytes,
                    });
                }
            }
            Committed::No => after.take_back(engine),
            // Its end may be recorded; the next turn of it would count it again otherwise.
            Committed::Unknown => {}
            Committed::Refused(refusal) => {
                after.take_back(engine);
                let RefusedCommit {
                    error,
                    lease,
                    commit,
                } = *refusal;
                let refused = Refused::of(run, cancel, &commit);
                let claim = ClaimInHand { lease, ..claim };
                Box::pin(refused.settle(engine, claim, &error)).await;
            }
        }
    }
}

/// A turn that the store refuses.
struct Refused {
    of: ExecutionRef,
    source: Source,
    refusals: Vec<WorkItem>,
    /// The start of the execution with the messages that it carries, if it begins with this turn.
    begun: Vec<Event>,
    cancel: Option<Box<AskedEnd>>,
}

impl Refused {
    fn of(run: TurnRun, cancel: Option<Box<AskedEnd>>, commit: &TurnCommit) -> Self {
        Self {
            begun: match (run.began, commit.writes.history.first()) {
                (Some(_), Some(start)) => forced::beginning_with(start),
                _ => Vec::new(),
            },
            of: run.of,
            source: run.source,
            refusals: run.refusals,
            cancel,
        }
    }

    /// A turn that went on from memory runs again from the record. One that came from the record waits for an operator:
    /// what a store says about the engine is not the outcome of the author's program.
    async fn settle(self, engine: &Engine, claim: ClaimInHand<'_>, error: &ProviderError) {
        let of = self.of;
        tracing::error!(target: "duroxide::runtime", instance_id = %of.instance, %error, "the store refuses the turn");
        let is_from_memory = matches!(self.source, Source::Memory { .. });
        if Defect::LateAnswerReplacesNewer.is_on() && is_from_memory {
            return defective_failure(engine, claim, of, self.refusals, error).await;
        }
        match (self.source, self.cancel) {
            (Source::Memory { .. }, _) => {
                give_back(engine, claim.lease, None).await;
            }
            (source, Some(asked)) => {
                let point = FailurePoint {
                    beginning: self.begun,
                    arrived: asked.messages,
                    refusals: self.refusals,
                    ..FailurePoint::after(of, source.recorded().to_vec())
                };
                forced::end_at(engine, claim, point, &asked.request.into_end()).await;
            }
            (_, None) => {
                let report = format!("the store refuses the turn: {error}");
                block(engine, claim.lease, &of, BlockCause::MayPass, report).await;
            }
        }
    }
}

/// What became of a refused turn when what memory held was trusted. Only a defect that is put back does it.
async fn defective_failure(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    of: ExecutionRef,
    refusals: Vec<WorkItem>,
    error: &ProviderError,
) {
    let recorded = engine
        .store
        .read_with_execution(&of.instance, of.execution_id);
    let Ok(base) = recorded.await else {
        return give_back(engine, claim.lease, None).await;
    };
    let point = FailurePoint {
        refusals,
        ..FailurePoint::after(of, base)
    };
    let details = ErrorDetails::Infrastructure {
        operation: error.operation.clone(),
        message: error.message.clone(),
        retryable: false,
    };
    forced::end_at(engine, claim, point, &ForcedEnd::Fail(details)).await;
}

async fn diverged(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    run: TurnRun,
    (divergence, arrived): (Divergence, Vec<WorkItem>),
    cancel: Option<Box<AskedEnd>>,
) {
    if engine.options.on_divergence == OnDivergence::Block {
        let why = (BlockCause::MayPass, divergence.to_string());
        cannot_run(engine, claim, run, why, cancel).await;
        return;
    }
    let point = FailurePoint {
        arrived,
        refusals: run.refusals,
        ..FailurePoint::after(run.of, run.source.recorded().to_vec())
    };
    let how = ForcedEnd::Fail(divergence.to_details());
    forced::end_at(engine, claim, point, &how).await;
}

/// The code does not fit the history: the instance waits for code that does, unless a request to cancel came with the
/// claim.
async fn cannot_run(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    run: TurnRun,
    (cause, report): (BlockCause, String),
    cancel: Option<Box<AskedEnd>>,
) {
    match (cancel, run.source) {
        (Some(asked), Source::Record(history)) => {
            let point = FailurePoint {
                arrived: asked.messages,
                refusals: run.refusals,
                ..FailurePoint::after(run.of, history.to_vec())
            };
            forced::end_at(engine, claim, point, &asked.request.into_end()).await;
        }
        // What memory holds does not say how the history goes on; the next claim loads it.
        (cancel, Source::Memory { .. }) if cancel.is_some() || cause == BlockCause::MayPass => {
            give_back(engine, claim.lease, None).await;
        }
        _ => {
            let report = format!("its code does not fit its history: {report}");
            block(engine, claim.lease, &run.of, cause, report).await;
        }
    }
}

/// Gives a turn back whose code panicked: what made it panic may pass. Nothing of the turn is kept.
async fn try_after_panic(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    of: &ExecutionRef,
    details: &ErrorDetails,
) {
    let delay = engine.options.unregistered_backoff.delay(claim.attempt);
    tracing::warn!(
        target: "duroxide::runtime",
        instance_id = %of.instance,
        execution_id = of.execution_id,
        orchestration_name = %of.name,
        attempt = claim.attempt,
        "{}, the turn runs again in {delay:?}", details.display_message()
    );
    try_later(engine, claim, delay).await;
}

fn is_panic(details: &ErrorDetails) -> bool {
    let ErrorDetails::Application { kind, .. } = details else {
        return false;
    };
    *kind == AppErrorKind::Panicked
}
