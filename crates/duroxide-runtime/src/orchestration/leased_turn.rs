//! A claimed turn that waits for a thread. In: what the store handed out. Out: the claim in hand, with what memory
//! holds of the instance. Its lease is kept from the first moment.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::{ClaimedTurn, Incarnation, TurnHistory};

use super::claim_in_hand::ClaimInHand;
use crate::engine::{Engine, Kept, OpenTurn};
use crate::leases::{Held, Leased, Terms};
use crate::options::renewal_interval;

/// What a turn is called in reports.
pub(super) const TURN: &str = "a turn of";

/// A claimed turn whose lease is kept from now on, with what memory holds of its instance.
pub(super) struct LeasedTurn {
    claimed: ClaimedTurn,
    lease: Held,
    memory: OpenTurn,
    kept: Option<Kept>,
}

impl LeasedTurn {
    pub(super) fn new(engine: &Engine, claimed: ClaimedTurn) -> Self {
        let options = &engine.options;
        let timeout = options.orchestrator_lock_timeout;
        let terms = Terms {
            timeout,
            interval: renewal_interval(timeout, options.orchestrator_lock_renewal_buffer),
            renew_for: Some(options.turn_duration_max),
            heartbeat_every: Duration::ZERO,
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

    /// The incarnation that came with the claim; it tells a turn that never ends from one of a later life.
    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        self.claimed.incarnation
    }

    /// The instance, for a report about a turn that takes long.
    pub(super) fn subject(&self) -> Arc<str> {
        Arc::clone(self.lease.subject())
    }

    #[cfg(feature = "test-hooks")]
    pub(super) fn instance(&self) -> &str {
        &self.claimed.item.instance
    }

    /// Takes the turn up: the claim, what was claimed, and what memory holds of the instance.
    pub(super) fn take_up<'a>(
        self,
        engine: &Engine,
        worker_id: &'a str,
    ) -> (ClaimInHand<'a>, ClaimedTurn, Option<Kept>) {
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
        (claim, claimed, kept)
    }
}
