//! What the holder of a lease does with it besides committing, and appends without one. In: tokens. Out: whether it was
//! done.

use std::time::Duration;

use duroxide_core::event::Event;
use duroxide_core::provider::ScheduledActivityIdentifier;
use duroxide_core::provider::rules::Refusal;
use tokio_postgres::types::Type;

use crate::calls::verdict::Verdict;
use crate::codec;
use crate::connection::call::Call;
use crate::error::Result;
use crate::queues::{NOTHING_NEW, News, Queues};
use crate::store::Store;
use crate::text;
use crate::time::duration_ms;
use crate::token;
use crate::watch::InstanceChange;

impl Store {
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
        self.db.transact(&[call]).await?;
        self.look(Queues::TURNS, &[id]);
        self.watches.announce(instance, InstanceChange::Unknown);
        Ok(())
    }

    /// Sees to it that the lease of a turn is stored: of one that was handed out before, and is lost if it cannot be.
    pub(crate) async fn store_turn_lease(&self, lock_token: &str) -> Result<()> {
        let held = token::turn(lock_token)?;
        if self.store_lease(held.random).await? {
            return Ok(());
        }
        Err(Refusal::InvalidToken.into())
    }

    pub(crate) async fn abandon_turn(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore: bool,
    ) -> Result<()> {
        let held = token::turn(lock_token)?;
        self.store_lease(held.random).await?;
        let id = text::owned(held.instance);
        let call = Call::new("abandon_turn")
            .int(self.expected())
            .text(&id)
            .uuid(held.random)
            .opt_int(delay.map(duration_ms))
            .flag(ignore);
        let is_done: bool = self.one(call).await?;
        self.look(Queues::TURNS, &[]);
        Ok(is_done.then_some(()).ok_or(Refusal::InvalidToken)?)
    }

    /// Gives a turn back; the whole instance rests, until a message comes.
    pub(crate) async fn rest_turn(
        &self,
        lock_token: &str,
        rest: Duration,
        ignore: bool,
    ) -> Result<()> {
        let held = token::turn(lock_token)?;
        self.store_lease(held.random).await?;
        let id = text::owned(held.instance);
        let call = Call::new("rest_turn")
            .int(self.expected())
            .text(&id)
            .uuid(held.random)
            .int(duration_ms(rest))
            .flag(ignore);
        let is_done: bool = self.one(call).await?;
        self.look(Queues::TURNS, &[]);
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
        let is_done: bool = self.one(call).await?;
        // The row was there all the time.
        let news = News {
            work: Some(NOTHING_NEW),
            ..News::default()
        };
        self.look(news, &[]);
        Ok(is_done.then_some(()).ok_or(Refusal::InvalidToken)?)
    }

    /// Extends the lease and keeps what the activity said; `false` if its execution is gone.
    pub(crate) async fn heartbeat(
        &self,
        lock_token: &str,
        extend_for: Duration,
        call_id: u64,
        details: &str,
    ) -> Result<bool> {
        let held = token::work(lock_token)?;
        let details = text::owned(details);
        let call = Call::new("heartbeat_work")
            .int(self.expected())
            .int(held.id)
            .uuid(held.random)
            .int(duration_ms(extend_for))
            .int(codec::number("activity", call_id)?)
            .text(&details);
        match self.one(call).await? {
            Verdict::Gone => Ok(false),
            verdict => verdict.of_work().map(|()| true),
        }
    }

    pub(crate) async fn last_said(
        &self,
        call: &ScheduledActivityIdentifier,
    ) -> Result<Option<String>> {
        let id = text::owned(&call.instance);
        let execution = codec::number("execution", call.execution_id)?;
        let call_id = codec::number("activity", call.activity_id)?;
        let rows = self
            .db
            .rows(
                "SELECT details FROM {s}.heartbeats
                 WHERE instance_id = $1 AND execution_id = $2 AND call_id = $3",
                &[
                    (&id, Type::TEXT),
                    (&execution, Type::INT8),
                    (&call_id, Type::INT8),
                ],
            )
            .await?;
        match rows.first() {
            Some(row) => Ok(Some(text::shown(row.try_get(0)?))),
            None => Ok(None),
        }
    }
}
