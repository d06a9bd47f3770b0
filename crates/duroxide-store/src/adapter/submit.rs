//! Takes a start and its messages under a rule about the id. What has the id is read first; the batch is guarded by
//! what was read, so what appears or ends in between is noticed and the whole is tried again.

use duroxide_core::provider::{IdState, OutcomeStatus, Step, Submission, Submitted, rules};

use super::error::{Error, Result};
use super::names::{self, INSTANCES, RUNNING_INSTANCES, TURNS};
use super::rows::{ExecutionRow, InstanceRow, RUNNING};
use super::{closing, delete, ms, read};
use crate::atomic::{Batch, Guard, Operation, Query};
use crate::message::{Message, Role, Visible};
use crate::{EventStore, StoreError};

pub(super) async fn run<S: EventStore>(store: &S, submission: &Submission) -> Result<Submitted> {
    submission.check()?;
    let id = submission.instance();
    let mut last = String::new();
    for tried in 0..delete::TRIES {
        closing::check(store).await?;
        let Look {
            found,
            guards,
            queued,
        } = look(store, id, submission).await?;
        if is_repeated(store, submission, found, &queued).await? {
            return Ok(Submitted::Started);
        }
        let step = submission.step(found);
        if step == Step::Nothing {
            if found == IdState::Unknown && !guards_hold(store, guards).await? {
                // Its first turn was committed between the look at its row and the one at its queue.
                last = format!("{id} began meanwhile");
                delete::pause(tried).await;
                continue;
            }
            return Ok(Submission::answer(found, step));
        }
        let mut batch = match step {
            Step::Replace => match delete::finished_tree(store, id).await {
                Ok(Some(batch)) => batch,
                Ok(None) => return Ok(Submission::answer(IdState::Unfinished, Step::Nothing)),
                // It was deleted since the look.
                Err(Error::Refused(rules::Refusal::InstanceNotFound { .. })) => {
                    last = format!("{id} was deleted meanwhile");
                    delete::pause(tried).await;
                    continue;
                }
                Err(error) => return Err(error),
            },
            _ => Batch::default(),
        };
        batch.guards.extend(guards);
        batch.guards.push(closing::is(None));
        for (item, delay) in submission.items(step) {
            let visible = delay.map_or(Visible::Now, |delay| Visible::AfterMs(ms(delay)));
            batch.operations.push(Operation::Enqueue {
                queue: TURNS,
                message: names::to_instance(item, visible)?,
            });
        }
        match store.commit(batch).await {
            Ok(_) => return Ok(Submission::answer(found, step)),
            Err(StoreError::Conflict(reason)) => last = reason,
            Err(error) => return Err(error.into()),
        }
        delete::pause(tried).await;
    }
    Err(Error::Contended(last))
}

/// What was found under an id.
struct Look {
    found: IdState,
    /// They fail the batch if that has changed since.
    guards: Vec<Guard>,
    /// The messages that are queued for it, if that was read.
    queued: Vec<Message>,
}

impl Look {
    fn at(found: IdState, guards: Vec<Guard>) -> Self {
        Self {
            found,
            guards,
            queued: Vec::new(),
        }
    }
}

/// Whether all guards hold at one moment: what they guard was read one after the other.
async fn guards_hold<S: EventStore>(store: &S, guards: Vec<Guard>) -> Result<bool> {
    let batch = Batch {
        guards,
        ..Batch::default()
    };
    match store.commit(batch).await {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn look<S: EventStore>(store: &S, id: &str, submission: &Submission) -> Result<Look> {
    let row = store.get(INSTANCES, id).await?;
    let unchanged = names::unchanged(id, row.as_ref());
    let known = row.as_deref().and_then(|row| InstanceRow::read(row).ok());
    if submission.life().is_some() {
        let life = known.as_ref().and_then(InstanceRow::incarnation);
        let current = known.and_then(|row| row.current);
        let found = match &current {
            Some(current) if current.is_live() => IdState::Running,
            Some(_) => IdState::Ended,
            None => IdState::Unknown,
        };
        // Another life may run, too: the row must stay as it is.
        return Ok(Look::at(submission.as_found(found, life), vec![unchanged]));
    }
    if let Some(current) = known.and_then(|row| row.current) {
        let (found, guards) = of_current(id, &current, unchanged);
        return Ok(Look::at(found, guards));
    }
    // Rows of earlier releases, and histories without a row.
    if let Some(outcome) = read::outcome(store, id).await? {
        let found = match outcome.status {
            OutcomeStatus::Running => IdState::Running,
            _ => IdState::Ended,
        };
        return Ok(Look::at(found, vec![unchanged]));
    }
    let queued = queued(store, id).await?;
    let is_there = queued.iter().any(|message| message.role == Role::Lead);
    let leads = Guard::Lead {
        queue: TURNS,
        group: id.to_owned(),
        is_there,
    };
    let found = if is_there {
        IdState::Starting
    } else {
        IdState::Unknown
    };
    Ok(Look {
        found,
        guards: vec![unchanged, leads],
        queued,
    })
}

/// Messages that are queued for an instance.
async fn queued<S: EventStore>(store: &S, id: &str) -> Result<Vec<Message>> {
    let query = Query::Messages {
        queue: TURNS,
        group: Some(id.to_owned()),
        after: 0,
        limit: usize::MAX,
    };
    Ok(store.query_one(query).await?.into_messages()?)
}

/// Whether what has the id is what the same request asked for before. What cannot be read counts as another request. A
/// start is looked for among what was queued at the look: it may have been taken up since.
async fn is_repeated<S: EventStore>(
    store: &S,
    submission: &Submission,
    found: IdState,
    queued: &[Message],
) -> Result<bool> {
    let id = submission.instance();
    if submission.request().is_none() || found == IdState::Unknown {
        return Ok(false);
    }
    if found == IdState::Starting {
        let starts = queued.iter().filter(|one| one.role == Role::Lead);
        let mut items = starts.filter_map(|one| rules::work_item_from_json(&one.payload).ok());
        return Ok(items.any(|item| submission.asked_for(&item)));
    }
    let execution = read::latest_execution(store, id).await?;
    let records = read::records(store, id, execution).await?;
    let first = records.first();
    let first = first.and_then(|it| read::decode_event(id, execution, it).ok());
    Ok(first.is_some_and(|first| submission.began(&first)))
}

fn of_current(id: &str, current: &ExecutionRow, unchanged: Guard) -> (IdState, Vec<Guard>) {
    if current.status == RUNNING {
        // Its row changes with every turn; that it runs does not.
        let runs = Guard::Present {
            scope: RUNNING_INSTANCES.to_owned(),
            key: id.to_owned(),
        };
        return (IdState::Running, vec![runs]);
    }
    if current.is_live() {
        (IdState::Running, vec![unchanged])
    } else {
        (IdState::Ended, vec![unchanged])
    }
}
