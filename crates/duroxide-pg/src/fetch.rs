//! Claims from the caller's side. In: what a dispatcher asks for. Out: turns and activities, decoded; what does not
//! decode becomes a dead letter under the lease it was claimed with, and an instance whose history the server cannot
//! read is put to rest under it (`rests.rs`).

use std::sync::Arc;

use duroxide_core::provider::{ClaimedTurn, ClaimedWork, Incarnation, TurnClaim, WorkClaim};
use tokio::time::Instant;

use crate::calls::claim_turns::{Loaded, RawTurn};
use crate::calls::{claim_turns, claim_work};
use crate::codec;
use crate::connection::call::Call;
use crate::error::{PgError, Result};
use crate::store::Store;
use crate::token;

impl Store {
    pub(crate) async fn fetch_turns(&self, claim: &TurnClaim) -> Result<Vec<ClaimedTurn>> {
        let ask = Arc::new(claim_turns::Ask::new(claim, self.unknown_instance_grace));
        if ask.abilities.are_none() {
            // Nothing can be found, and the caller must not ask again at once.
            if let Some(wait) = claim.wait() {
                tokio::time::sleep(wait).await;
            }
            return Ok(Vec::new());
        }
        let deadline = claim.wait().map(|wait| Instant::now() + wait);
        loop {
            let mut raw = self.claim_turns(Arc::clone(&ask), deadline).await?;
            let nothing_there = raw.is_empty();
            let loaded = self.load(&ask, &mut raw).await;
            self.rest_unreadable(&mut raw).await;
            if let Err(error) = loaded {
                // Those that the caller holds in memory go on.
                raw.give_back(|turn| turn.is_cold());
                if raw.is_empty() {
                    return Err(error);
                }
            }
            let mut found = Vec::with_capacity(raw.len());
            for raw in raw.delivered() {
                let (turn, broken) = raw.decode();
                if !broken.is_empty() && !self.dead_letter_unreadable(&turn, &broken).await {
                    continue;
                }
                if !turn.item.messages.is_empty() {
                    found.push(turn);
                }
            }
            // A claim of which nothing was left says nothing about the instances behind it.
            if !found.is_empty() || nothing_there {
                return Ok(found);
            }
        }
    }

    /// Loads the histories that the caller turned out not to hold.
    async fn load(&self, ask: &claim_turns::Ask, turns: &mut [RawTurn]) -> Result<()> {
        let cached = ask.cached.as_deref();
        let mut cold: Vec<&mut RawTurn> = turns
            .iter_mut()
            .filter_map(|turn| turn.must_load(cached).then_some(turn))
            .collect();
        match self.load_histories(&mut cold).await {
            // One of them cannot be read: each is loaded by itself, and that one is not handed out.
            Err(PgError::Unreadable { .. }) => {}
            loaded => return loaded,
        }
        for turn in cold {
            match self.load_histories(&mut [&mut *turn]).await {
                Err(PgError::Unreadable { why }) => turn.cannot_load(why),
                loaded => loaded?,
            }
        }
        Ok(())
    }

    async fn load_histories(&self, cold: &mut [&mut RawTurn]) -> Result<()> {
        if cold.is_empty() {
            return Ok(());
        }
        let instances: Vec<String> = cold.iter().map(|turn| turn.instance.clone()).collect();
        let call = Call::new("load_turns")
            .texts(instances.iter().map(String::as_str))
            .ints(cold.iter().map(|turn| turn.execution_id));
        let rows = self.db.transact(&[call]).await?;
        for row in rows.first().into_iter().flatten() {
            let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or(usize::MAX);
            if let Some(turn) = cold.get_mut(place) {
                let loaded = Loaded::read(row, 1);
                turn.load(loaded.unwrap_or_else(|error| Loaded::undecodable(error.to_string())));
            }
        }
        Ok(())
    }

    /// Dead-letters the messages of a turn that did not decode. Returns whether the turn can go on. If that fails, the
    /// other claimed turns are still handed out, and this one is claimed again when its lease has run out.
    async fn dead_letter_unreadable(&self, turn: &ClaimedTurn, broken: &[(i64, String)]) -> bool {
        match self.dead_letter_messages(turn, broken).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(target: "duroxide::providers::postgres", instance_id = %turn.item.instance, %error, "messages that do not decode could not be dead-lettered, they are claimed again");
                false
            }
        }
    }

    pub(crate) async fn fetch_work(&self, claim: WorkClaim) -> Result<Vec<ClaimedWork>> {
        let deadline = claim.wait().map(|wait| Instant::now() + wait);
        let ask = Arc::new(claim_work::Ask::new(claim));
        if ask.wants_nothing() {
            return Ok(Vec::new());
        }
        loop {
            let raw = self.claim_work(Arc::clone(&ask), deadline).await?;
            let nothing_there = raw.is_empty();
            let mut found = Vec::with_capacity(raw.len());
            for raw in raw.delivered() {
                let lock_token = token::for_work(raw.id, raw.random);
                match codec::decode_work_item(&raw.json) {
                    Ok(item) => found.push(ClaimedWork {
                        item,
                        lock_token,
                        attempt_count: raw.attempts,
                        incarnation: raw.incarnation.and_then(Incarnation::from_stored),
                    }),
                    Err(reason) => {
                        // The others that were claimed are still handed out, and this one is claimed again.
                        if let Err(error) = self.dead_letter_work(&lock_token, &reason, false).await
                        {
                            tracing::warn!(target: "duroxide::providers::postgres", %error, "an activity that does not decode could not be dead-lettered, it is claimed again");
                        }
                    }
                }
            }
            if !found.is_empty() || nothing_there {
                return Ok(found);
            }
        }
    }
}
