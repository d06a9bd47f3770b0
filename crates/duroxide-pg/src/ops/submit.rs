//! A start and its messages under a rule about the id. In: a submission. Out: what became of it. The rule goes to
//! the server as one step for each thing that it may find; the server looks and writes in one transaction.

use duroxide_core::provider::{IdState, Incarnation, Step, Submission, Submitted};

use crate::codec::{self, NewMessage};
use crate::connection::call::Call;
use crate::error::{PgError, Result};
use crate::news::News;
use crate::store::Store;
use crate::text;
use crate::watch::InstanceChange;

/// How often a replacement is asked for again because the tree grew meanwhile.
const TRIES_MAX: u32 = 16;

/// The server has found what the same request asked for before.
const REPEATED: i32 = 4;

impl Store {
    pub(crate) async fn submit_together(&self, submission: &Submission) -> Result<Submitted> {
        submission.check()?;
        let items = submission.items(Step::StoreAll);
        let rows = items
            .iter()
            .map(|(item, delay)| codec::message(item, *delay));
        let rows: Vec<NewMessage> = rows.collect::<Result<_>>()?;
        let id = codec::key("the instance id", submission.instance())?;
        // What is written now has no earlier time.
        let from = self.db.expected.last();
        for _ in 0..TRIES_MAX {
            let of = || rows.iter();
            let call = Call::new("submit")
                .int(self.expected())
                .text(&id)
                .ints(submission.steps().map(stored))
                .flag(submission.begins())
                .texts(of().map(|one| one.kind))
                .texts(of().map(|one| one.json.as_str()))
                .ints(of().map(|one| one.delay))
                .opt_texts(of().map(|one| one.begins.as_deref()))
                .opt_text(submission.request())
                .opt_int(submission.life().map(Incarnation::to_stored));
            let answer = self.db.transact_later(&[call]).await?;
            let row = crate::ops::admin_sql::only(answer.first().map_or(&[], Vec::as_slice))?;
            let (found, done) = (row.try_get::<_, i32>(0)?, row.try_get::<_, i32>(1)?);
            if done < 0 {
                continue;
            }
            if done == REPEATED {
                return Ok(Submitted::Started);
            }
            let submitted = Submission::answer(id_state(found)?, step(done)?);
            self.announce(submission.instance(), submitted, from);
            return Ok(submitted);
        }
        Err(PgError::OutOfReach {
            why: format!("the tree of {} kept growing", submission.instance()),
        })
    }

    /// Wakes those who wait for what was written.
    fn announce(&self, instance: &str, submitted: Submitted, from: i64) {
        let ended = match submitted {
            Submitted::Refused(_) => return,
            Submitted::Replaced => vec![text::owned(instance)],
            _ => Vec::new(),
        };
        match submitted {
            Submitted::Started => self.watches.announce(instance, InstanceChange::Started),
            Submitted::Replaced => self.watches.announce(instance, InstanceChange::Unknown),
            _ => {}
        }
        let news = News {
            turns: Some(from),
            ..News::default()
        };
        self.look(news, &ended);
    }
}

/// A step as the server knows it.
fn stored(step: Step) -> i64 {
    match step {
        Step::StoreMessages => 1,
        Step::StoreAll => 2,
        Step::Replace => 3,
        // Also a step that this build does not know.
        _ => 0,
    }
}

fn step(stored: i32) -> Result<Step> {
    Ok(match stored {
        0 => Step::Nothing,
        1 => Step::StoreMessages,
        2 => Step::StoreAll,
        3 => Step::Replace,
        other => return Err(unknown("step", other)),
    })
}

fn id_state(stored: i32) -> Result<IdState> {
    Ok(match stored {
        0 => IdState::Unknown,
        1 => IdState::Starting,
        2 => IdState::Running,
        3 => IdState::Ended,
        4 => IdState::Unfinished,
        other => return Err(unknown("standing", other)),
    })
}

fn unknown(what: &str, code: i32) -> PgError {
    PgError::Database {
        why: format!("the server answered with {what} {code}, which this build does not know"),
    }
}
