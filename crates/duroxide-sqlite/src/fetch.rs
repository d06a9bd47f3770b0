//! The way of a claim from the caller to the writer and back. In: what the caller asks for. Out: turns or activities,
//! or nothing at the deadline. What does not decode becomes a dead letter under the lease of its claim, and the caller
//! gets the rest.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::{ClaimedTurn, ClaimedWork};
use tokio::time::Instant;

use crate::error::Result;
use crate::large_histories;
use crate::ops::closed::while_open;
use crate::ops::fetch_turn::RawTurn;
use crate::ops::fetch_work::{BrokenWork, RawWork};
use crate::ops::{abandon_turn, abandon_work, dead_letter, fetch_turn, fetch_work};
use crate::requests::{ClaimQueue, LeaseView};
use crate::store::Store;
use crate::tables::closing;
use crate::writer_tx::WriterTx;

/// A claim whose caller has gone is given back without a delay.
const AT_ONCE: abandon_turn::Again = abandon_turn::Again::After(None);
/// How long an instance rests whose large history could not be read: each claim of it reads megabytes on the thread
/// that writes, to find out how large it is.
const UNREAD_REST: Duration = Duration::from_secs(1);

/// Claims turns.
pub(crate) async fn turns(
    store: &Store,
    ask: &Arc<fetch_turn::Ask>,
    wait_until: Option<Instant>,
) -> Result<Vec<ClaimedTurn>> {
    loop {
        let step = Arc::clone(ask);
        let step = move |tx: &mut WriterTx<'_>| fetch_turn::claim(tx, &step);
        let undo = |tx: &mut WriterTx<'_>, raw: &RawTurn| {
            closing::check(tx)?;
            let again = if raw.is_unreadable_for_now() {
                abandon_turn::Again::Together(UNREAD_REST)
            } else {
                AT_ONCE
            };
            abandon_turn::run(tx, raw.token(), again, true)
        };
        let mut reply = store
            .claim(ClaimQueue::Turns, wait_until, step, undo)
            .await?;
        let nothing_there = reply.found().is_empty();
        let unread = large_histories::read(store, reply.found(), ask.lock_timeout()).await;
        // A turn without its history is given back, and not counted as an attempt.
        let claimed = reply.accept_if(|raw| raw.large_history().is_none());
        let mut found = Vec::with_capacity(claimed.len());
        for raw in claimed {
            let (turn, broken) = fetch_turn::decode(raw);
            if !broken.is_empty() && !dead_letter_messages(store, &turn, broken).await {
                continue;
            }
            if !turn.item.messages.is_empty() {
                found.push(turn);
            }
        }
        if let (true, Some(error)) = (found.is_empty(), unread) {
            return Err(error);
        }
        // If nothing is left of a claim, the instances behind it have not been looked at.
        if !found.is_empty() || nothing_there {
            return Ok(found);
        }
    }
}

/// Claims activities.
pub(crate) async fn work(
    store: &Store,
    ask: &Arc<fetch_work::Ask>,
    wait_until: Option<Instant>,
) -> Result<Vec<ClaimedWork>> {
    loop {
        let step = Arc::clone(ask);
        let step = move |tx: &mut WriterTx<'_>| fetch_work::claim(tx, &step);
        let undo = |tx: &mut WriterTx<'_>, raw: &RawWork| {
            closing::check(tx)?;
            abandon_work::run(tx, raw.token(), None, true)
        };
        let reply = store
            .claim(ClaimQueue::Work, wait_until, step, undo)
            .await?;
        let claimed = reply.accept();
        let nothing_there = claimed.is_empty();
        let mut found = Vec::with_capacity(claimed.len());
        for raw in claimed {
            match raw.decode() {
                Ok(work) => found.push(work),
                Err(broken) => dead_letter_work(store, broken).await,
            }
        }
        if !found.is_empty() || nothing_there {
            return Ok(found);
        }
    }
}

/// Dead-letters the messages of a turn that did not decode. Returns whether the turn can go on. If the store fails
/// here, the other turns of the claim are still handed out, and this one is claimed again when its lease has run out.
async fn dead_letter_messages(
    store: &Store,
    turn: &ClaimedTurn,
    broken: Vec<(i64, String)>,
) -> bool {
    let token = turn.lock_token.clone();
    let step = move |tx: &mut WriterTx<'_>| dead_letter::undecodable(tx, &token, &broken);
    match store.write(LeaseView::Needed, while_open(step)).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(target: "duroxide::providers::sqlite", instance_id = %turn.item.instance, %error, "messages that do not decode could not be dead-lettered, they are claimed again");
            false
        }
    }
}

/// Dead-letters an item that did not decode. If the store fails here, the other items of the claim are still handed
/// out, and this one is claimed again when its lease has run out.
async fn dead_letter_work(store: &Store, BrokenWork { token, reason }: BrokenWork) {
    let step = move |tx: &mut WriterTx<'_>| dead_letter::undecodable_work(tx, &token, &reason);
    if let Err(error) = store.write(LeaseView::Needed, while_open(step)).await {
        tracing::warn!(target: "duroxide::providers::sqlite", %error, "an activity that does not decode could not be dead-lettered, it is claimed again");
    }
}
