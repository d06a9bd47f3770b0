//! What becomes of a claimed turn: run its code, end it without code, or give it back. In: a claim. Out: a [`Next`]:
//! `run.rs` runs the code; where no code runs, `nothing_to_run`, `poison`, `rewind` or `without_code` end the claim, or
//! it is given back. Never polls the author's code.

use std::pin::Pin;
use std::sync::Arc;

use duroxide_core::Event;
use duroxide_core::defect::Defect;
use duroxide_core::provider::{CachedHistory, ClaimedTurn, OrchestrationItem, TurnHistory};
use duroxide_core::replay::{ExecutionStart, ParentLink};
use futures_util::FutureExt as _;
use futures_util::future::Either;
use semver::Version;
use tokio::time::Instant;

use super::claim_in_hand::ClaimInHand;
use super::drive::TurnStart;
use super::forced::CancelRequest;
use super::from_parent;
use super::give_back::{INSTANCE_REST, give_back, try_later};
use super::leased_turn::{LeasedTurn, TURN};
use super::nothing_to_run;
use super::plan::ExecutionRef;
use super::poison::PoisonClaim;
use super::rewind::{self, Asked};
use super::run::{self, ReadyTurn, Source, TurnOrigin};
use super::sort::{Batch, Beginning, HistoryEnd};
use super::spans;
use super::turn_log::StartedBy;
use super::without_code::{self, missing_beginning};
use crate::engine::{Engine, Kept};

