//! Claims from the caller's side. In: what a dispatcher asks for. Out: turns and activities, decoded; what does not
//! decode becomes a dead letter under the lease it was claimed with.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::rules::{self, Refusal, UnreadableMessage};
use duroxide_core::provider::{ClaimedTurn, ClaimedWork, Incarnation, TurnClaim, WorkClaim};
use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::calls::claim_turns::{Loaded, RawTurn};
use crate::calls::enqueue;
use crate::calls::{claim_turns, claim_work};
use crate::codec::{self, NewMessage};
use crate::connection::call::Call;
use crate::error::Result;
use crate::look::Look;
use crate::provider::PostgresProvider;
use crate::text;
use crate::time::shown_ms;
use crate::token;

impl PostgresProvider {
    pub(crate) async fn poll_turns(&self, claim: &TurnClaim) -> Result<Vec<ClaimedTurn>> {
        let ask = Arc::new(claim_turns::Ask::new(
            claim,
            self.store.unknown_instance_grace,
        ));
        if ask.abilities.are_none() {
            sleep_out(claim.poll_timeout).await;
            return Ok(Vec::new());
        }
        let deadline = deadline(claim.poll_timeout);
        loop {
            let mut raw = self.store.claim_turns(Arc::clone(&ask), deadline).await?;
            let nothing_there = raw.is_empty();
            if let Err(error) = self.load(&ask, &mut raw).await {
                let kept = self.give_back_cold(raw).await;
                if kept.is_empty() {
                    return Err(error);
                }
                raw = kept;
            }
            let mut found = Vec::with_capacity(raw.len());
            for raw in raw {
                let (turn, broken) = raw.decode();
                if !broken.is_empty() && !self.set_aside_broken(&turn, &broken).await {
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
    pub(crate) async fn load(&self, ask: &claim_turns::Ask, turns: &mut [RawTurn]) -> Result<()> {
        let cached = ask.cached.as_deref();
        let mut cold: Vec<&mut RawTurn> = turns
            .iter_mut()
            .filter_map(|turn| turn.must_load(cached).then_some(turn))
            .collect();
        if cold.is_empty() {
            return Ok(());
        }
        let instances: Vec<String> = cold.iter().map(|turn| turn.instance.clone()).collect();
        let call = Call::new("load_turns")
            .texts(instances.iter().map(String::as_str))
            .ints(cold.iter().map(|turn| turn.execution_id));
        let rows = self.store.db.transact(&[call]).await?;
        for row in rows.first().into_iter().flatten() {
            let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or(usize::MAX);
            if let Some(turn) = cold.get_mut(place) {
                turn.load(Loaded::read(row, 1)?);
            }
        }
        Ok(())
    }

    /// Gives the turns back, uncounted, whose histories could not be loaded; those that the caller holds go on.
    async fn give_back_cold(&self, turns: Vec<RawTurn>) -> Vec<RawTurn> {
        let (cold, kept): (Vec<_>, Vec<_>) = turns.into_iter().partition(RawTurn::is_cold);
        for turn in cold {
            self.store.give_back(turn);
        }
        kept
    }

    /// Sets aside the messages of a turn that did not decode; whether the turn can go on. If that fails, the others
    /// that were claimed are still handed out, and this one is claimed again when its lease has run out.
    pub(crate) async fn set_aside_broken(
        &self,
        turn: &ClaimedTurn,
        broken: &[(i64, String)],
    ) -> bool {
        match self.move_broken(turn, broken).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(target: "duroxide::providers::postgres", instance_id = %turn.item.instance, %error, "messages that do not decode could not be set aside, they are claimed again");
                false
            }
        }
    }

    pub(crate) async fn move_broken(
        &self,
        turn: &ClaimedTurn,
        broken: &[(i64, String)],
    ) -> Result<()> {
        let held = token::turn(&turn.lock_token)?;
        let id = text::owned(held.instance);
        let ids: Vec<i64> = broken.iter().map(|(id, _)| *id).collect();
        let rows = self
            .store
            .db
            .rows(
                "SELECT q.id, q.kind, q.execution_id, q.operation_id, q.visible_at,
                     CASE WHEN q.sender_incarnation IS NOT NULL THEN
                     (SELECT i.instance_id FROM {s}.instances AS i WHERE i.incarnation = q.sender_incarnation) END
                 FROM {s}.orchestrator_queue AS q WHERE q.instance_id = $1 AND q.id = ANY ($2)",
                &[(&id, Type::TEXT), (&ids, Type::INT8_ARRAY)],
            )
            .await?;
        let mut stand_ins: HashMap<i64, NewMessage> = HashMap::new();
        for row in &rows {
            let number: i64 = row.try_get(0)?;
            let parent = row.try_get::<_, Option<String>>(5)?.map(text::shown);
            let unreadable = UnreadableMessage {
                instance: held.instance,
                kind: row.try_get(1)?,
                answers: operation(row.try_get(2)?, row.try_get(3)?),
                visible_at_ms: shown_ms(row.try_get(4)?),
                parent: parent.as_deref(),
            };
            let reason = broken.iter().find(|(id, _)| *id == number);
            let reason = reason.map_or("", |(_, reason)| reason.as_str());
            if let Some(item) = unreadable.stand_in(reason) {
                stand_ins.insert(number, codec::message(&item, None)?);
            }
        }
        let reasons: Vec<String> = broken.iter().map(|(_, why)| text::owned(why)).collect();
        let expected = self.expected();
        let elsewhere: Vec<&NewMessage> = stand_ins
            .values()
            .filter(|message| message.instance != id)
            .collect();
        let stand_in = |id: &i64| stand_ins.get(id);
        let move_them = Call::new("set_aside_undecodable")
            .int(expected)
            .text(&id)
            .uuid(held.random)
            .ints(ids.iter().copied())
            .texts(reasons.iter().map(String::as_str))
            .opt_texts(
                ids.iter()
                    .map(|id| stand_in(id).map(|one| one.json.as_str())),
            )
            .opt_texts(ids.iter().map(|id| stand_in(id).map(|one| one.kind)))
            .opt_texts(
                ids.iter()
                    .map(|id| stand_in(id).map(|one| one.instance.as_str())),
            );
        // An inbox that is opened in vain, because the lease is lost, is settled by the next claim.
        let calls = [
            enqueue::open([id.as_str()], &elsewhere, expected),
            move_them,
        ];
        self.store.db.transact(&calls).await?;
        for (_, reason) in broken {
            tracing::warn!(target: "duroxide::providers::postgres", instance_id = %held.instance, %reason, "a message was dead-lettered");
        }
        self.store.look(Look::TURNS, &[]);
        Ok(())
    }

    pub(crate) async fn poll_work(&self, claim: WorkClaim) -> Result<Vec<ClaimedWork>> {
        let timeout = claim.poll_timeout;
        let deadline = deadline(timeout);
        let ask = Arc::new(claim_work::Ask::new(claim));
        if ask.wants_nothing() {
            return Ok(Vec::new());
        }
        loop {
            let raw = self.store.claim_work(Arc::clone(&ask), deadline).await?;
            let nothing_there = raw.is_empty();
            let mut found = Vec::with_capacity(raw.len());
            for raw in raw {
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
                        if let Err(error) =
                            self.set_aside_activity(&lock_token, &reason, false).await
                        {
                            tracing::warn!(target: "duroxide::providers::postgres", %error, "an activity that does not decode could not be set aside, it is claimed again");
                        }
                    }
                }
            }
            if !found.is_empty() || nothing_there {
                return Ok(found);
            }
        }
    }

