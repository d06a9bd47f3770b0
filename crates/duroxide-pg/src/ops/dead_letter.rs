//! Dead-letters what a claim brought: messages by their positions, messages and activities that do not decode. In: the
//! lease it was claimed with. Out: whether it was done. Never dead-letters without a lease.

use std::collections::HashMap;

use duroxide_core::provider::ClaimedTurn;
use duroxide_core::provider::rules::{self, Refusal, UnreadableMessage};
use tokio_postgres::types::Type;

use crate::calls::enqueue;
use crate::calls::verdict::Verdict;
use crate::codec::{self, NewMessage, unsigned};
use crate::connection::call::Call;
use crate::error::Result;
use crate::news::Queues;
use crate::store::Store;
use crate::text;
use crate::time::shown_ms;
use crate::token;

impl Store {
    /// Dead-letters messages of a claimed turn, named by their positions in the claim.
    pub(crate) async fn dead_letter_claimed(
        &self,
        lock_token: &str,
        positions: &[usize],
        reason: &str,
    ) -> Result<()> {
        let held = token::turn(lock_token)?;
        self.store_lease(held.random).await?;
        let (id, reason) = (text::owned(held.instance), text::owned(reason));
        let places = places(positions);
        let call = Call::new("set_aside_messages")
            .int(self.expected())
            .text(&id)
            .uuid(held.random)
            .smalls(places.iter().copied())
            .text(&reason);
        let size: Option<i32> = self.one(call).await?;
        check_places(held.instance, &places, size.ok_or(Refusal::InvalidToken)?)
    }

    /// Dead-letters messages of a claimed turn that do not decode; an operation that waits for one of them gets a
    /// stand-in.
    pub(crate) async fn dead_letter_messages(
        &self,
        turn: &ClaimedTurn,
        broken: &[(i64, String)],
    ) -> Result<()> {
        let held = token::turn(&turn.lock_token)?;
        let id = text::owned(held.instance);
        let ids: Vec<i64> = broken.iter().map(|(id, _)| *id).collect();
        let rows = self.db
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
        self.db.transact(&calls).await?;
        for (_, reason) in broken {
            tracing::warn!(target: "duroxide::providers::postgres", instance_id = %held.instance, %reason, "a message was dead-lettered");
        }
        self.look(Queues::TURNS, &[]);
        Ok(())
    }

    /// Dead-letters an activity; the instance that waits for it gets a failure.
    pub(crate) async fn dead_letter_work(
        &self,
        lock_token: &str,
        reason: &str,
        strict: bool,
    ) -> Result<()> {
        let held = token::work(lock_token)?;
        let rows = self
            .db
            .rows(
                "SELECT instance_id, execution_id, activity_id FROM {s}.worker_queue WHERE id = $1",
                &[(&held.id, Type::INT8)],
            )
            .await?;
        let row = rows.first().ok_or(Refusal::InvalidToken)?;
        let failed = rules::failed_activity(
            &text::shown(row.try_get(0)?),
            unsigned(row, 1)?,
            unsigned(row, 2)?,
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
        let rows = self.db.transact(&calls).await?;
        self.look(Queues::TURNS, &[]);
        match rows.get(1).and_then(|rows| rows.first()) {
            Some(row) => row.try_get::<_, Verdict>(0)?.of_work(),
            None => Ok(()),
        }
    }
}

/// Places in a claim, which begin at 1 on the server.
fn places(positions: &[usize]) -> Vec<i32> {
    let place = |position: &usize| i32::try_from(*position).unwrap_or(i32::MAX - 1) + 1;
    positions.iter().map(place).collect()
}

/// What the server did nothing about: a place that the claim does not have.
fn check_places(instance: &str, places: &[i32], size: i32) -> Result<()> {
    match places.iter().find(|place| **place > size) {
        None => Ok(()),
        Some(place) => Err(Refusal::NoSuchPosition {
            instance: instance.to_owned(),
            position: usize::try_from(place - 1).unwrap_or_default(),
            size: usize::try_from(size).unwrap_or_default(),
        }
        .into()),
    }
}

/// Execution and scheduling event of the operation that waits, if the row names both.
fn operation(execution: Option<i64>, id: Option<i64>) -> Option<(u64, u64)> {
    Some((execution?.try_into().ok()?, id?.try_into().ok()?))
}
