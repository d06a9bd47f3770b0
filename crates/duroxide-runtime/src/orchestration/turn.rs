//! One claimed turn, from the claim to its commit. The order of decisions is the order of this file.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::defect::Defect;
use duroxide_core::provider::{ClaimedTurn, Incarnation, OrchestrationItem, TurnHistory};
use duroxide_core::replay::{ExecutionStart, ParentLink};
use duroxide_core::{Event, WorkItem};
use futures_util::FutureExt as _;
use futures_util::future::Either;
use semver::Version;
use tokio::time::Instant;

use super::blocked::block;
use super::claim::{ClaimInHand, REST};
use super::commit::{give_back, try_later};
use super::drive::TurnStart;
use super::forced::{self, CancelRequest, Consumed, ForcedEnd};
use super::from_parent;
use super::plan::{ExecutionRef, TurnCommit};
use super::report::FirstTurn;
use super::rewind::{self, Asked};
use super::run::{self, ReadyTurn, Source, TurnRun};
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

    fn next<'a>(self, engine: &'a Arc<Engine>, worker_id: &'a str) -> Next<'a> {
        #[cfg(feature = "test-hooks")]
        if let Some(delay) =
            crate::test_hooks::get_orch_processing_delay(&self.claimed.item.instance)
        {
            return Next::settle(async move {
                tokio::time::sleep(delay).await;
                self.taken_up(engine, worker_id).run(engine).await;
            });
        }
        self.taken_up(engine, worker_id)
    }

    fn taken_up<'a>(self, engine: &'a Arc<Engine>, worker_id: &'a str) -> Next<'a> {
        let Self {
            claimed,
            lease,
            memory,
            kept,
        } = self;
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
        Next::of(engine, claim, claimed, kept)
    }
}

/// Runs one claimed turn. What becomes of it is found out before the future begins: arguments of an `async fn` have two places
/// in its future, and the future of a turn is allocated for each turn.
pub(super) fn run<'a>(
    engine: &'a Arc<Engine>,
    opened: OpenedTurn,
    worker_id: &'a str,
) -> impl Future<Output = ()> + Send + 'a {
    let started = Instant::now();
    let ran = opened.next(engine, worker_id).run(engine);
    ran.map(move |()| {
        let lasted = started.elapsed().as_secs_f64() * 1_000.0;
        engine.metrics.record_turn_duration(lasted);
    })
}

/// What a claimed turn comes to.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every turn runs, and is moved once, into its future"
)]
enum Next<'a> {
    /// Its code runs.
    Run(ReadyTurn<'a>),
    /// It cannot, or need not. Rare, and so on the heap: the task of a healthy turn is allocated for each turn, and has no room
    /// for what nearly none of them needs.
    Settle(Pin<Box<dyn Future<Output = ()> + Send + 'a>>),
}

impl<'a> Next<'a> {
    fn settle(how: impl Future<Output = ()> + Send + 'a) -> Self {
        Self::Settle(Box::pin(how))
    }

    fn run(self, engine: &'a Arc<Engine>) -> impl Future<Output = ()> + Send + 'a {
        match self {
            Self::Run(ready) => Either::Left(run::run(engine, ready)),
            Self::Settle(settled) => Either::Right(settled),
        }
    }

    fn of(
        engine: &'a Arc<Engine>,
        claim: ClaimInHand<'a>,
        claimed: ClaimedTurn,
        kept: Option<Kept>,
    ) -> Self {
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
            return Self::settle(give_back(engine, claim.lease, Some(left)));
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
                return Self::settle(try_later(engine, claim, REST));
            }
        }
        if !is_replayable(engine, &item.history) {
            tracing::warn!(
                target: "duroxide::runtime",
                instance_id = %item.instance,
                "Execution pinned at incompatible version, abandoning (runtime-side check)"
            );
            return Self::settle(give_back(engine, claim.lease, Some(REST)));
        }
        if claim.attempt > engine.options.max_attempts {
            let spent = Spent {
                claim,
                item,
                message_attempts,
                history,
                kept,
            };
            return Self::settle(spent.settle(engine));
        }
        Self::of_history(engine, claim, item, history, kept)
    }

    /// Where the turn starts from: what memory holds, if the store confirms it, or the record.
    fn of_history(
        engine: &'a Arc<Engine>,
        claim: ClaimInHand<'a>,
        item: OrchestrationItem,
        history: TurnHistory,
        kept: Option<Kept>,
    ) -> Self {
        if item.history_error.is_some() {
            return Self::settle(claim.undecodable(engine, item));
        }
        match history {
            TurnHistory::Unchanged(position) => match kept {
                Some(kept)
                    if kept.position() == position || Defect::LateAnswerReplacesNewer.is_on() =>
                {
                    engine.metrics.record_sticky(true);
                    claim.go_on(item, kept)
                }
                // It left memory after the claim; without the history the dispatcher can only ask again.
                Some(_) | None => Self::settle(give_back(engine, claim.lease, None)),
            },
            TurnHistory::Loaded => {
                drop(kept);
                engine.metrics.record_sticky(false);
                claim.with_history(engine, item)
            }
        }
    }
}

/// A claim that was tried more often than it may be.
struct Spent<'a> {
    claim: ClaimInHand<'a>,
    item: OrchestrationItem,
    message_attempts: Vec<u32>,
    history: TurnHistory,
    kept: Option<Kept>,
}