    /// Dead-letters an activity; the instance that waits for it gets a failure.
    pub(crate) async fn set_aside_activity(
        &self,
        lock_token: &str,
        reason: &str,
        strict: bool,
    ) -> Result<()> {
        let held = token::work(lock_token)?;
        let rows = self
            .store
            .db
            .rows(
                "SELECT instance_id, execution_id, activity_id FROM {s}.worker_queue WHERE id = $1",
                &[(&held.id, Type::INT8)],
            )
            .await?;
        let row = rows.first().ok_or(Refusal::InvalidToken)?;
        let failed = rules::failed_activity(
            &text::shown(row.try_get(0)?),
            shown_ms(row.try_get(1)?),
            shown_ms(row.try_get(2)?),
            reason,
        );
        let failed = codec::completion(&failed)?;
        let (expected, reason) = (self.expected(), text::owned(reason));
        let calls = [
            enqueue::open([], &[&failed], expected),
            Call::new("set_aside_work")
                .int(expected)
                .int(held.id)
                .uuid(held.random)
                .text(&reason)
                .flag(strict)
                .text(&failed.json),
        ];
        let rows = self.store.db.transact(&calls).await?;
        self.store.look(Look::TURNS, &[]);
        let problem: Option<String> = match rows.get(1).and_then(|rows| rows.first()) {
            Some(row) => row.try_get(0)?,
            None => None,
        };
        match problem.as_deref() {
            None => Ok(()),
            Some("expired") => Err(Refusal::WorkLockExpired.into()),
            Some(_) => Err(Refusal::InvalidToken.into()),
        }
    }
}

/// Until when a claim waits; `None` if it does not wait at all.
fn deadline(poll_timeout: Duration) -> Option<Instant> {
    /// Stands in for "for ever" where adding to an instant could overflow.
    const VERY_LONG: Duration = Duration::from_secs(60 * 60 * 24 * 365);
    (!poll_timeout.is_zero()).then(|| Instant::now() + poll_timeout.min(VERY_LONG))
}

/// Waits as long as a claim would that can never be served.
async fn sleep_out(poll_timeout: Duration) {
    if let Some(at) = deadline(poll_timeout) {
        tokio::time::sleep_until(at).await;
    }
}

/// Execution and scheduling event of the operation that waits, if the row names both.
fn operation(execution: Option<i64>, id: Option<i64>) -> Option<(u64, u64)> {
    Some((execution?.try_into().ok()?, id?.try_into().ok()?))
}
