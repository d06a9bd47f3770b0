//! Running a turn. In: where the code starts from, and the messages. Out: a commit and what follows from it; or the
//! claim given back, to run again from the record. The steps are those of the file: `drive.rs` runs the code,
//! [`after_run`] looks at the outcome, `plan.rs` and `commit.rs` write it, `after.rs` says what was written.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::defect::Defect;
use duroxide_core::provider::ProviderError;
use duroxide_core::replay::{Divergence, FailedBy, Outcome};
use duroxide_core::{AppErrorKind, ErrorDetails, Event, WorkItem};
use tracing::Instrument as _;

use super::after::{AfterCommit, TurnSummary};
use super::blocked::block;
use super::claim_in_hand::ClaimInHand;
use super::commit::{Committed, RefusedCommit, commit};
use super::drive::{Driven, NotDriven, TurnStart, drive};
use super::forced::{self, CancelRequest, FailurePoint, ForcedEnd};
use super::give_back::{INSTANCE_REST, give_back, try_later};
use super::plan::{ExecutionRef, TurnCommit, plan};
use super::turn_log::StartedBy;
use crate::engine::{BlockCause, Engine, Kept};
use crate::observability::code_spans;
use crate::options::OnDivergence;

/// How long a turn waits that could not ask the store, before its claim is given back.
const PAUSE_FOR_STORE: Duration = Duration::from_secs(1);

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
    pub(super) fn of(start: &TurnStart) -> Self {
        match start {
            TurnStart::Kept { bytes, .. } => Self::Memory { bytes: *bytes },
            TurnStart::Recorded { history, .. } => Self::Record(Arc::clone(history)),
            TurnStart::New { .. } => Self::Beginning,
        }
    }

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
pub(super) struct TurnOrigin {
    pub(super) of: ExecutionRef,
    /// Set if the execution begins with this turn.
    pub(super) began: Option<StartedBy>,
    pub(super) source: Source,
    /// Answers to starts that came too late.
    pub(super) late_start_answers: Vec<WorkItem>,
}

/// A turn whose code is here and fits, as far as is known before it runs.
pub(super) struct ReadyTurn<'a> {
    pub(super) claim: ClaimInHand<'a>,
    pub(super) origin: TurnOrigin,
    pub(super) start: TurnStart,
    pub(super) messages: Vec<WorkItem>,
}

/// Runs the code and commits what it decided.
pub(super) fn run<'a>(
    engine: &'a Arc<Engine>,
    ready: ReadyTurn<'a>,
) -> impl Future<Output = ()> + Send + 'a {
    let ReadyTurn {
        claim,
        origin,
        start,
        messages,
    } = ready;
    let cancel = AskedEnd::of(origin.source.recorded(), &messages);
    let span = code_spans::turn(
        &origin.of.instance,
        origin.of.execution_id,
        &origin.of.name,
        claim.attempt,
    );
    async move {
        match drive(engine, &claim.lease, start, messages)
            .instrument(span)
            .await
        {
            Ok(driven) => match after_run(engine, &claim, &driven) {
                AfterRun::Commit => {
                    commit_and_follow_up(engine, claim, origin, driven, cancel).await;
                }
                AfterRun::Block(cause, report) => {
                    Box::pin(cannot_run(engine, claim, origin, (cause, report), cancel)).await;
                }
                AfterRun::RunAgain(panic) => {
                    Box::pin(try_after_panic(engine, claim, &origin.of, &panic)).await;
                }
            },
            Err(not_driven) => {
                Box::pin(after_no_run(engine, claim, origin, not_driven, cancel)).await;
            }
        }
    }
}

/// A turn that did not run to its end.
async fn after_no_run(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    origin: TurnOrigin,
    why: NotDriven,
    cancel: Option<Box<AskedEnd>>,
) {
    match why {
        NotDriven::Diverged(divergence, messages) => {
            diverged(engine, claim, origin, (divergence, messages), cancel).await;
        }
        NotDriven::TooLong => {
            let limit = engine.options.turn_duration_max;
            tracing::warn!(target: "duroxide::runtime", instance_id = %origin.of.instance, "the turn waited {limit:?} for work that runs in place or for the store; it is dropped and counted");
            try_later(engine, claim, INSTANCE_REST).await;
        }
        // Its keeper heard so in the middle of the turn: effects may have run, and the attempt counts unless the store
        // was at fault.
        NotDriven::Store(error) if error.is_lease_lost() && claim.lease.lost().is_cancelled() => {
            tracing::warn!(target: "duroxide::runtime", instance_id = %origin.of.instance, %error, "turn dropped: its lease was lost");
            if claim.lease.is_loss_excused() {
                engine.excuses.add(claim.lease.subject());
            }
            claim.lease.end();
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
    tokio::time::sleep(PAUSE_FOR_STORE).await;
    give_back(engine, claim.lease, None).await;
}

/// What becomes of a turn that ran.
enum AfterRun {
    Commit,
    Block(BlockCause, String),
    RunAgain(ErrorDetails),
}

fn after_run(engine: &Engine, claim: &ClaimInHand<'_>, driven: &Driven) -> AfterRun {
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
            AfterRun::Block(cause, details.display_message())
        }
        Outcome::Failed { details }
            if is_panic(details) && claim.attempt <= options.orchestration_panic_retries =>
        {
            AfterRun::RunAgain(details.clone())
        }
        _ => AfterRun::Commit,
    }
}

