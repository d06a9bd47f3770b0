//! One claimed turn, from the claim to its commit. The order of decisions is the order of this file.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::defect::Defect;
use duroxide_core::provider::{ClaimedTurn, Incarnation, OrchestrationItem, TurnHistory};
use duroxide_core::replay::{ExecutionStart, ParentLink};
use duroxide_core::{Event, WorkItem};
use semver::Version;
use tokio::time::Instant;

use super::blocked::block;
use super::claim::{ClaimInHand, REST};
use super::commit::{give_back, try_later};
use super::drive::TurnStart;
use super::finish::{Source, TurnRun};
use super::forced::{self, CancelRequest, Consumed, ForcedEnd};
use super::from_parent;
use super::plan::{ExecutionRef, TurnCommit};
use super::report::FirstTurn;
use super::rewind::{self, Asked};
use super::sort::{Batch, Beginning, Standing};
use super::spans;

use super::poison::{self, Isolated};
use super::without_code;
use crate::engine::{BlockCause, Engine, Kept, OpenTurn};
use crate::leases::{Held, Leased, Terms};
use crate::options::{OnDivergence, OnUnregistered, renewal_interval};

/// What a turn is called in reports.
pub(super) const TURN: &str = "a turn of";

/// A claimed turn whose lease is kept from now on, with what memory holds of its instance.
pub(super) struct OpenedTurn {
    claimed: ClaimedTurn,
    lease: Held,
    memory: OpenTurn,
    kept: Option<Kept>,
}

impl OpenedTurn {
    pub(super) fn new(engine: &Engine, claimed: ClaimedTurn) -> Self {
        let options = &engine.options;
        let timeout = options.orchestrator_lock_timeout;
        let terms = Terms {
            timeout,
            interval: renewal_interval(timeout, options.orchestrator_lock_renewal_buffer),
            renew_for: Some(options.turn_duration_max),
            listen_every: Duration::ZERO,
        };
        let (memory, kept) = engine.sticky.open(&claimed.item.instance);
        let subject = Arc::from(claimed.item.instance.as_str());
        Self {
            lease: engine
                .leases
                .hold(Leased::Turn, &claimed.lock_token, subject, terms),
            memory,
            kept,
            claimed,
        }
    }

    /// The life of the instance, which tells a turn that never ends from one of a later life.
    pub(super) fn life(&self) -> Option<Incarnation> {
        self.claimed.incarnation
    }

    /// The instance, for a report about a turn that takes long.
    pub(super) fn subject(&self) -> Arc<str> {
        Arc::clone(self.lease.subject())
    }
}

/// Runs one claimed turn.
pub(super) async fn run(engine: &Arc<Engine>, opened: OpenedTurn, worker_id: &str) {
    let started = Instant::now();
    #[cfg(feature = "test-hooks")]
    if let Some(delay) = crate::test_hooks::get_orch_processing_delay(&opened.claimed.item.instance)
    {
        tokio::time::sleep(delay).await;
    }
    let OpenedTurn {
        claimed,
        lease,
        memory,
        kept,
    } = opened;
    let claim = ClaimInHand {
        worker_id,
        lease,
        memory,
        incarnation: claimed.incarnation,
        is_born: claimed.history != TurnHistory::Loaded || !claimed.item.history.is_empty(),
        attempt: engine
            .excuses
            .discount(&claimed.item.instance, claimed.attempt_count),
        is_loaded: claimed.history == TurnHistory::Loaded,
    };
    process(engine, claim, claimed, kept).await;
    engine
        .metrics
        .record_turn_duration(started.elapsed().as_secs_f64() * 1_000.0);
}

