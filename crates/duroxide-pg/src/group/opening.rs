//! That this process runs turns, noted in the store (table `openings`). In: its first claim of turns. Out: from when on
//! starts may be handed out early.
//!
//! A process that is listed may have ended uncleanly, and the start that ended it may come again: beside one, starts
//! are stored before they are tried, for [`CAUTION`]. So they are while this process is not listed itself. A process
//! that claims no turns can lose none and writes nothing. The list forgets what is older than a day, so a process that
//! goes on claiming notes itself again now and then.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;
use uuid::Uuid;

use super::early::CAUTION;
use crate::connection::call::Call;
use crate::connection::db::Db;
use crate::error::Result;

/// How long a note stands before the next claim renews it: well within the day after which the list forgets it.
const RENEWED_AFTER: Duration = Duration::from_secs(6 * 60 * 60);
/// How long the end of a store waits until the end is noted.
const FORGETTING_PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Opening {
    id: Uuid,
    state: State,
}

enum State {
    /// No dispatcher has claimed yet, or the note could not be written; the group tries again at this time.
    Unnoted(Instant),
    Noting(Noting),
    /// The store has the note. It is renewed by a claim from this time on.
    Noted(Instant),
}

struct Noting {
    what: Note,
    answer: BoxFuture<'static, Result<bool>>,
}

/// What a note is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Note {
    First,
    Renewal,
}

impl Opening {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            id: Uuid::new_v4(),
            state: State::Unnoted(now),
        }
    }

    /// A dispatcher of this process claims turns.
    pub(super) fn claimed(&mut self, db: &Arc<Db>, now: Instant) {
        if let Some(what) = self.state.due(now) {
            let answer = note(Arc::clone(db), self.id).boxed();
            self.state = State::Noting(Noting { what, answer });
        }
    }

    /// From when on starts may be handed out early, once that is known.
    pub(super) async fn starts_from(&mut self) -> Instant {
        let State::Noting(Noting { what, answer }) = &mut self.state else {
            return std::future::pending().await;
        };
        let (what, noted) = (*what, answer.await);
        if let Err(error) = &noted {
            tracing::debug!(target: "duroxide::providers::postgres", %error, "an opening could not be noted");
        }
        let (state, starts_from) = answered(what, noted.ok(), Instant::now());
        self.state = state;
        match starts_from {
            Some(from) => from,
            None => std::future::pending().await,
        }
    }

    /// This process ends cleanly. A server that does not answer soon is not waited for: the next process is careful for
    /// a minute.
    pub(super) async fn forget(self, db: &Db) {
        let forgetting = async {
            match self.state {
                State::Unnoted(_) => return true,
                // The note must not arrive after this.
                State::Noting(noting) => drop(noting.answer.await),
                State::Noted(_) => {}
            }
            let call = [Call::new("forget_opening").uuid(self.id)];
            db.transact(&call).await.is_ok()
        };
        let forgotten = tokio::time::timeout(FORGETTING_PATIENCE, forgetting).await;
        if forgotten != Ok(true) {
            tracing::debug!(target: "duroxide::providers::postgres", "a clean end could not be noted");
        }
    }
}

impl State {
    /// What a claim at this time has to note.
    fn due(&self, now: Instant) -> Option<Note> {
        match self {
            Self::Unnoted(from) if *from <= now => Some(Note::First),
            Self::Noted(until) if *until <= now => Some(Note::Renewal),
            Self::Unnoted(_) | Self::Noting(_) | Self::Noted(_) => None,
        }
    }
}

/// What an answer to a note means: the next state, and from when on starts may be handed out early. `is_beside_others`
/// is `None` if the store did not answer.
fn answered(what: Note, is_beside_others: Option<bool>, now: Instant) -> (State, Option<Instant>) {
    match (what, is_beside_others) {
        (Note::First, Some(true)) => (State::Noted(now + RENEWED_AFTER), Some(now + CAUTION)),
        (Note::First, Some(false)) => (State::Noted(now + RENEWED_AFTER), Some(now)),
        (Note::First, None) => (State::Unnoted(now + CAUTION), None),
        // A process that opened the store since has found this note and handed no starts out early.
        (Note::Renewal, Some(_)) => (State::Noted(now + RENEWED_AFTER), None),
        (Note::Renewal, None) => (State::Noted(now + CAUTION), None),
    }
}

/// Lists this process; whether others are listed.
async fn note(db: Arc<Db>, id: Uuid) -> Result<bool> {
    let rows = db.transact(&[Call::new("note_opening").uuid(id)]).await?;
    match rows.into_iter().flatten().next() {
        Some(row) => Ok(row.try_get(0)?),
        None => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_goes_on_claiming_notes_itself_again_within_a_day() {
        let now = Instant::now();
        let (noted, _) = answered(Note::First, Some(false), now);
        assert_eq!(noted.due(now), None);
        assert_eq!(
            noted.due(now + Duration::from_secs(24 * 60 * 60)),
            Some(Note::Renewal)
        );
        let later = now + RENEWED_AFTER;
        let (missed, _) = answered(Note::Renewal, None, later);
        assert_eq!(
            missed.due(later + CAUTION),
            Some(Note::Renewal),
            "one more try"
        );
    }

    #[test]
    fn only_the_first_note_of_a_process_makes_it_careful() {
        let now = Instant::now();
        let starts_from = |what| answered(what, Some(true), now).1;
        assert_eq!(starts_from(Note::First), Some(now + CAUTION));
        assert_eq!(starts_from(Note::Renewal), None);
    }
}
