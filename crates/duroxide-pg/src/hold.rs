//! What the holder of a lease does with it besides committing, and appends without one. In: tokens. Out: whether it was done.

use std::time::Duration;

use duroxide_core::event::Event;
use duroxide_core::provider::rules::Refusal;

use crate::args::Call;
use crate::codec;
use crate::error::Result;
use crate::look::Look;
use crate::provider::PostgresProvider;
use crate::text;
use crate::time::duration_ms;
use crate::token;

impl PostgresProvider {
    pub(crate) async fn append(
        &self,
        instance: &str,
        execution_id: u64,
        events: &[Event],
    ) -> Result<()> {
        let id = codec::key("the instance id", instance)?;
        let events = codec::events(instance, events)?;
        let call = Call::new("append_events")
            .int(self.expected())
            .text(&id)
            .int(codec::number("execution", execution_id)?)
            .ints(events.iter().map(|event| event.id))
            .texts(events.iter().map(|event| event.kind))
            .texts(events.iter().map(|event| event.json.as_str()));
        self.store.db.transact(&[call]).await?;
        self.store.look(Look::TURNS, &[id]);
        self.store
            .wake
            .announce(instance, crate::wake::News::Unknown);
        Ok(())
    }

    pub(crate) async fn abandon_turn(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore: bool,
    ) -> Result<()> {
        let held = token::turn(lock_token)?;
        let id = text::owned(held.instance);
        let call = Call::new("abandon_turn")
            .int(self.expected())
            .text(&id)
            .uuid(held.random)
            .opt_int(delay.map(duration_ms))
            .flag(ignore);
        let is_done: bool = self.store.one(call).await?;
        self.store.look(Look::TURNS, &[]);
        Ok(is_done.then_some(()).ok_or(Refusal::InvalidToken)?)
    }

    pub(crate) async fn abandon_work(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore: bool,
    ) -> Result<()> {
        let held = token::work(lock_token)?;
        let call = Call::new("abandon_work")
            .int(self.expected())
            .int(held.id)
            .uuid(held.random)
            .opt_int(delay.map(duration_ms))
            .flag(ignore);
        let is_done: bool = self.store.one(call).await?;
        self.store.look(Look::WORK, &[]);
        Ok(is_done.then_some(()).ok_or(Refusal::InvalidToken)?)
    }

    pub(crate) async fn set_aside(
        &self,
        lock_token: &str,
        positions: &[usize],
        reason: &str,
    ) -> Result<()> {
        let held = token::turn(lock_token)?;
        let (id, reason) = (text::owned(held.instance), text::owned(reason));
        let places: Vec<i32> = positions
            .iter()
            .map(|position| i32::try_from(*position).unwrap_or(i32::MAX - 1) + 1)
            .collect();
        let call = Call::new("set_aside_messages")
            .int(self.expected())
            .text(&id)
            .uuid(held.random)
            .smalls(places.iter().copied())
            .text(&reason);
        let size: Option<i32> = self.store.one(call).await?;
        let size = size.ok_or(Refusal::InvalidToken)?;
        match places.iter().find(|place| **place > size) {
            None => Ok(()),
            Some(place) => Err(Refusal::NoSuchPosition {
                instance: held.instance.to_owned(),
                position: usize::try_from(place - 1).unwrap_or_default(),
                size: usize::try_from(size).unwrap_or_default(),
            }
            .into()),
        }
    }
}