/// Commits what the turn decided, and does what follows from that.
fn commit_and_follow_up<'a>(
    engine: &'a Engine,
    claim: ClaimInHand<'a>,
    origin: TurnOrigin,
    driven: Driven,
    cancel: Option<Box<AskedEnd>>,
) -> impl Future<Output = ()> + Send + 'a {
    let Driven {
        execution,
        mut turn,
        to_send,
    } = driven;
    let summary = TurnSummary::take(&mut turn);
    let bytes = origin.source.bytes() + turn.events.iter().map(Event::payload_bytes).sum::<usize>();
    let mut planned = plan(&origin.of, *turn);
    let writes = &mut planned.writes;
    writes
        .to_orchestrators
        .extend(origin.late_start_answers.clone());
    writes.to_orchestrators.extend(to_send);
    if let (false, Some(incarnation)) = (writes.to_workers.is_empty(), claim.incarnation) {
        engine.names.remember(
            incarnation,
            origin.of.execution_id,
            &origin.of.name,
            execution.version(),
        );
    }
    let after = AfterCommit::begin(engine, &claim, &origin.of, &execution, writes, summary);
    async move {
        match commit(engine, origin.of.whose(), claim.lease, planned).await {
            Committed::Yes => {
                let waits = after.waits();
                after.committed(engine, &origin.of, origin.began);
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
                let refused = Refused::of(origin, cancel, &commit);
                let claim = ClaimInHand { lease, ..claim };
                Box::pin(refused.run_again_or_block(engine, claim, &error)).await;
            }
        }
    }
}

/// A turn that the store refuses.
struct Refused {
    of: ExecutionRef,
    source: Source,
    late_start_answers: Vec<WorkItem>,
    /// The start of the execution with the messages that it carries, if it begins with this turn.
    begun: Vec<Event>,
    cancel: Option<Box<AskedEnd>>,
}

impl Refused {
    fn of(origin: TurnOrigin, cancel: Option<Box<AskedEnd>>, commit: &TurnCommit) -> Self {
        Self {
            begun: match (origin.began, commit.writes.history.first()) {
                (Some(_), Some(start)) => forced::beginning_with(start),
                _ => Vec::new(),
            },
            of: origin.of,
            source: origin.source,
            late_start_answers: origin.late_start_answers,
            cancel,
        }
    }

    /// A turn that went on from memory runs again from the record. One that came from the record waits for an operator:
    /// what a store says about the engine is not the outcome of the author's program.
    async fn run_again_or_block(
        self,
        engine: &Engine,
        claim: ClaimInHand<'_>,
        error: &ProviderError,
    ) {
        let of = self.of;
        tracing::error!(target: "duroxide::runtime", instance_id = %of.instance, %error, "the store refuses the turn");
        let is_from_memory = matches!(self.source, Source::Memory { .. });
        if Defect::LateAnswerReplacesNewer.is_on() && is_from_memory {
            return defective_failure(engine, claim, of, self.late_start_answers, error).await;
        }
        match (self.source, self.cancel) {
            (Source::Memory { .. }, _) => {
                give_back(engine, claim.lease, None).await;
            }
            (source, Some(asked)) => {
                let point = FailurePoint {
                    beginning: self.begun,
                    arrived: asked.messages,
                    late_start_answers: self.late_start_answers,
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
    late_start_answers: Vec<WorkItem>,
    error: &ProviderError,
) {
    let recorded = engine
        .store
        .read_with_execution(&of.instance, of.execution_id);
    let Ok(base) = recorded.await else {
        return give_back(engine, claim.lease, None).await;
    };
    let point = FailurePoint {
        late_start_answers,
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
    origin: TurnOrigin,
    (divergence, arrived): (Divergence, Vec<WorkItem>),
    cancel: Option<Box<AskedEnd>>,
) {
    if engine.options.on_divergence == OnDivergence::Block {
        let why = (BlockCause::MayPass, divergence.to_string());
        cannot_run(engine, claim, origin, why, cancel).await;
        return;
    }
    let point = FailurePoint {
        arrived,
        late_start_answers: origin.late_start_answers,
        ..FailurePoint::after(origin.of, origin.source.recorded().to_vec())
    };
    let how = ForcedEnd::Fail(divergence.to_details());
    forced::end_at(engine, claim, point, &how).await;
}

/// The code does not fit the history: the instance waits for code that does, unless a request to cancel came with the
/// claim.
async fn cannot_run(
    engine: &Engine,
    claim: ClaimInHand<'_>,
    origin: TurnOrigin,
    (cause, report): (BlockCause, String),
    cancel: Option<Box<AskedEnd>>,
) {
    match (cancel, origin.source) {
        (Some(asked), Source::Record(history)) => {
            let point = FailurePoint {
                arrived: asked.messages,
                late_start_answers: origin.late_start_answers,
                ..FailurePoint::after(origin.of, history.to_vec())
            };
            forced::end_at(engine, claim, point, &asked.request.into_end()).await;
        }
        // What memory holds does not say how the history goes on; the next claim loads it.
        (cancel, Source::Memory { .. }) if cancel.is_some() || cause == BlockCause::MayPass => {
            give_back(engine, claim.lease, None).await;
        }
        _ => {
            let report = format!("its code does not fit its history: {report}");
            block(engine, claim.lease, &origin.of, cause, report).await;
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
