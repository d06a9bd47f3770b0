//! Children that a deleted life of an instance asked for and that have not begun. In: the instance, its life, and those
//! that it lists as asked for. Out: what to delete with it: a child that began later would have a parent that is gone,
//! and take its id from the next life. What cannot be read is no obstacle: a damaged instance can be deleted too.

use std::collections::BTreeSet;

use duroxide_core::provider::Incarnation;
use duroxide_core::{Event, EventKind, WorkItem, build_child_instance_id};

use super::error::Result;
use super::names::{self, INSTANCES, TURNS};
use super::{read, token};
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

/// The unborn children of a life of an instance. Where its history cannot be read, those that are listed.
pub(super) async fn of<S: EventStore>(
    store: &S,
    instance: &str,
    listed: &[String],
    incarnation: Incarnation,
) -> Result<Vec<Unborn>> {
    let asked_for = match asked_for(store, instance).await {
        Err(error) if error.is_of_one_instance() => listed.iter().cloned().collect(),
        asked_for => asked_for?,
    };
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
                id,
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

/// Children without an answer. What does not decode asks for nothing.
async fn asked_for<S: EventStore>(store: &S, instance: &str) -> Result<BTreeSet<String>> {
    let mut open = BTreeSet::new();
    for partition in store.partitions(instance).await? {
        let query = Query::Events {
            entity: instance.to_owned(),
            partition,
            from: 0,
            limit: usize::MAX,
        };
        let records = store.query_one(query).await?.into_events()?;
        let events: Vec<Event> = records
            .iter()
            .filter_map(|record| read::decode_event(instance, partition, record).ok())
            .collect();
        let answered: BTreeSet<u64> = events
            .iter()
            .filter(|event| is_end_of_child(&event.kind))
            .filter_map(|event| event.source_event_id)
            .collect();
        open.extend(events.iter().filter_map(|event| match &event.kind {
            EventKind::SubOrchestrationScheduled {
                instance: child, ..
            } if !answered.contains(&event.event_id) => {
                Some(build_child_instance_id(instance, child))
            }
            _ => None,
        }));
    }
    Ok(open)
}

fn is_end_of_child(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::SubOrchestrationCompleted { .. } | EventKind::SubOrchestrationFailed { .. }
    )
}