async fn process(
    engine: &Arc<Engine>,
    claim: ClaimInHand<'_>,
    claimed: ClaimedTurn,
    kept: Option<Kept>,
) {
    let ClaimedTurn {
        mut item,
        message_attempts,
        history,
        ..
    } = claimed;
    from_parent::recognise(&mut item, kept.as_ref());
    if let Some(left) = engine.not_before.left(&item.instance, claim.life())
        && CancelRequest::among(&item.messages).is_none()
    {
        // A message came while the instance waits for its next attempt.
        give_back(engine, claim.lease, Some(left)).await;
        return;
    }
    let options = &engine.options;
    let limit = options
        .orchestrator_lock_timeout
        .min(options.turn_duration_max);
    if claim.attempt > 1
        && engine
            .executor
            .is_stuck_at(TURN, &item.instance, claim.incarnation, limit)
    {
        // An earlier turn of it does not come to its end on this node; another would not either. It is counted, so that
        // code that never returns becomes poison without taking thread after thread.
        if claim.attempt <= engine.options.max_attempts {
            try_later(engine, claim, REST).await;
            return;
        }
    }
    if !is_replayable(engine, &item.history) {
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %item.instance,
            "Execution pinned at incompatible version, abandoning (runtime-side check)"
        );
        give_back(engine, claim.lease, Some(REST)).await;
        return;
    }
    if claim.attempt > engine.options.max_attempts {
        let missing = missing_handler(engine, &item);
        if let (Some(handler), OnUnregistered::Wait) = (&missing, engine.options.on_unregistered())
        {
            Box::pin(without_code::handle(engine, claim, item, handler)).await;
            return;
        }
        // Without its code no message of it is at fault.
        let token = claim.lease.token();
        let isolated = match missing {
            Some(_) => Isolated::No,
            None => poison::isolate(engine, token, &mut item, &message_attempts).await,
        };
        match isolated {
            Isolated::Yes => {}
            Isolated::No => {
                let details = poison::details(&item, claim.attempt, engine.options.max_attempts);
                let how = ForcedEnd::Fail(details);
                Box::pin(forced::end(engine, claim, item, how)).await;
                return;
            }
            Isolated::StoreAway => {
                give_back(engine, claim.lease, Some(REST)).await;
                return;
            }
        }
    }
    if item.history_error.is_some() {
        Box::pin(claim.undecodable(engine, item)).await;
        return;
    }
    match history {
        TurnHistory::Unchanged(position) => match kept {
            Some(kept)
                if kept.position() == position || Defect::LateAnswerReplacesNewer.is_on() =>
            {
                engine.metrics.record_sticky(true);
                claim.go_on(engine, item, kept).await;
            }
            // It left memory after the claim; without the history the dispatcher can only ask again.
            Some(_) | None => {
                give_back(engine, claim.lease, None).await;
            }
        },
        TurnHistory::Loaded => {
            drop(kept);
            engine.metrics.record_sticky(false);
            claim.with_history(engine, item).await;
        }
    }
}

fn is_replayable(engine: &Engine, history: &[Event]) -> bool {
    let Some(first) = history.first() else {
        return true;
    };
    match Version::parse(&first.duroxide_version) {
        Ok(version) => engine.filter.is_compatible(&version),
        Err(_) => true,
    }
}

/// The handler of an instance whose code is not here: the recorded one, or the one that its start asks for.
fn missing_handler(engine: &Engine, item: &OrchestrationItem) -> Option<String> {
    let Some((name, version)) = item.history.iter().find_map(Event::started_handler) else {
        return missing_beginning(engine, Standing::of(&item.history), &item.messages);
    };
    let found = engine.orchestrations.resolve_recorded(&name, &version);
    found.is_none().then_some(name)
}

/// The handler that a start or continue-as-new among these messages asks for, if it is not here.
fn missing_beginning(engine: &Engine, standing: Standing, messages: &[WorkItem]) -> Option<String> {
    let begins = |message: &&WorkItem| match message {
        WorkItem::StartOrchestration { .. } => standing == Standing::Unborn,
        WorkItem::ContinueAsNew { .. } => true,
        _ => false,
    };
    let (name, version) = messages.iter().find(begins)?.begins()?;
    let found = engine.orchestrations.resolve_start(name, version);
    found.is_none().then(|| name.to_owned())
}

