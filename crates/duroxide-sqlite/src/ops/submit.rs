//! Takes a start and its messages under a rule about the id. In: a submission. Out: what became of it. Looks, deletes
//! and writes in one transaction; a submission that is refused writes nothing.

use duroxide_core::Event;
use duroxide_core::provider::{
    ExecutionStatus, IdState, OutcomeStatus, Step, Submission, Submitted, rules,
};

use super::{delete, enqueue, outcome, read_history};
use crate::codec;
use crate::error::Result;
use crate::tables::orchestrator_queue::{Due, NewMessage};
use crate::tables::{closing, deletions, instances, orchestrator_queue};
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

/// A submission whose items are ready to be written.
#[derive(Debug)]
pub(crate) struct Submit {
    submission: Submission,
    start: Option<NewMessage>,
    messages: Vec<NewMessage>,
}

impl Submit {
    pub(crate) fn new(submission: Submission) -> Result<Self> {
        submission.check()?;
        let items = submission.items(Step::StoreAll);
        let rows = items
            .iter()
            .map(|(item, delay)| codec::message(item, Due::After(*delay)));
        let mut messages: Vec<NewMessage> = rows.collect::<Result<_>>()?;
        let start = submission.begins().then(|| messages.remove(0));
        Ok(Self {
            submission,
            start,
            messages,
        })
    }

    pub(crate) fn may_replace(&self) -> bool {
        self.submission.steps().contains(&Step::Replace)
    }
}

pub(crate) fn run(tx: &mut WriterTx<'_>, submit: &Submit) -> Result<Submitted> {
    closing::check(tx)?;
    let id = submit.submission.instance();
    orchestrator_queue::write_unwritten_for(tx, id)?;
    let life = match submit.submission.life() {
        Some(_) => instances::incarnation(tx, id)?,
        None => None,
    };
    let found = submit.submission.as_found(standing(tx, id)?, life);
    if is_repeated(tx, &submit.submission, found)? {
        return Ok(Submitted::Started);
    }
    let step = submit.submission.step(found);
    if step == Step::Replace && !delete::finished_tree(tx, id)? {
        return Ok(Submission::answer(IdState::Unfinished, Step::Nothing));
    }
    if let (Step::StoreAll | Step::Replace, Some(start)) = (step, &submit.start) {
        enqueue::message(tx, start)?;
    }
    if step != Step::Nothing {
        for message in &submit.messages {
            enqueue::message(tx, message)?;
        }
    }
    Ok(Submission::answer(found, step))
}

/// Whether what has the id is what the same request asked for before. What cannot be read counts as another request.
fn is_repeated(tx: &Tx<'_>, submission: &Submission, found: IdState) -> Result<bool> {
    let id = submission.instance();
    if submission.request().is_none() || found == IdState::Unknown {
        return Ok(false);
    }
    if found == IdState::Starting {
        let queued = orchestrator_queue::start(tx, id, deletions::queued_to(tx, id)?)?;
        let item = queued.and_then(|json| rules::work_item_from_json(&json).ok());
        return Ok(item.is_some_and(|item| submission.asked_for(&item)));
    }
    let Some(execution) = instances::current_execution(tx, id)? else {
        return Ok(false);
    };
    let first = read_history::started(tx, id, execution)?;
    let first = first.and_then(|json| serde_json::from_slice::<Event>(&json).ok());
    Ok(first.is_some_and(|first| submission.began(&first)))
}

/// What has an id. What is left of a deleted life does not count.
fn standing(tx: &Tx<'_>, id: &str) -> Result<IdState> {
    if let Some(row) = instances::standing(tx, id)? {
        let status = row.status.as_deref().and_then(ExecutionStatus::parse);
        return Ok(match status {
            Some(ExecutionStatus::Completed | ExecutionStatus::Failed) => IdState::Ended,
            _ => IdState::Running,
        });
    }
    // Commits that never named a handler leave a history without a row.
    if let Some(known) = outcome::run(tx, id)? {
        return Ok(match known.status {
            OutcomeStatus::Running => IdState::Running,
            _ => IdState::Ended,
        });
    }
    let gone_to = deletions::queued_to(tx, id)?;
    Ok(if orchestrator_queue::has_start(tx, id, gone_to)? {
        IdState::Starting
    } else {
        IdState::Unknown
    })
}
