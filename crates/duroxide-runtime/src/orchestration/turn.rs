//! One claimed turn from claim to commit. The order of decisions is the order of this file.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use duroxide_core::provider::{ClaimedTurn, OrchestrationItem, TurnHistory};
use duroxide_core::replay::{
    Divergence, ExecutionStart, FailedBy, Outcome, ParentLink, count_turns, fail_without_replay,
};
use duroxide_core::{AppErrorKind, ErrorDetails, Event, OrchestrationHandler, WorkItem};
use semver::Version;
use tokio::time::Instant;

use super::batch::{Batch, Beginning, Standing};
use super::commit::{Committed, commit, release};
use super::drive::{Driven, NotDriven, Seed, drive};
use super::facts::{Facts, FirstTurn, note_asides, started_children};
use super::plan::{Author, plan};
use super::poison;
use super::refused::{Known, Refused};
use crate::engine::Engine;
use crate::leases::Leased;
use crate::options::{OnDivergence, renewal_interval};
use crate::runtime::BlockedInstance;

/// How long an instance rests that this runtime cannot work on.
const REST: Duration = Duration::from_secs(1);

/// Runs one claimed turn.
pub(super) async fn run(engine: &Arc<Engine>, claimed: ClaimedTurn, worker_id: &str) {
    let started = Instant::now();
    let timeout = engine.options.orchestrator_lock_timeout;
    let interval = renewal_interval(timeout, engine.options.orchestrator_lock_renewal_buffer);
    let held = engine
        .leases
        .hold(Leased::Turn, &claimed.lock_token, timeout, interval);
    #[cfg(feature = "test-hooks")]
    if let Some(delay) = crate::test_hooks::get_orch_processing_delay(&claimed.item.instance) {
        tokio::time::sleep(delay).await;
    }
    process(engine, claimed, worker_id).await;
    drop(held);
    engine
        .metrics
        .record_turn_duration(started.elapsed().as_secs_f64() * 1_000.0);
}

