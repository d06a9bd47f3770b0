//! One instance as data, and back. Functions of the schema read and write it as one JSON document; this file translates
//! between that and the snapshot of the contract.

use std::collections::BTreeSet;
use std::time::Duration;

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{Closing, HeldIds, InstanceSnapshot, Restoring};

use crate::connection::call::Call;
use crate::error::{PgError, Result};
use crate::news::Queues;
use crate::store::Store;
use crate::text;
use crate::watch::InstanceChange;

mod document;
mod parse;

/// How many arrivals are moved to the queue at once before the store is closed.
const ARRIVALS: i32 = 1_000;
/// How long closing or opening a store waits for transactions that are open: meanwhile everybody else waits behind it.
const CLOSING_MAX: Duration = Duration::from_secs(3);

impl Store {
    pub(crate) async fn held(&self, after: Option<&str>, limit: u32) -> Result<HeldIds> {
        let limit = i32::try_from(limit.max(1)).unwrap_or(i32::MAX);
        let place = after.map_or(Ok(Place::BEGIN), Place::parse)?;
        let (phase, created, id) = match &place {
            Place::Instance(created, id) => (0, *created, id),
            Place::Queued(id) => (1, 0, id),
            Place::Executed(id) => (2, 0, id),
        };
        let id = text::owned(id);
        let call = Call::new("held_ids")
            .small(phase)
            .int(created)
            .text(&id)
            .small(limit);
        let rows = self.db.transact_later(&[call]).await?;
        let rows = rows.into_iter().next().unwrap_or_default();
        let mut ids = Vec::with_capacity(rows.len());
        let mut last = 0;
        for row in &rows {
            last = row.try_get(0)?;
            ids.push(text::shown(row.try_get(1)?));
        }
        let is_full = ids.len() == usize::try_from(limit).unwrap_or(usize::MAX);
        let end = ids.last().filter(|_| is_full).cloned();
        let next = match (&place, end) {
            (Place::Instance(..), Some(id)) => Some(Place::Instance(last, id)),
            (Place::Instance(..), None) => Some(Place::Queued(String::new())),
            (Place::Queued(_), Some(id)) => Some(Place::Queued(id)),
            (Place::Queued(_), None) => Some(Place::Executed(String::new())),
            (Place::Executed(_), id) => id.map(Place::Executed),
        };
        // The empty id stands for letters that name no instance.
        if place == Place::Queued(String::new()) {
            let sql = "SELECT 1 FROM {s}.dead_letters WHERE instance_id IS NULL OR instance_id = '' LIMIT 1";
            if !self.ask(sql, &[]).await?.is_empty() {
                ids.insert(0, String::new());
            }
        }
        let next = next.map(|place| place.to_text());
        Ok(HeldIds { ids, next })
    }

    /// Moves what is in the outbox of the applications to the queue, unless another node does so already.
    async fn receive_arrivals(&self) -> Result<()> {
        let is_there = "SELECT 1 FROM {s}.arrivals LIMIT 1";
        while !self.ask(is_there, &[]).await?.is_empty() {
            let call = Call::new("receive_arrivals")
                .int(self.expected())
                .small(ARRIVALS);
            let moved: i32 = self.one(call).await?;
            if moved <= 0 {
                break;
            }
        }
        Ok(())
    }

    pub(crate) async fn snapshot(&self, instance: &str) -> Result<InstanceSnapshot> {
        let id = text::owned(instance);
        let call = Call::new("snapshot_instance").text(&id);
        let rows = self.db.transact_later(&[call]).await?;
        let rows = rows.into_iter().next().unwrap_or_default();
        let document: String = crate::ops::admin_sql::only(&rows)?.try_get(0)?;
        parse::snapshot(instance, &document)
    }

    pub(crate) async fn family(&self, instance: &str) -> Result<Vec<InstanceSnapshot>> {
        let id = text::owned(instance);
        let call = Call::new("snapshot_family").text(&id);
        let rows = self.db.transact_later(&[call]).await?;
        let mut family = Vec::new();
        let mut awaited = BTreeSet::from([instance.to_owned()]);
        for row in rows.into_iter().next().unwrap_or_default() {
            let id = text::shown(row.try_get(0)?);
            let document: String = row.try_get(1)?;
            let snapshot = parse::snapshot(&id, &document)?;
            awaited.extend(snapshot.awaited_children());
            // What was started without being waited for is no child.
            if !snapshot.is_empty() && (snapshot.record.is_some() || awaited.contains(&id)) {
                family.push(snapshot);
            }
        }
        Ok(family)
    }