impl ClaimInHand<'_> {
    /// An instance whose history does not decode: it waits for code that can read it, or is poison in the end.
    async fn undecodable(self, engine: &Engine, item: OrchestrationItem) {
        if engine.options.on_divergence == OnDivergence::Fail {
            try_later(engine, self, REST).await;
            return;
        }
        if let Some(request) = CancelRequest::of(&item.history, &item.messages) {
            Box::pin(forced::end(engine, self, item, request.into_end())).await;
            return;
        }
        let report = format!(
            "its history does not decode: {}",
            item.history_error.as_deref().unwrap_or_default()
        );
        let of = ExecutionRef {
            instance: item.instance,
            execution_id: item.execution_id,
            name: item.orchestration_name,
            parent: None,
            life: self.incarnation,
        };
        block(engine, self.lease, &of, BlockCause::MayPass, report).await;
    }

    /// An execution that this code cannot run, as an earlier turn of it showed.
    async fn still_blocked(self, engine: &Engine, item: OrchestrationItem, report: String) {
        if let Some(request) = CancelRequest::of(&item.history, &item.messages) {
            forced::end(engine, self, item, request.into_end()).await;
            return;
        }
        let of = ExecutionRef {
            instance: item.instance,
            execution_id: item.execution_id,
            name: item.orchestration_name,
            parent: None,
            life: self.incarnation,
        };
        block(engine, self.lease, &of, BlockCause::ThisCode, report).await;
    }

    /// Goes on with an orchestration that was kept in memory.
    async fn go_on(self, engine: &Arc<Engine>, mut item: OrchestrationItem, kept: Kept) {
        let parent = kept.execution.parent().cloned();
        let batch = Batch::sort(&mut item, Standing::Running, parent.as_ref());
        let run = TurnRun {
            of: ExecutionRef {
                instance: item.instance,
                execution_id: kept.execution.execution_id(),
                name: kept.execution.name().to_owned(),
                parent,
                life: self.incarnation,
            },
            first: None,
            source: Source::Memory { bytes: kept.bytes },
            refusals: batch.refusals,
        };
        let begin = TurnStart::Kept(kept.execution);
        self.run(engine, run, begin, batch.messages).await;
    }

    async fn with_history(self, engine: &Arc<Engine>, mut item: OrchestrationItem) {
        let standing = Standing::of(&item.history);
        let parent = ParentLink::recorded_in(&item.history);
        match standing {
            Standing::Ended => {
                let asked = rewind::asked(engine, &item);
                if let Asked::Granted(rewind) = asked {
                    Box::pin(rewind::run(engine, self, item, *rewind)).await;
                    return;
                }
                let mut batch = Batch::sort(&mut item, standing, parent.as_ref());
                if matches!(asked, Asked::Refused) {
                    let again = rewind::repeated_end(&item.history, parent.as_ref());
                    batch.refusals.extend(again);
                }
                Box::pin(self.acknowledge(engine, item, batch, "ended")).await;
            }
            Standing::Running => self.replay(engine, item, parent).await,
            Standing::Unborn | Standing::BetweenExecutions => {
                if let Some(name) = missing_beginning(engine, standing, &item.messages) {
                    Box::pin(without_code::handle(engine, self, item, &name)).await;
                    return;
                }
                let mut batch = Batch::sort(&mut item, standing, parent.as_ref());
                match batch.beginning.take() {
                    Some(beginning) => self.begin(engine, item, batch, beginning).await,
                    None if standing == Standing::Unborn
                        || Defect::MessagesLostBetweenExecutions.is_on() =>
                    {
                        Box::pin(self.acknowledge(engine, item, batch, "unknown_instance")).await;
                    }
                    None => self.await_successor(engine, &item.instance).await,
                }
            }
        }
    }

    /// Consumes messages that can have no effect, and answers starts that came too late.
    async fn acknowledge(
        self,
        engine: &Engine,
        item: OrchestrationItem,
        batch: Batch,
        reason: &'static str,
    ) {
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %item.instance,
            "messages for an instance that has ended or never began are consumed without effect"
        );
        let mut writes = TurnCommit::nothing(item.execution_id);
        writes.to_orchestrators = batch.refusals;
        let consumed = forced::consume(engine, self.incarnation, self.lease, item, writes);
        if consumed.await == Consumed::Yes {
            for _ in &batch.messages {
                engine.metrics.record_dropped_message(reason);
            }
        }
    }

    /// The execution has ended and the message that begins the next one is not visible yet.
    async fn await_successor(self, engine: &Engine, instance: &str) {
        let delay = engine.options.unregistered_backoff.delay(self.attempt);
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %instance,
            "CAN successor start not visible, deferring the batch for {delay:?}"
        );
        try_later(engine, self, delay).await;
    }

    async fn begin(
        self,
        engine: &Arc<Engine>,
        item: OrchestrationItem,
        batch: Batch,
        mut beginning: Beginning,
    ) {
        if !beginning.continues {
            let carried = &mut beginning.carried;
            spans::begin_trace(engine, &item.instance, self.incarnation, carried);
        }
        let version = beginning.version.as_deref();
        let resolved = engine
            .orchestrations
            .resolve_start(&beginning.name, version);
        let Some((version, handler)) = resolved else {
            // The version policy changed since the look above; the next claim sees it.
            give_back(engine, self.lease, None).await;
            return;
        };
        let run = TurnRun {
            of: ExecutionRef {
                instance: item.instance.clone(),
                execution_id: beginning.execution_id,
                name: beginning.name.clone(),
                parent: beginning.parent.clone(),
                life: self.incarnation,
            },
            first: Some(FirstTurn::of(beginning.continues)),
            source: Source::Beginning,
            refusals: batch.refusals,
        };
        let start = ExecutionStart {
            instance: item.instance,
            execution_id: beginning.execution_id,
            name: beginning.name,
            version: version.to_string(),
            input: beginning.input,
            parent: beginning.parent,
            carried: beginning.carried,
            custom_status: beginning.custom_status,
        };
        let kv = match Defect::KeyValuesLostAtContinue.is_on() {
            true => std::collections::HashMap::new(),
            false => item.kv_snapshot,
        };
        let begin = TurnStart::New { start, handler, kv };
        let lost = beginning.continues && Defect::MessagesLostBetweenExecutions.is_on();
        let messages = match lost {
            true => Vec::new(),
            false => batch.messages,
        };
        self.run(engine, run, begin, messages).await;
    }

    async fn replay(
        self,
        engine: &Arc<Engine>,
        mut item: OrchestrationItem,
        parent: Option<ParentLink>,
    ) {
        let recorded = item.history.iter().find_map(Event::started_handler);
        let (name, version) =
            recorded.unwrap_or_else(|| (item.orchestration_name.clone(), item.version.clone()));
        let resolved = engine.orchestrations.resolve_recorded(&name, &version);
        let Some((_, handler)) = resolved else {
            Box::pin(without_code::handle(engine, self, item, &name)).await;
            return;
        };
        if let Some(report) =
            engine
                .blocked
                .by_this_code(&item.instance, self.incarnation, item.execution_id)
        {
            Box::pin(self.still_blocked(engine, item, report)).await;
            return;
        }
        let batch = Batch::sort(&mut item, Standing::Running, parent.as_ref());
        let history: Arc<[Event]> = Arc::from(item.history);
        let run = TurnRun {
            of: ExecutionRef {
                instance: item.instance,
                execution_id: item.execution_id,
                name,
                parent,
                life: self.incarnation,
            },
            first: None,
            source: Source::Record(Arc::clone(&history)),
            refusals: batch.refusals,
        };
        let begin = TurnStart::Recorded {
            history,
            handler,
            kv: item.kv_snapshot,
        };
        self.run(engine, run, begin, batch.messages).await;
    }

    async fn run(
        self,
        engine: &Arc<Engine>,
        run: TurnRun,
        begin: TurnStart,
        messages: Vec<WorkItem>,
    ) {
        super::finish::run(engine, self, run, begin, messages).await;
    }
}