/// Runs one claimed turn. It decides what becomes of the turn before the future begins: arguments of an `async fn` have
/// two places in its future, and each turn allocates one.
pub(super) fn run<'a>(
    engine: &'a Arc<Engine>,
    leased: LeasedTurn,
    worker_id: &'a str,
) -> impl Future<Output = ()> + Send + 'a {
    let started = Instant::now();
    let ran = Next::of_leased(engine, leased, worker_id).run(engine);
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
    /// It cannot, or need not. Rare, and so on the heap: each turn allocates a task, which has no room for what nearly
    /// no turn needs.
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

    fn of_leased(engine: &'a Arc<Engine>, leased: LeasedTurn, worker_id: &'a str) -> Self {
        #[cfg(feature = "test-hooks")]
        if let Some(delay) = crate::test_hooks::get_orch_processing_delay(leased.instance()) {
            return Self::settle(async move {
                tokio::time::sleep(delay).await;
                let (claim, claimed, kept) = leased.take_up(engine, worker_id);
                Self::of(engine, claim, claimed, kept).run(engine).await;
            });
        }
        let (claim, claimed, kept) = leased.take_up(engine, worker_id);
        Self::of(engine, claim, claimed, kept)
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
        if let Some(left) = engine
            .not_before
            .left(&item.instance, claim.stored_incarnation())
            && CancelRequest::among(&item.messages).is_none()
        {
            // A message came while the instance rests before its next attempt.
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
            // An earlier turn of it does not come to its end on this node; another would not either. It is counted, so
            // that code that never returns becomes poison without taking thread after thread.
            if claim.attempt <= engine.options.max_attempts {
                return Self::settle(try_later(engine, claim, INSTANCE_REST));
            }
        }
        if !is_replayable(engine, &item.history) {
            tracing::warn!(
                target: "duroxide::runtime",
                instance_id = %item.instance,
                "Execution pinned at incompatible version, abandoning (runtime-side check)"
            );
            return Self::settle(give_back(engine, claim.lease, Some(INSTANCE_REST)));
        }
        if claim.attempt > engine.options.max_attempts {
            let poison = PoisonClaim {
                claim,
                item,
                message_attempts,
                history,
                kept,
            };
            return Self::settle(Self::of_poison(engine, poison));
        }
        Self::of_history(engine, claim, item, history, kept)
    }

    /// Goes on with what is left of a claim that was tried too often.
    async fn of_poison(engine: &'a Arc<Engine>, poison: PoisonClaim<'a>) {
        let Some(left) = poison.settle(engine).await else {
            return;
        };
        let PoisonClaim {
            claim,
            item,
            history,
            kept,
            ..
        } = left;
        let next = Next::of_history(engine, claim, item, history, kept);
        next.run(engine).await;
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
            return Self::settle(nothing_to_run::undecodable(engine, claim, item));
        }
        match history {
            TurnHistory::Unchanged(position) => match kept {
                Some(kept) if is_current(&kept, position) => {
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

/// Whether memory holds the state that the store confirmed.
fn is_current(kept: &Kept, confirmed: CachedHistory) -> bool {
    if Defect::LateAnswerReplacesNewer.is_on() {
        return true;
    }
    kept.position() == confirmed
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

impl<'a> ClaimInHand<'a> {
    /// Goes on with an orchestration that was kept in memory.
    fn go_on(self, mut item: OrchestrationItem, kept: Kept) -> Next<'a> {
        let parent = kept.execution.parent().cloned();
        let batch = Batch::sort(&mut item, HistoryEnd::Running, parent.as_ref());
        let of = ExecutionRef {
            instance: item.instance,
            execution_id: kept.execution.execution_id(),
            name: kept.execution.name().to_owned(),
            parent,
            incarnation: self.incarnation,
        };
        let start = TurnStart::Kept {
            execution: kept.execution,
            bytes: kept.bytes,
        };
        let origin = TurnOrigin {
            of,
            began: None,
            source: Source::of(&start),
            late_start_answers: batch.late_start_answers,
        };
        Next::Run(ReadyTurn {
            claim: self,
            origin,
            start,
            messages: batch.messages,
        })
    }

    fn with_history(self, engine: &'a Arc<Engine>, mut item: OrchestrationItem) -> Next<'a> {
        let history_end = HistoryEnd::of(&item.history);
        let parent = ParentLink::recorded_in(&item.history);
        match history_end {
            HistoryEnd::Ended => {
                let asked = rewind::asked(engine, &item);
                if let Asked::Granted(rewind) = asked {
                    return Next::settle(rewind::run(engine, self, item, *rewind));
                }
                let mut batch = Batch::sort(&mut item, history_end, parent.as_ref());
                if matches!(asked, Asked::Refused) {
                    let again = rewind::repeated_end(&item.history, parent.as_ref());
                    batch.late_start_answers.extend(again);
                }
                Next::settle(nothing_to_run::acknowledge(
                    engine, self, item, batch, "ended",
                ))
            }
            HistoryEnd::Running => self.replay(engine, item, parent),
            HistoryEnd::Unborn | HistoryEnd::BetweenExecutions => {
                if let Some(name) = missing_beginning(engine, history_end, &item.messages) {
                    return self.without_code(engine, item, name);
                }
                let mut batch = Batch::sort(&mut item, history_end, parent.as_ref());
                let mut is_unknown = history_end == HistoryEnd::Unborn;
                is_unknown |= Defect::MessagesLostBetweenExecutions.is_on();
                match batch.beginning.take() {
                    Some(beginning) => self.begin(engine, item, batch, beginning),
                    None if is_unknown => Next::settle(nothing_to_run::acknowledge(
                        engine,
                        self,
                        item,
                        batch,
                        "unknown_instance",
                    )),
                    None => {
                        Next::settle(nothing_to_run::await_successor(engine, self, item.instance))
                    }
                }
            }
        }
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
        let of = ExecutionRef {
            instance: item.instance.clone(),
            execution_id: beginning.execution_id,
            name: beginning.name.clone(),
            parent: beginning.parent.clone(),
            incarnation: self.incarnation,
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
        let (mut kv, mut messages) = (item.kv_snapshot, batch.messages);
        if Defect::KeyValuesLostAtContinue.is_on() {
            kv.clear();
        }
        if Defect::MessagesLostBetweenExecutions.is_on() && beginning.continues {
            messages.clear();
        }
        let start = TurnStart::New { start, handler, kv };
        let origin = TurnOrigin {
            of,
            began: Some(StartedBy::of(beginning.continues)),
            source: Source::of(&start),
            late_start_answers: batch.late_start_answers,
        };
        Next::Run(ReadyTurn {
            claim: self,
            origin,
            start,
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
            return Next::settle(nothing_to_run::still_blocked(engine, self, item, report));
        }
        let batch = Batch::sort(&mut item, HistoryEnd::Running, parent.as_ref());
        let start = TurnStart::Recorded {
            history: Arc::from(item.history),
            handler,
            kv: item.kv_snapshot,
        };
        let origin = TurnOrigin {
            of: ExecutionRef {
                instance: item.instance,
                execution_id: item.execution_id,
                name,
                parent,
                incarnation: self.incarnation,
            },
            began: None,
            source: Source::of(&start),
            late_start_answers: batch.late_start_answers,
        };
        Next::Run(ReadyTurn {
            claim: self,
            origin,
            start,
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
