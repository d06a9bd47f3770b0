//! What the rows of an exchange say about its writes. In: rows, call by call. Out: what became of each write, and how
//! instances stand that have ended.

use tokio_postgres::Row;

use super::batch::{Batch, Part};
use super::exchange_result::{End, ExchangeResult};
use super::loan::{LENT, Lent};
use super::single_call;
use super::write::Op;
use crate::calls::verdict::Verdict;
use crate::calls::{claim_turns, claim_work};
use crate::codec::shown_number;
use crate::news::{ANYWHERE, News};
use crate::text;

/// The rows of the calls of an exchange.
pub(super) type Rows = Vec<(Part, Vec<Row>)>;

/// What became of a write.
pub(super) enum Fate {
    Done,
    /// The server did not do it, for this reason.
    Refused(Verdict),
    /// The server held it up because another turn of its call was refused.
    Again,
}

/// What the rows say about the elements of one call, and how many of these were asked about.
#[derive(Default)]
struct Verdicts {
    /// By the place of the element, which begins at 1; elements that were done may have none.
    read: Vec<(usize, Verdict)>,
    asked: usize,
}

impl Verdicts {
    fn read(&mut self, rows: &[Row]) {
        self.read.extend(rows.iter().filter_map(|row| {
            let place = usize::try_from(row.try_get::<_, i32>(0).ok()?).ok()?;
            Some((place, verdict(row)))
        }));
    }

    /// The verdict on the next element.
    fn next(&mut self) -> Verdict {
        self.asked += 1;
        let found = self.read.iter().find(|(place, _)| *place == self.asked);
        found.map_or(Verdict::Done, |(_, verdict)| *verdict)
    }
}

/// A verdict that this build cannot read is a refusal: its lease is not known to be ours.
fn verdict(row: &Row) -> Verdict {
    row.try_get(1).unwrap_or(Verdict::Unknown)
}

/// What the server answered to the writes of a batch, in the order of their calls.
#[derive(Default)]
pub(super) struct Answers {
    commits: Verdicts,
    acks: Verdicts,
    renewed_turns: Verdicts,
    renewed_work: Verdicts,
    messages: usize,
    ends: Vec<End>,
    /// Messages that began an instance, by their places.
    begun: Vec<usize>,
}

impl Answers {
    /// Reads the rows; what the claims brought and what was lent goes to `done`. `note_time` gets what the server's
    /// clock said.
    pub(super) fn read(
        batch: &Batch,
        rows: &Rows,
        done: &mut ExchangeResult,
        note_time: impl Fn(Option<i64>),
    ) -> Self {
        let mut answers = Self::default();
        // Turns were decided on the first ones, which come with them.
        answers.acks.asked = batch.decided_on();
        for (part, rows) in rows {
            match part {
                Part::Silent => {}
                Part::Single => {
                    answers.ends.extend(single_call::end(rows));
                    note_time(single_call::now(rows));
                    done.lent.extend(batch.single_loan(rows));
                }
                Part::Commits => rows.iter().for_each(|row| answers.read_commit(row, done)),
                Part::Messages => answers.begun.extend(rows.iter().filter_map(place)),
                Part::Acks => answers.acks.read(rows),
                Part::RenewTurns => answers.renewed_turns.read(rows),
                Part::RenewWork => answers.renewed_work.read(rows),
                Part::ClaimTurns(place) => {
                    let at_marks = batch.begins_turns_at_marks(*place);
                    let claimed = claim_turns::read(rows).map(|it| it.asked_for_first(at_marks));
                    note_time(claimed.as_ref().ok().and_then(|it| it.now));
                    done.turns.push((batch.turns[*place].id, claimed));
                }
                Part::ClaimWork(place) => {
                    let at_marks = batch.work_begin.is_some();
                    let claimed = claim_work::read(rows).map(|it| it.asked_for_first(at_marks));
                    note_time(claimed.as_ref().ok().and_then(|it| it.now));
                    done.work.push((batch.work[*place].id, claimed));
                }
            }
        }
        answers
    }

    fn read_commit(&mut self, row: &Row, done: &mut ExchangeResult) {
        let place = row.try_get::<_, i32>(0).unwrap_or(0);
        if place == LENT {
            return done.lent.extend(Lent::read(row));
        }
        let Ok(place) = usize::try_from(place) else {
            return;
        };
        match (place, verdict(row)) {
            (0, _) => {
                let ready_at = row.try_get::<_, Option<i64>>(3).ok().flatten();
                done.left_behind.add(News {
                    turns: Some(ready_at.unwrap_or(ANYWHERE)),
                    work: None,
                });
            }
            (_, Verdict::Done) => self.ends.push(End {
                place,
                custom_status: row
                    .try_get::<_, Option<String>>(2)
                    .ok()
                    .flatten()
                    .map(text::shown),
                custom_status_version: row.try_get::<_, i64>(3).map_or(0, shown_number),
            }),
            (_, verdict) => self.commits.read.push((place, verdict)),
        }
    }

    /// What became of the next write; to be asked in the order of the batch.
    pub(super) fn fate_of(&mut self, op: &Op) -> Fate {
        let verdict = match op {
            // The server takes the whole exchange back if one of these cannot be.
            Op::Early(..) => {
                self.commits.asked += 1;
                Verdict::Done
            }
            Op::Commit(_) => match self.commits.next() {
                Verdict::Done if !self.commits.read.is_empty() => return Fate::Again,
                verdict => verdict,
            },
            Op::Ack(_) => self.acks.next(),
            Op::RenewTurn { .. } => self.renewed_turns.next(),
            Op::RenewWork { .. } => self.renewed_work.next(),
            Op::Message(_) => {
                self.messages += 1;
                Verdict::Done
            }
            Op::Lease(_) | Op::Work(_) => Verdict::Done,
        };
        match verdict {
            Verdict::Done => Fate::Done,
            verdict => Fate::Refused(verdict),
        }
    }

    /// How the instance stands that the commit ended whose fate was asked for last.
    pub(super) fn end(&self) -> Option<&End> {
        let place = self.commits.asked;
        self.ends.iter().find(|end| end.place == place)
    }

    /// Whether the message whose fate was asked for last began an instance. A second start of an instance that is there
    /// already begins nothing.
    pub(super) fn is_first(&self) -> bool {
        self.begun.contains(&self.messages)
    }
}

fn place(row: &Row) -> Option<usize> {
    usize::try_from(row.try_get::<_, i32>(0).ok()?).ok()
}
