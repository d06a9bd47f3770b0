//! The plainest turn of all as one call (`0020_plain.sql`). In: a turn that was decided on before its messages were
//! stored, and what it was decided on. Out: a call that stores all of it, if it is that plain.

use super::claim_turns::KnownUpTo;
use super::commit_turn::{Borrower, Commit};
use super::enqueue::Ack;
use crate::codec::NewWork;
use crate::connection::call::Call;

/// A turn that is stored by one call.
#[derive(Debug)]
pub(crate) struct PlainTurn<'a> {
    commit: &'a Commit,
    known: Option<KnownUpTo>,
    ack: Option<&'a Ack>,
}

impl<'a> PlainTurn<'a> {
    /// The turn, if it is plain. `known`: up to where its node knows the instance; `None` if the turn begins it.
    pub(crate) fn of(
        commit: &'a Commit,
        known: Option<KnownUpTo>,
        ack: Option<&'a Ack>,
    ) -> Option<Self> {
        let fits = match known {
            None => commit.named.is_some() && commit.execution_id == 1,
            Some(known) => {
                let says_who = commit.named.is_some() || commit.pinned.is_some();
                !says_who && known.execution == commit.execution_id
            }
        };
        let is_own = |work: &NewWork| {
            work.instance == commit.instance && work.execution_id == commit.execution_id
        };
        let is_plain = commit.is_plain() && commit.to_workers.iter().all(is_own);
        (fits && is_plain).then_some(Self { commit, known, ack })
    }

    /// The activity that it asks for.
    pub(crate) fn work(&self) -> Option<&'a NewWork> {
        self.commit.to_workers.first()
    }

    /// The incarnation of its instance.
    pub(crate) fn incarnation(&self) -> i64 {
        self.known
            .map_or(self.commit.incarnation, |known| known.incarnation)
    }

    pub(crate) fn call(self, borrower: Option<Borrower>, expected: i64) -> Call<'a> {
        let (incarnation, work) = (self.incarnation(), self.work());
        let Self { commit, known, ack } = self;
        let (named, events) = (commit.named.as_ref(), &commit.events);
        Call::new("commit_plain")
            .int(expected)
            .text(&commit.instance)
            .int(incarnation)
            .int(commit.execution_id)
            .opt_int(known.map(|known| known.event))
            .opt_text(named.map(|it| it.name.as_str()))
            .opt_text(named.map(|it| it.version.as_str()))
            .opt_text(commit.pinned.as_deref())
            .opt_text(commit.lane.as_deref())
            .opt_text(commit.status.as_deref())
            .opt_text(commit.output.as_deref())
            .flag(commit.ends_execution())
            .ints(events.iter().map(|event| event.id))
            .texts(events.iter().map(|event| event.kind))
            .texts(events.iter().map(|event| event.json.as_str()))
            .opt_int(ack.map(|ack| ack.id))
            .opt_uuid(ack.map(|ack| ack.token))
            .opt_int(work.map(|it| it.activity_id))
            .opt_text(work.map(|it| it.name.as_str()))
            .opt_text(work.map(|it| it.json.as_str()))
            .opt_text(work.and_then(|it| it.tag.as_deref()))
            .opt_text(work.map(|it| it.lane.as_str()))
            .opt_uuid(borrower.map(|it| it.token))
            .opt_int(borrower.map(|it| it.lock_ms))
    }
}
