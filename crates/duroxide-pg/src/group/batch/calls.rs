//! The calls of one exchange. In: a batch. Out: calls in the order of the locks, and which answer belongs to what.

use std::collections::HashSet;

use super::{Acks, Batch, Part, TurnRider, acks_of};
use crate::calls::commit_turn::{self, Commit};
use crate::calls::enqueue::{self, Ack, Assumed};
use crate::codec::NewMessage;
use crate::connection::call::Call;
use crate::group::marks::Beginnings;
use crate::group::write::{EarlyTurn, Op};

impl Batch {
    /// The calls of the exchange. Renewals come first: nothing that takes long may stand before them.
    pub(in crate::group) fn calls(&self, expected: i64) -> Vec<(Part, Call<'_>)> {
        let mut calls = Vec::with_capacity(8);
        let (commits, acks) = (self.commits(), self.acks());
        let (messages, work) = (self.messages(), self.new_work());
        self.open(&commits, &acks, &messages, expected, &mut calls);
        self.leases_of_turns(expected, &mut calls);
        self.renewals(expected, &mut calls);
        if !commits.is_empty() {
            let sent_to = sent_to(&commits, &acks.all[acks.decided_on..], &messages);
            let borrowers = self.borrowers();
            let call =
                commit_turn::call(&commits, &sent_to, &borrowers, self.is_strict(), expected);
            calls.push((Part::Commits, call));
        }
        if !acks.all.is_empty() {
            let decided_on = acks.decided_on;
            let call = enqueue::acks(&acks.all, decided_on, decided_on, expected);
            calls.push((Part::Acks, call));
        }
        if !messages.is_empty() {
            calls.push((Part::Messages, enqueue::messages(&messages, expected)));
        }
        if !work.is_empty() {
            calls.push((Part::Silent, enqueue::work(&work, expected)));
        }
        // Activities act on the world: a worker must not begin one whose claim a crash of the server could undo.
        let lazy = self.writes.is_empty() && self.work.is_empty();
        for (place, rider) in self.turns.iter().enumerate() {
            let (fit, unfit) = (&rider.fit, &rider.unfit);
            let call = rider.ask.call(fit, unfit, &rider.barred, lazy, expected);
            let begin = self.turns_begin.as_ref();
            let begin = begin.filter(|_| self.begins_turns_at_marks(place));
            let call = call.beginnings(begin.map(Beginnings::as_slices));
            calls.push((Part::ClaimTurns(place), call));
        }
        let asking = if self.loans.is_empty() {
            self.work.as_slice()
        } else {
            &[]
        };
        for (place, rider) in asking.iter().enumerate() {
            let (plain, bound) = (&rider.plain, &rider.bound);
            let call = rider.ask.call(plain, bound, &rider.unfit, expected);
            let begin = self.work_begin.as_ref();
            let call = call.beginnings(begin.map(Beginnings::as_slices));
            calls.push((Part::ClaimWork(place), call));
        }
        calls
    }

    /// Whether this claim of turns is given marks: one that takes everything has no lists of lanes.
    pub(in crate::group) fn begins_turns_at_marks(&self, place: usize) -> bool {
        let lists = |rider: &TurnRider| !rider.ask.abilities.are_all();
        self.turns_begin.is_some() && self.turns.get(place).is_some_and(lists)
    }