impl Spent<'_> {
    /// Sets the message aside that is at fault and goes on; where none is, the instance is poison. One whose code is not here
    /// waits for it.
    async fn settle(self, engine: &Arc<Engine>) {
        let Self {
            claim,
            mut item,
            message_attempts,
            history,
            kept,
        } = self;
        let missing = missing_handler(engine, &item);
        if let (Some(handler), OnUnregistered::Wait) = (&missing, engine.options.on_unregistered())
        {
            without_code::handle(engine, claim, item, handler).await;
            return;
        }
        // Without its code no message of it is at fault.
        let token = claim.lease.token();
        let isolated = match missing {
            Some(_) => Isolated::No,
            None => poison::isolate(engine, token, &mut item, &message_attempts).await,
        };
        match isolated {
            Isolated::Yes => {
                let next = Next::of_history(engine, claim, item, history, kept);
                next.run(engine).await;
            }
            Isolated::No => {
                let details = poison::details(&item, claim.attempt, engine.options.max_attempts);
                let how = ForcedEnd::Fail(details);
                forced::end(engine, claim, item, how).await;
            }
            Isolated::StoreAway => give_back(engine, claim.lease, Some(REST)).await,
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

/// The handler of an instance whose code is not here: the recorded one, or the one that its next execution asks for.
fn missing_handler(engine: &Engine, item: &OrchestrationItem) -> Option<String> {
    let standing = Standing::of(&item.history);
    let recorded = item.history.iter().find_map(Event::started_handler);
    let Some((name, version)) = recorded.filter(|_| standing != Standing::BetweenExecutions) else {
        return missing_beginning(engine, standing, &item.messages);
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

impl<'a> ClaimInHand<'a> {
    /// An instance whose history does not decode: it waits for code that can read it, or is poison in the end.
    async fn undecodable(self, engine: &Engine, item: OrchestrationItem) {
        if engine.options.on_divergence == OnDivergence::Fail {
            try_later(engine, self, REST).await;
            return;
        }
        if let Some(request) = CancelRequest::of(&item.history, &item.messages) {
            forced::end(engine, self, item, request.into_end()).await;
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
    fn go_on(self, mut item: OrchestrationItem, kept: Kept) -> Next<'a> {
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
        Next::Run(ReadyTurn {
            claim: self,
            run,
            begin: TurnStart::Kept(kept.execution),
            messages: batch.messages,
        })
    }

    fn with_history(self, engine: &'a Arc<Engine>, mut item: OrchestrationItem) -> Next<'a> {
        let standing = Standing::of(&item.history);
        let parent = ParentLink::recorded_in(&item.history);
        match standing {
            Standing::Ended => {
                let asked = rewind::asked(engine, &item);
                if let Asked::Granted(rewind) = asked {
                    return Next::settle(rewind::run(engine, self, item, *rewind));
                }
                let mut batch = Batch::sort(&mut item, standing, parent.as_ref());
                if matches!(asked, Asked::Refused) {
                    let again = rewind::repeated_end(&item.history, parent.as_ref());
                    batch.refusals.extend(again);
                }
                Next::settle(self.acknowledge(engine, item, batch, "ended"))
            }
            Standing::Running => self.replay(engine, item, parent),
            Standing::Unborn | Standing::BetweenExecutions => {
                if let Some(name) = missing_beginning(engine, standing, &item.messages) {
                    return self.without_code(engine, item, name);
                }
                let mut batch = Batch::sort(&mut item, standing, parent.as_ref());
                match batch.beginning.take() {
                    Some(beginning) => self.begin(engine, item, batch, beginning),
                    None if standing == Standing::Unborn
                        || Defect::MessagesLostBetweenExecutions.is_on() =>
                    {
                        Next::settle(self.acknowledge(engine, item, batch, "unknown_instance"))
                    }
                    None => Next::settle(self.await_successor(engine, item.instance)),
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
    async fn await_successor(self, engine: &Engine, instance: String) {
        let delay = engine.options.unregistered_backoff.delay(self.attempt);
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %instance,
            "CAN successor start not visible, deferring the batch for {delay:?}"
        );
        try_later(engine, self, delay).await;
    }

    fn begin(
        self,
        engine: &'a Arc<Engine>,
        item: OrchestrationItem,
        batch: Batch,
        mut beginning: Beginning,
    ) -> Next<'a> {
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
            return Next::settle(give_back(engine, self.lease, None));
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
        Next::Run(ReadyTurn {
            claim: self,
            run,
            begin,
            messages,
        })
    }

    fn replay(
        self,
        engine: &'a Arc<Engine>,
        mut item: OrchestrationItem,
        parent: Option<ParentLink>,
    ) -> Next<'a> {
        let recorded = item.history.iter().find_map(Event::started_handler);
        let (name, version) =
            recorded.unwrap_or_else(|| (item.orchestration_name.clone(), item.version.clone()));
        let resolved = engine.orchestrations.resolve_recorded(&name, &version);
        let Some((_, handler)) = resolved else {
            return self.without_code(engine, item, name);
        };
        if let Some(report) =
            engine
                .blocked
                .by_this_code(&item.instance, self.incarnation, item.execution_id)
        {
            return Next::settle(self.still_blocked(engine, item, report));
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
        Next::Run(ReadyTurn {
            claim: self,
            run,
            begin,
            messages: batch.messages,
        })
    }

    fn without_code(
        self,
        engine: &'a Engine,
        item: OrchestrationItem,
        handler: String,
    ) -> Next<'a> {
        Next::settle(async move { without_code::handle(engine, self, item, &handler).await })
    }
}
