//! Instances whose rows another transaction holds: a person with a shell, for minutes. In: what exchanges had to wait
//! for. Out: which writes go by themselves, one held instance at a time, so that nobody waits with them. Never waits
//! itself.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Row;

use super::write::Op;
use crate::connection::call::Call;
use crate::connection::db::Db;

/// How long an instance that was held is taken to be held still, unless a write to it goes through.
const REMEMBERED: Duration = Duration::from_secs(60);
/// How long after a try that had to wait the next one begins: in between no exchange waits for what is held.
const PAUSE: Duration = Duration::from_secs(1);

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
        // The usual case: nothing is held. Renewals wait for no row, and say nothing about what is held.
        if self.until.is_empty() || op.is_renewal() {
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

    /// What was held long ago is taken to be free again.
    pub(super) fn forget_over(&mut self, now: Instant) {
        self.until.retain(|_, until| *until > now);
    }

    /// An exchange has ended: with writes to the held instances `tried`, if there are any, and it had to wait for
    /// `held`. Once a try went through, the next one begins at once: what one transaction held, it let go together.
    pub(super) fn ended(&mut self, tried: &[String], held: &[String], now: Instant) {
        if !tried.is_empty() {
            self.is_trying = false;
            self.next_at = if held.is_empty() { now } else { now + PAUSE };
            for instance in tried {
                self.until.remove(instance);
            }
        }
        self.forget_over(now);
        let until = now + REMEMBERED;
        let held = held.iter().map(|instance| (instance.clone(), until));
        self.until.extend(held);
    }
}

/// Those of these activities that another transaction holds (`0025_held.sql`).
pub(super) async fn held_work(db: &Db, activities: Vec<i64>) -> Vec<i64> {
    if activities.is_empty() {
        return Vec::new();
    }
    let rows = asked(db, Call::new("held_work").ints(activities)).await;
    rows.iter().filter_map(|row| row.try_get(0).ok()).collect()
}

/// Those of these instances that another transaction holds (`0025_held.sql`). An exchange of this process may be that
/// transaction: then the next write to the instance goes through, and it is forgotten.
pub(super) async fn held_now(db: &Db, mut needed: Vec<&str>) -> Vec<String> {
    needed.sort_unstable();
    needed.dedup();
    if needed.is_empty() {
        return Vec::new();
    }
    let rows = asked(db, Call::new("held_now").texts(needed)).await;
    rows.iter().filter_map(|row| row.try_get(0).ok()).collect()
}

/// The rows of an answer; none if the server has none to give.
async fn asked(db: &Db, call: Call<'_>) -> Vec<Row> {
    let Ok(client) = db.exchanger().await else {
        return Vec::new();
    };
    match db.in_time(db.calls(&client, &[call])).await {
        Some(Ok(answers)) => answers.into_iter().flatten().collect(),
        // It, too, waited: for a whole table.
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
        let message = duroxide_core::WorkItem::ExternalRaised {
            instance: "a".to_owned(),
            name: "go".to_owned(),
            data: "{}".to_owned(),
        };
        let message = Op::Message(crate::codec::message(&message, None).unwrap());
        let mut held = Held::new(now);
        assert!(!held.may_try(now), "nothing is held");
        held.ended(&[], &a, now);
        assert!(held.may_try(now));
        held.begin();
        assert!(!held.may_try(now) && held.next_at().is_none());
        held.ended(&a, &a, now);
        assert!(!held.may_try(now) && held.may_try(now + PAUSE));
        assert_eq!(held.among(&message), ["a"]);
        assert!(held.among(&renewal).is_empty(), "it waits for no row");
        held.begin();
        held.ended(&a, &[], now + PAUSE);
        assert!(held.among(&message).is_empty(), "it went through");
    }

    #[test]
    fn what_one_transaction_held_and_let_go_is_written_without_a_pause() {
        let now = Instant::now();
        let all = ["a", "b", "c"].map(str::to_owned);
        let mut held = Held::new(now);
        held.ended(&[], &all, now);
        held.begin();
        held.ended(&all[..1], &[], now);
        assert!(held.may_try(now), "the next one is tried at once");
        held.begin();
        held.ended(&all[1..2], &all[1..2], now);
        assert!(!held.may_try(now), "this one is held still");
    }

    #[test]
    fn nothing_is_taken_to_be_held_for_longer_than_a_minute() {
        let now = Instant::now();
        let mut held = Held::new(now);
        held.ended(&[], &["a".to_owned()], now);
        held.forget_over(now + REMEMBERED / 2);
        assert!(held.may_try(now));
        held.forget_over(now + REMEMBERED);
        assert!(!held.may_try(now + REMEMBERED) && held.next_at().is_none());
        held.ended(&[], &["a".to_owned()], now);
        held.ended(&[], &[], now + REMEMBERED);
        assert!(!held.may_try(now + REMEMBERED));
    }
}
