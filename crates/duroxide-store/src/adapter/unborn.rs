//! Children that a deleted life of an instance asked for and that have not begun. In: those that the instance lists as
//! asked for, its life. Out: what to delete with it: a child that began later would have a parent that is gone, and take
//! its id from the next life. Never reads a history: a damaged instance can be deleted too.

use duroxide_core::WorkItem;
use duroxide_core::provider::Incarnation;

use super::error::Result;
use super::names::{self, INSTANCES, TURNS};
use super::token;
use crate::EventStore;
use crate::atomic::{Guard, Operation, Query};
use crate::message::Message;

/// A child that has not begun.
#[derive(Debug)]
pub(super) struct Unborn {
    id: String,
    /// The starts that the life sent.
    starts: Vec<u64>,
    /// No other starter has sent it a start.
    is_alone: bool,
}

impl Unborn {
    /// What must still hold.
    pub(super) fn guard(&self) -> Guard {
        names::unchanged(&self.id, None)
    }

    /// Deletes its start. With it goes the lease of a first turn that is under way, unless another start is there.
    pub(super) fn delete(self) -> Operation {
        if self.is_alone {
            Operation::DeleteGroup {
                queue: TURNS,
                group: self.id,
            }
        } else {
            Operation::DeleteMessages {
                queue: TURNS,
                ids: self.starts,
            }
        }
    }
}

/// Those of the children that are listed as asked for which this life sent a start that still waits. A row of an earlier
/// release has no life, and none of its children is found.
pub(super) async fn of<S: EventStore>(
    store: &S,
    asked_for: &[String],
    incarnation: Incarnation,
) -> Result<Vec<Unborn>> {
    if asked_for.is_empty() {
        return Ok(Vec::new());
    }
    let queries = asked_for.iter().flat_map(|id| {
        [
            Query::Entry {
                scope: INSTANCES.to_owned(),
                key: id.clone(),
            },
            Query::Messages {
                queue: TURNS,
                group: Some(id.clone()),
                after: 0,
                limit: usize::MAX,
            },
        ]
    });
    let mut answers = store.query(queries.collect()).await?.into_iter();
    let mut unborn = Vec::new();
    for id in asked_for {
        let (Some(row), Some(messages)) = (answers.next(), answers.next()) else {
            break;
        };
        let messages = messages.into_messages()?;
        if row.into_entry()?.is_some() {
            continue;
        }
        let starts: Vec<&Message> = messages.iter().filter(is_start).collect();
        let own = starts
            .iter()
            .filter(|m| token::incarnation_of(m.stamp) == Some(incarnation));
        let own: Vec<u64> = own.map(|message| message.id).collect();
        if !own.is_empty() {
            let is_alone = own.len() == starts.len();
            let starts = own;
            unborn.push(Unborn {
                id: id.clone(),
                starts,
                is_alone,
            });
        }
    }
    Ok(unborn)
}

fn is_start(message: &&Message) -> bool {
    let item = serde_json::from_slice::<WorkItem>(&message.payload);
    matches!(item, Ok(WorkItem::StartOrchestration { .. }))
}