    /// Locks the inboxes that the exchange needs, those of renewals aside, which do not wait for them; and checks the
    /// instances of early turns.
    fn open<'a>(
        &'a self,
        commits: &[&'a Commit],
        acks: &Acks<'a>,
        messages: &[&'a NewMessage],
        expected: i64,
        calls: &mut Vec<(Part, Call<'a>)>,
    ) {
        let early = assumed(self.early().into_iter().chain(self.leases()));
        let held: Vec<&str> = commits
            .iter()
            .map(|commit| commit.instance.as_str())
            .collect();
        let sent: Vec<&NewMessage> = commits
            .iter()
            .flat_map(|commit| &commit.to_orchestrators)
            .chain(completions(acks))
            .chain(messages.iter().copied())
            .collect();
        if !held.is_empty() || !sent.is_empty() || !early.is_empty() {
            let call = enqueue::open_and_lease(held, &sent, &early, expected);
            calls.push((Part::Silent, call));
        }
        if !early.is_empty() {
            calls.push((Part::Silent, enqueue::check_early(&early, expected)));
        }
    }

    /// Turns that could not be waited for. Their messages come before any others of the exchange, so that the leases
    /// claim these alone.
    fn leases_of_turns<'a>(&'a self, expected: i64, calls: &mut Vec<(Part, Call<'a>)>) {
        let leases = self.leases();
        if leases.is_empty() {
            return;
        }
        let acks = acks_of(leases.iter().copied());
        if !acks.is_empty() {
            let call = enqueue::acks(&acks, 0, acks.len(), expected);
            calls.push((Part::Silent, call));
        }
        let starts: Vec<&NewMessage> = leases
            .iter()
            .flat_map(|turn| &turn.causes)
            .filter_map(|write| match &write.op {
                Op::Message(message) => Some(message),
                _ => None,
            })
            .collect();
        if !starts.is_empty() {
            calls.push((Part::Silent, enqueue::messages(&starts, expected)));
        }
        calls.push((
            Part::Silent,
            enqueue::lease_early(&assumed(leases), expected),
        ));
    }

    fn renewals<'a>(&'a self, expected: i64, calls: &mut Vec<(Part, Call<'a>)>) {
        let turns = || {
            self.ops().filter_map(|op| match op {
                Op::RenewTurn {
                    instance,
                    token,
                    for_ms,
                    ..
                } => Some((instance.as_str(), *token, *for_ms)),
                _ => None,
            })
        };
        if turns().next().is_some() {
            let call = Call::new("renew_turns")
                .int(expected)
                .texts(turns().map(|(instance, _, _)| instance))
                .uuids(turns().map(|(_, token, _)| token))
                .ints(turns().map(|(_, _, for_ms)| for_ms));
            calls.push((Part::RenewTurns, call));
        }
        let work = || {
            self.ops().filter_map(|op| match op {
                Op::RenewWork { id, token, for_ms } => Some((*id, *token, *for_ms)),
                _ => None,
            })
        };
        if work().next().is_some() {
            let call = Call::new("renew_work")
                .int(expected)
                .ints(work().map(|(id, _, _)| id))
                .uuids(work().map(|(_, token, _)| token))
                .ints(work().map(|(_, _, for_ms)| for_ms));
            calls.push((Part::RenewWork, call));
        }
    }
}

fn assumed<'a>(turns: impl IntoIterator<Item = &'a EarlyTurn>) -> Vec<Assumed<'a>> {
    let turns = turns.into_iter();
    turns.filter_map(EarlyTurn::assumed).collect()
}

/// The messages of completions that no turn of this exchange was decided on.
fn completions<'a>(acks: &Acks<'a>) -> impl Iterator<Item = &'a NewMessage> {
    let undecided = acks.all[acks.decided_on..].iter();
    undecided.filter_map(|ack| ack.completion.as_ref())
}

/// Instances whose turn this exchange commits and to which a later call of it sends something.
fn sent_to<'a>(
    commits: &[&'a Commit],
    acks: &[&'a Ack],
    messages: &[&'a NewMessage],
) -> Vec<&'a str> {
    let committed: HashSet<&str> = commits.iter().map(|one| one.instance.as_str()).collect();
    let sent = acks.iter().filter_map(|ack| ack.completion.as_ref());
    let sent: HashSet<&str> = sent
        .chain(messages.iter().copied())
        .map(|message| message.instance.as_str())
        .filter(|instance| committed.contains(instance))
        .collect();
    sent.into_iter().collect()
}