    pub(crate) async fn restore(
        &self,
        snapshot: &InstanceSnapshot,
        closed: Option<&str>,
    ) -> Result<Restoring> {
        let instance = &snapshot.instance_id;
        if let Err(why) = snapshot.check() {
            return Err(Refusal::unstorable(format!("the snapshot of {instance}"), &why).into());
        }
        let id = crate::codec::key("the instance id", instance)?;
        let document = document::of(snapshot)?;
        let closed = closed.map(text::owned);
        let call = Call::new("restore_instance")
            .int(self.expected())
            .text(&id)
            .text(&document)
            .opt_text(closed.as_deref());
        let rows = self.db.transact_later(&[call]).await?;
        let rows = rows.into_iter().next().unwrap_or_default();
        match crate::ops::admin_sql::only(&rows)?.try_get::<_, i32>(0)? {
            0 => {
                self.watches.announce(instance, InstanceChange::Unknown);
                self.look(Queues::BOTH, &[id]);
                Ok(Restoring::Done)
            }
            1 => Ok(Restoring::Exists),
            2 => Ok(Restoring::Unexpected(self.closing().await?)),
            other => Err(PgError::Database {
                why: format!("a restore ended in {other}"),
            }),
        }
    }

    pub(crate) async fn close_or_open(
        &self,
        expected: Option<&str>,
        reason: Option<&str>,
    ) -> Result<Closing> {
        let (expected, reason) = (expected.map(text::owned), reason.map(text::owned));
        if reason.is_some() {
            // Most of it beforehand: others wait while the rest of it comes along.
            self.receive_arrivals().await?;
        }
        // It is over, one way or the other, before its caller stops to wait for it.
        let limit = CLOSING_MAX.min(self.db.response_timeout() / 2);
        let call = Call::new("close_store")
            .int(self.expected())
            .opt_text(expected.as_deref())
            .opt_text(reason.as_deref())
            .small(i32::try_from(limit.as_millis()).unwrap_or(i32::MAX));
        let rows = self.db.transact_later(&[call]).await?;
        let rows = rows.into_iter().next().unwrap_or_default();
        if crate::ops::admin_sql::only(&rows)?.try_get::<_, i32>(0)? != 0 {
            return Ok(Closing::Unexpected(self.closing().await?));
        }
        if reason.is_none() {
            self.look(Queues::BOTH, &[]);
        }
        Ok(Closing::Done)
    }

    pub(crate) async fn closing(&self) -> Result<Option<String>> {
        let rows = self.ask("SELECT reason FROM {s}.closing", &[]).await?;
        let reason = rows.first().map(|row| row.try_get(0)).transpose()?;
        Ok(reason.map(text::shown))
    }
}

/// Where a page of ids begins: after this one.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// An instance that was created then.
    Instance(i64, String),
    /// An id that only lies in queues.
    Queued(String),
    /// An id of which only executions are there.
    Executed(String),
}

impl Place {
    const BEGIN: Self = Self::Instance(i64::MIN, String::new());

    fn parse(text: &str) -> Result<Self> {
        let refused = || Refusal::unstorable(format!("the position `{text}`"), "no page gave it");
        let (phase, rest) = text.split_at_checked(1).ok_or_else(refused)?;
        let id = rest.to_owned();
        Ok(match phase {
            "i" => {
                let (created, id) = rest.split_once(':').ok_or_else(refused)?;
                Self::Instance(created.parse().map_err(|_| refused())?, id.to_owned())
            }
            "q" => Self::Queued(id),
            "e" => Self::Executed(id),
            _ => return Err(refused().into()),
        })
    }

    fn to_text(&self) -> String {
        match self {
            Self::Instance(created, id) => format!("i{created}:{id}"),
            Self::Queued(id) => format!("q{id}"),
            Self::Executed(id) => format!("e{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let id = || "a:b c".to_owned();
        for place in [
            Place::BEGIN,
            Place::Instance(7, id()),
            Place::Queued(id()),
            Place::Executed(String::new()),
        ] {
            assert_eq!(Place::parse(&place.to_text()).unwrap(), place);
        }
        for wrong in ["", "i7", "ix:a", "xa"] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
    }
}