async fn process(engine: &Arc<Engine>, mut claimed: ClaimedTurn, worker_id: &str) {
    if !is_replayable(engine, &claimed.item.history) {
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %claimed.item.instance,
            "Execution pinned at incompatible version, abandoning (runtime-side check)"
        );
        release(engine, &claimed.lock_token, Some(REST), false).await;
        return;
    }
    if !poison::isolate(engine, &mut claimed).await {
        engine.sticky.take(&claimed.item.instance);
        poison::end(engine, claimed, worker_id).await;
        return;
    }
    if claimed.item.history_error.is_some() {
        release(engine, &claimed.lock_token, Some(REST), false).await;
        return;
    }
    let kept = engine.sticky.take(&claimed.item.instance);
    let turn = Claimed {
        worker_id,
        lock_token: claimed.lock_token,
        attempt: claimed.attempt_count,
    };
    match (claimed.history, kept) {
        (TurnHistory::Unchanged, Some(execution)) => {
            engine.metrics.record_sticky(true);
            let parent = execution.parent().cloned();
            let batch = Batch::sort(&mut claimed.item, Standing::Running, parent.as_ref());
            let author = Author {
                instance: claimed.item.instance,
                execution_id: execution.execution_id(),
                name: execution.name().to_owned(),
                parent,
            };
            let seed = Seed::Kept(Box::new(execution));
            turn.run(engine, author, seed, batch, None).await;
        }
        // It left memory between the claim and now; without the history nothing can be done but to ask again.
        (TurnHistory::Unchanged, None) => release(engine, &turn.lock_token, None, true).await,
        (TurnHistory::Loaded, _) => {
            engine.metrics.record_sticky(false);
            turn.with_history(engine, claimed.item).await;
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

/// A claim that is being worked on.
struct Claimed<'a> {
    worker_id: &'a str,
    lock_token: String,
    attempt: u32,
}

impl Claimed<'_> {
    async fn with_history(self, engine: &Arc<Engine>, mut item: OrchestrationItem) {
        let standing = Standing::of(&item.history);
        let parent = poison::recorded_parent(&item.history);
        let mut batch = Batch::sort(&mut item, standing, parent.as_ref());
        match standing {
            Standing::Ended => self.acknowledge(engine, &item, batch, "ended").await,
            Standing::Running => self.replay(engine, item, batch, parent).await,
            Standing::Unborn | Standing::BetweenExecutions => match batch.beginning.take() {
                Some(beginning) => self.begin(engine, item, batch, beginning).await,
                None if standing == Standing::Unborn => {
                    self.acknowledge(engine, &item, batch, "unknown_instance")
                        .await;
                }
                None => {
                    let delay = engine.options.unregistered_backoff.delay(self.attempt);
                    tracing::warn!(
                        target: "duroxide::runtime",
                        instance_id = %item.instance,
                        "CAN successor start not visible, deferring the batch for {delay:?}"
                    );
                    release(engine, &self.lock_token, Some(delay), false).await;
                }
            },
        }
    }

    /// Consumes messages that can have no effect, and answers starts that came too late.
    async fn acknowledge(
        self,
        engine: &Engine,
        item: &OrchestrationItem,
        batch: Batch,
        reason: &'static str,
    ) {
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %item.instance,
            "messages for an instance that has ended or never began are consumed without effect"
        );
        let nothing = super::plan::TurnCommit {
            execution_id: item.execution_id,
            history: Vec::new(),
            to_workers: Vec::new(),
            to_orchestrators: batch.refusals,
            metadata: duroxide_core::provider::ExecutionMetadata::default(),
            cancelled: Vec::new(),
        };
        if commit(engine, &self.lock_token, nothing).await == Committed::Yes {
            for _ in &batch.messages {
                engine.metrics.record_dropped_message(reason);
            }
        }
    }

    async fn begin(
        self,
        engine: &Arc<Engine>,
        item: OrchestrationItem,
        batch: Batch,
        beginning: Beginning,
    ) {
        let resolved = match &beginning.version {
            None => engine.orchestrations.resolve_handler(&beginning.name),
            Some(text) => exact(engine, &beginning.name, text),
        };
        let Some((version, handler)) = resolved else {
            self.not_registered(engine, &beginning.name).await;
            return;
        };
        let author = Author {
            instance: item.instance.clone(),
            execution_id: beginning.execution_id,
            name: beginning.name.clone(),
            parent: beginning.parent.clone(),
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
        let first = FirstTurn::of(beginning.continues);
        let kv = item.kv_snapshot;
        let seed = Seed::New { start, handler, kv };
        self.run(engine, author, seed, batch, Some(first)).await;
    }

    async fn replay(
        self,
        engine: &Arc<Engine>,
        item: OrchestrationItem,
        batch: Batch,
        parent: Option<ParentLink>,
    ) {
        let recorded = item.history.iter().find_map(Event::started_handler);
        let (name, version) = recorded.unwrap_or((item.orchestration_name, item.version));
        let Some((_, handler)) = exact(engine, &name, &version) else {
            self.not_registered(engine, &name).await;
            return;
        };
        let author = Author {
            instance: item.instance,
            execution_id: item.execution_id,
            name,
            parent,
        };
        let seed = Seed::Recorded {
            history: Arc::from(item.history),
            handler,
            kv: item.kv_snapshot,
        };
        self.run(engine, author, seed, batch, None).await;
    }

    async fn not_registered(self, engine: &Engine, name: &str) {
        let delay = engine.options.unregistered_backoff.delay(self.attempt);
        let left = engine.options.max_attempts.saturating_sub(self.attempt);
        tracing::warn!(
            target: "duroxide::runtime",
            orchestration_name = %name,
            "Orchestration not registered, abandoning with {:.1}s backoff (will poison in {left} more attempts)",
            delay.as_secs_f64()
        );
        release(engine, &self.lock_token, Some(delay), false).await;
    }

    async fn run(
        self,
        engine: &Arc<Engine>,
        author: Author,
        seed: Seed,
        batch: Batch,
        first: Option<FirstTurn>,
    ) {
        // Kept for the rare case that the turn must be ended without replay.
        let recorded = match &seed {
            Seed::Recorded { history, .. } => Arc::clone(history),
            Seed::Kept(_) | Seed::New { .. } => Arc::from([]),
        };
        match drive(engine, seed, batch.messages).await {
            Ok(driven) => {
                self.finish(engine, author, driven, batch.refusals, first, &recorded)
                    .await;
            }
            Err(NotDriven::Diverged(divergence)) => {
                self.diverged(engine, author, &recorded, divergence).await;
            }
            Err(NotDriven::Store(error)) => {
                tracing::warn!(target: "duroxide::runtime", %error, "the turn could not ask the store, it will run again");
                release(engine, &self.lock_token, Some(REST), true).await;
            }
            Err(NotDriven::Gone) => release(engine, &self.lock_token, None, true).await,
        }
    }

    async fn finish(
        self,
        engine: &Arc<Engine>,
        author: Author,
        driven: Driven,
        refusals: Vec<WorkItem>,
        first: Option<FirstTurn>,
        recorded: &[Event],
    ) {
        let Driven {
            execution,
            mut turn,
            late_answers,
        } = driven;
        if let Outcome::Failed { details } = &turn.outcome
            && turn.failed_by.is_some_and(FailedBy::is_cured_by_other_code)
            && engine.options.on_divergence == OnDivergence::Block
        {
            self.block(engine, &author, details.display_message()).await;
            return;
        }
        if let Outcome::Failed { details } = &turn.outcome
            && is_panic(details)
            && self.attempt <= engine.options.orchestration_panic_retries
        {
            self.try_after_panic(engine, &author, details).await;
            return;
        }
        let outcome = turn.outcome.clone();
        let asides = std::mem::take(&mut turn.notes);
        let mut writes = plan(&author, turn);
        writes.to_orchestrators.extend(refusals);
        writes.to_orchestrators.extend(late_answers);
        let children = started_children(&writes);
        let begun = first.as_ref().and_then(|_| writes.history.first().cloned());
        let schedules_work = !writes.to_workers.is_empty();
        if schedules_work {
            engine.names.remember(
                &author.instance,
                author.execution_id,
                &author.name,
                execution.version(),
            );
        }
        let facts = Facts {
            version: execution.version().to_owned(),
            started_at_ms: execution.started_at_ms(),
            history_events: execution.last_event_id(),
            turns: execution.turns(),
            worker_id: self.worker_id,
        };
        match commit(engine, &self.lock_token, writes).await {
            Committed::Yes => {
                engine.unblock(&author.instance);
                facts.note(engine, &author, first.as_ref(), &outcome);
                note_asides(engine, &author, &asides);
                for child in children {
                    engine
                        .metrics
                        .record_suborchestration_call(&author.name, &child);
                }
                if outcome == Outcome::Waiting {
                    engine.sticky.keep(execution);
                }
            }
            Committed::Released | Committed::LeaseLost => {}
            Committed::Refused(error) => {
                tracing::error!(target: "duroxide::runtime", instance_id = %author.instance, %error, "the store refuses the turn");
                let known = match begun {
                    Some(begun) => Known::Begun(Box::new(begun)),
                    None => Known::Recorded(recorded),
                };
                let refused = Refused {
                    lock_token: &self.lock_token,
                    author: &author,
                    facts: &facts,
                    first: first.as_ref(),
                };
                refused.fail(engine, known, &error).await;
            }
        }
    }

    async fn diverged(
        self,
        engine: &Engine,
        author: Author,
        recorded: &[Event],
        divergence: Divergence,
    ) {
        if engine.options.on_divergence == OnDivergence::Block {
            self.block(engine, &author, divergence.to_string()).await;
            return;
        }
        let details = divergence.to_details();
        let turn = fail_without_replay(
            &author.instance,
            author.execution_id,
            recorded,
            details.clone(),
            engine.clock.now_ms(),
        );
        let facts = Facts {
            version: recorded_version(recorded),
            started_at_ms: recorded.first().map_or(0, |e| e.timestamp_ms),
            history_events: turn.events.last().map_or(0, |e| e.event_id),
            turns: count_turns(recorded) + 1,
            worker_id: self.worker_id,
        };
        if commit(engine, &self.lock_token, plan(&author, turn)).await == Committed::Yes {
            facts.note(engine, &author, None, &Outcome::Failed { details });
        }
    }

    /// Gives a turn back whose code panicked: what made it panic may pass. Nothing of the turn is kept.
    async fn try_after_panic(self, engine: &Engine, author: &Author, details: &ErrorDetails) {
        let delay = engine.options.unregistered_backoff.delay(self.attempt);
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %author.instance,
            execution_id = author.execution_id,
            orchestration_name = %author.name,
            attempt = self.attempt,
            "{}, the turn runs again in {delay:?}", details.display_message()
        );
        release(engine, &self.lock_token, Some(delay), false).await;
    }

    /// Leaves an instance as it is until code that fits is deployed.
    async fn block(self, engine: &Engine, author: &Author, report: String) {
        tracing::error!(
            target: "duroxide::runtime",
            instance_id = %author.instance,
            execution_id = author.execution_id,
            orchestration_name = %author.name,
            "orchestration blocked, its code does not fit its history: {report}"
        );
        let attempts = note_blocked(engine, author, report);
        let delay = engine.options.unregistered_backoff.delay(attempts);
        release(engine, &self.lock_token, Some(delay), true).await;
    }
}

/// Remembers a blocked instance for operators; returns how often it was tried.
fn note_blocked(engine: &Engine, author: &Author, report: String) -> u32 {
    let mut blocked = engine
        .blocked
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let entry = blocked
        .entry(author.instance.clone())
        .or_insert_with(|| BlockedInstance {
            instance_id: author.instance.clone(),
            execution_id: author.execution_id,
            orchestration_name: author.name.clone(),
            report: String::new(),
            attempts: 0,
        });
    entry.report = report;
    entry.attempts += 1;
    entry.attempts
}

pub(super) fn exact(
    engine: &Engine,
    name: &str,
    version: &str,
) -> Option<(Version, Arc<dyn OrchestrationHandler>)> {
    let version = Version::parse(version).ok()?;
    let handler = engine
        .orchestrations
        .resolve_handler_exact(name, &version)?;
    Some((version, handler))
}

fn is_panic(details: &ErrorDetails) -> bool {
    let ErrorDetails::Application { kind, .. } = details else {
        return false;
    };
    *kind == AppErrorKind::Panicked
}

fn recorded_version(history: &[Event]) -> String {
    let handler = history.iter().find_map(Event::started_handler);
    handler.map_or_else(|| "unknown".to_owned(), |(_, version)| version)
}
