//! Instances whose rows another transaction holds: a person with a shell, for minutes. In: what exchanges had to wait
//! for. Out: which writes go by themselves, one held instance at a time, so that nobody waits with them. Never waits
//! itself.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type};

use super::write::Op;
use crate::connection::db::Db;

/// How long an instance that was held is taken to be held still, unless a write to it goes through.
const REMEMBERED: Duration = Duration::from_secs(60);
/// How long after one try the next one begins: in between no exchange waits for what is held.
const PAUSE: Duration = Duration::from_secs(1);

/// Which of these instances have a row that another transaction holds at this moment.
const HELD_NOW: &str = "WITH free AS MATERIALIZED (
        SELECT b.instance_id FROM {s}.inboxes AS b WHERE b.instance_id = ANY ($1) FOR UPDATE SKIP LOCKED),
    whole AS MATERIALIZED (
        SELECT i.instance_id FROM {s}.instances AS i WHERE i.instance_id = ANY ($1) FOR UPDATE SKIP LOCKED)
    SELECT b.instance_id FROM {s}.inboxes AS b
    WHERE b.instance_id = ANY ($1) AND b.instance_id NOT IN (SELECT f.instance_id FROM free AS f)
    UNION
    SELECT i.instance_id FROM {s}.instances AS i
    WHERE i.instance_id = ANY ($1) AND i.instance_id NOT IN (SELECT w.instance_id FROM whole AS w)";

/// What is known to be held.
pub(super) struct Held {
    /// As they are stored, and until when they are taken to be held.
    until: HashMap<String, Instant>,
    /// Whether an exchange with writes to one of them is under way.
    is_trying: bool,
    next_at: Instant,
}

impl Held {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            until: HashMap::new(),
            is_trying: false,
            next_at: now,
        }
    }

    /// The held instances that a write needs.
    pub(super) fn among<'o>(&self, op: &'o Op) -> Vec<&'o str> {
        // The usual case: nothing is held.
        if self.until.is_empty() {
            return Vec::new();
        }
        let mut needed = op.instances();
        needed.retain(|instance| self.until.contains_key(*instance));
        needed
    }

    /// Whether an exchange may begin that waits for what is held.
    pub(super) fn may_try(&self, now: Instant) -> bool {
        !self.until.is_empty() && !self.is_trying && self.next_at <= now
    }

    /// When the next one may; `None` while one is under way.
    pub(super) fn next_at(&self) -> Option<Instant> {
        (!self.until.is_empty() && !self.is_trying).then_some(self.next_at)
    }

    /// Such an exchange begins.
    pub(super) fn begin(&mut self) {
        self.is_trying = true;
    }

    /// An exchange has ended: with writes to the held instances `tried`, if there are any, and it had to wait for
    /// `held`.
    pub(super) fn ended(&mut self, tried: &[String], held: &[String], now: Instant) {
        if !tried.is_empty() {
            self.is_trying = false;
            self.next_at = now + PAUSE;
            for instance in tried {
                self.until.remove(instance);
            }
        }
        if !held.is_empty() {
            self.until.retain(|_, until| *until > now);
            let until = now + REMEMBERED;
            let held = held.iter().map(|instance| (instance.clone(), until));
            self.until.extend(held);
        }
    }
}

/// Those of these instances that another transaction holds. An exchange of this process may be that transaction: then
/// the next write to the instance goes through, and it is forgotten.
pub(super) async fn held_now(db: &Db, mut needed: Vec<&str>) -> Vec<String> {
    needed.sort_unstable();
    needed.dedup();
    let Ok(client) = db.exchanger().await else {
        return Vec::new();
    };
    let sql = db.sql(HELD_NOW);
    let asked: [(&(dyn ToSql + Sync), Type); 1] = [(&needed, Type::TEXT_ARRAY)];
    match db.in_time(client.query_typed(&sql, &asked)).await {
        Some(Ok(rows)) => rows.iter().filter_map(|row| row.try_get(0).ok()).collect(),
        Some(Err(_)) => Vec::new(),
        None => {
            drop(deadpool_postgres::Object::take(client));
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_exchange_at_a_time_waits_for_what_is_held_until_a_write_goes_through() {
        let now = Instant::now();
        let a = ["a".to_owned()];
        let renewal = Op::RenewTurn {
            instance: "a".to_owned(),
            shown_instance: "a".to_owned(),
            token: uuid::Uuid::new_v4(),
            for_ms: 1,
        };
        let mut held = Held::new(now);
        assert!(!held.may_try(now), "nothing is held");
        held.ended(&[], &a, now);
        assert!(held.may_try(now));
        held.begin();
        assert!(!held.may_try(now) && held.next_at().is_none());
        held.ended(&a, &a, now);
        assert!(!held.may_try(now) && held.may_try(now + PAUSE));
        assert_eq!(held.among(&renewal), ["a"]);
        held.begin();
        held.ended(&a, &[], now + PAUSE);
        assert!(held.among(&renewal).is_empty(), "it went through");
    }
}
