//! The dispatcher of turns. In: free slots. Out: a task for each turn that the store hands out, its lease kept. Never
//! looks into a turn: `turn.rs` does.

use std::sync::Arc;

use duroxide_core::provider::{ClaimedTurn, HandOut, ProviderError, TurnClaim};
use tokio::sync::Notify;

use super::leased_turn::{LeasedTurn, TURN};
use super::turn;
use crate::engine::{Claiming, Engine, Slot, Slots, until_stopped};
use crate::executor::{Forfeit, Task, TaskKind};

struct Turns {
    engine: Arc<Engine>,
    slots: Slots,
}

/// Claims and starts turns until the runtime stops.
pub(crate) async fn dispatch(engine: Arc<Engine>) {
    tokio::select! {
        biased;
        () = engine.stop.cancelled() => return,
        // Turns compute when timers are due.
        () = engine.clock.is_known() => {}
    }
    let slots = Slots::new(engine.options.orchestration_concurrency);
    until_stopped(&Turns { engine, slots }).await;
}

impl Claiming for Turns {
    type Claimed = ClaimedTurn;

    const WHAT: &'static str = "turns";

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn slots(&self) -> &Slots {
        &self.slots
    }

    fn ready(&self) -> &Notify {
        &self.engine.turns_ready
    }

    async fn claim(&self, max: usize) -> Result<Vec<ClaimedTurn>, ProviderError> {
        let engine = &self.engine;
        let claim = TurnClaim {
            filter: Some(engine.filter.clone()),
            cached: Some(Arc::clone(&engine.sticky) as _),
            hand_out: HandOut::BeforeCommit,
            handlers: engine.handlers(),
            cancel_without_code_after: engine.options.cancel_without_code_after,
            ..TurnClaim::new(
                max,
                engine.options.orchestrator_lock_timeout,
                engine.options.dispatcher_long_poll_timeout,
            )
        };
        engine.store.claim_turns(claim).await
    }

    async fn start(&self, first: Slot, claimed: Vec<ClaimedTurn>) {
        let metrics = &self.engine.metrics;
        metrics.record_turns_claimed(claimed.len() as u64);
        let mut next = Some(first);
        // All leases are kept from now on, also of turns that wait for a thread.
        let leased: Vec<_> = claimed
            .into_iter()
            .map(|turn| LeasedTurn::new(&self.engine, turn))
            .collect();
        for turn in leased {
            let slot = match next.take() {
                Some(slot) => slot,
                // A store never hands out more than was asked for; should it, the rest waits for a slot here.
                None => self.slots.wait().await,
            };
            spawn(&self.engine, slot, turn);
        }
    }
}

fn spawn(engine: &Arc<Engine>, slot: Slot, turn: LeasedTurn) {
    let shared = Arc::clone(engine);
    let worker_id = format!("orch-{}-{}", slot.number, engine.runtime_id);
    // Code that never returns keeps its thread, but not the slot.
    let forfeit = Forfeit::new(engine.options.turn_duration_max, slot);
    let task = Task::of(TaskKind::Engine, TURN, turn.subject())
        .in_incarnation(turn.incarnation())
        .forfeits(Arc::clone(&forfeit));
    engine.executor.spawn(task, async move {
        turn::run(&shared, turn, &worker_id).await;
        forfeit.release();
    });
}
