//! A turn that the store refuses for good. The instance ends with the store's words, and its parent is told.

use duroxide_core::Event;
use duroxide_core::provider::ProviderError;
use duroxide_core::replay::{Outcome, fail_without_replay};

use super::commit::{Committed, RELEASE_DELAY, commit, release};
use super::facts::{Facts, FirstTurn};
use super::plan::{Author, plan};
use crate::engine::Engine;

/// What is known of the history that the failure follows.
pub(super) enum Known<'a> {
    /// The execution begins with this event; nothing of it is stored.
    Begun(Box<Event>),
    /// The stored history; empty if the orchestration was kept in memory.
    Recorded(&'a [Event]),
}

/// A refused turn.
pub(super) struct Refused<'a> {
    pub(super) lock_token: &'a str,
    pub(super) author: &'a Author,
    pub(super) facts: &'a Facts<'a>,
    pub(super) first: Option<&'a FirstTurn>,
}

impl Refused<'_> {
    /// Ends the instance.
    pub(super) async fn fail(self, engine: &Engine, known: Known<'_>, error: &ProviderError) {
        let author = self.author;
        let (begun, history) = match known {
            Known::Begun(event) => (Some(*event.clone()), vec![*event]),
            Known::Recorded([]) => match self.read(engine).await {
                Some(history) => (None, history),
                None => return,
            },
            Known::Recorded(history) => (None, history.to_vec()),
        };
        let details = error.to_infrastructure_error();
        let now_ms = engine.clock.now_ms();
        let mut turn = fail_without_replay(
            &author.instance,
            author.execution_id,
            &history,
            details.clone(),
            now_ms,
        );
        turn.events.splice(0..0, begun);
        match commit(engine, self.lock_token, plan(author, turn)).await {
            Committed::Yes => {
                let outcome = Outcome::Failed { details };
                self.facts.note(engine, author, self.first, &outcome);
            }
            Committed::Released | Committed::LeaseLost => {}
            Committed::Refused(error) => {
                tracing::error!(
                    target: "duroxide::runtime",
                    instance_id = %author.instance, %error,
                    "the store refuses the turn and its failure"
                );
                release(engine, self.lock_token, Some(RELEASE_DELAY), false).await;
            }
        }
    }

    async fn read(&self, engine: &Engine) -> Option<Vec<Event>> {
        let (instance, execution_id) = (&self.author.instance, self.author.execution_id);
        let history = engine.store.read_with_execution(instance, execution_id);
        match history.await {
            Ok(history) => Some(history),
            Err(error) => {
                tracing::warn!(target: "duroxide::runtime", instance_id = %instance, %error, "the history of a refused turn could not be read");
                release(engine, self.lock_token, Some(RELEASE_DELAY), false).await;
                None
            }
        }
    }
}
