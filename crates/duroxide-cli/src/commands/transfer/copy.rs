//! Copies instances, many at a time, and reads each back where it was written. What is there already is only compared.

use std::sync::Arc;

use duroxide_core::kill;
use duroxide_core::provider::{InstanceSnapshot, Provider, Restoring};
use tokio::task::JoinSet;

use super::source::take;
use super::{Source, admin, cannot};
use crate::commands::line::digest;
use crate::failure::Failure;

/// How many instances are on their way at once: a store that commits groups writes them together.
const AT_ONCE: usize = 32;

/// What went over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Counts {
    /// Ids that anything was held of.
    pub(crate) ids: u64,
    /// Of these, instances that have begun.
    pub(crate) instances: u64,
    pub(crate) executions: u64,
    pub(crate) events: u64,
    pub(crate) messages: u64,
    pub(crate) activities: u64,
    /// Those of running executions included.
    pub(crate) key_values: u64,
    pub(crate) dead_letters: u64,
    /// Of the ids, those that were there already, and the same.
    pub(crate) were_there: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, snapshot: &InstanceSnapshot) {
        let events = snapshot.executions.iter().map(|it| it.events.len() as u64);
        self.ids += 1;
        self.instances += u64::from(snapshot.record.is_some());
        self.executions += snapshot.executions.len() as u64;
        self.events += events.sum::<u64>();
        self.messages += snapshot.messages.len() as u64;
        self.activities += snapshot.activities.len() as u64;
        self.key_values += snapshot.key_values.len() as u64;
        self.key_values += snapshot.key_value_changes.len() as u64;
        self.dead_letters += snapshot.dead_letters.len() as u64;
    }

    /// In words.
    pub(crate) fn in_words(&self) -> String {
        format!(
            "{} instances with {} executions and {} events, {} messages, {} activities, {} key-values, {} dead letters",
            self.instances,
            self.executions,
            self.events,
            self.messages,
            self.activities,
            self.key_values,
            self.dead_letters
        )
    }
}

/// Copies instances into a store.
pub(crate) struct Copier {
    pub(crate) from: Source,
    pub(crate) to: Arc<dyn Provider>,
    pub(crate) incarnations: Incarnations,
    /// What the target is closed for.
    pub(crate) closed: String,
}

/// How far a copy came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copied {
    All,
    /// The target is no longer closed for this move: another process has finished it, or given it up.
    NotOurs,
}

/// Which incarnations the instances have in the other store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incarnations {
    /// Those that they had.
    Kept,
    /// Those that follow from their ids: the source is made anew for each try, and has others each time.
    OfTheirIds,
}

impl Copier {
    /// Copies these and returns what went over; calls `done` for each.
    pub(crate) async fn copy(
        &self,
        ids: Vec<String>,
        counts: &mut Counts,
        done: impl Fn(),
    ) -> Result<Copied, Failure> {
        let mut running: JoinSet<Result<One, Failure>> = JoinSet::new();
        let mut ids = ids.into_iter();
        loop {
            while running.len() < AT_ONCE
                && let Some(id) = ids.next()
            {
                let (from, to) = (self.from.clone(), Arc::clone(&self.to));
                let (incarnations, closed) = (self.incarnations, self.closed.clone());
                running.spawn(async move { one(&from, &to, &id, incarnations, &closed).await });
            }
            let Some(finished) = running.join_next().await else {
                return Ok(Copied::All);
            };
            let finished = finished.map_err(|error| Failure::Store(error.to_string()))??;
            match finished.restored {
                Restoring::Unexpected(_) => return Ok(Copied::NotOurs),
                Restoring::Exists => counts.were_there += 1,
                Restoring::Done => {}
            }
            // What is left of an instance that was deleted is listed, and nothing.
            if !finished.snapshot.is_empty() {
                counts.add(&finished.snapshot);
            }
            done();
            kill::point("move_copied");
        }
    }
}

struct One {
    snapshot: InstanceSnapshot,
    restored: Restoring,
}

async fn one(
    from: &Source,
    to: &Arc<dyn Provider>,
    id: &str,
    incarnations: Incarnations,
    closed: &str,
) -> Result<One, Failure> {
    let snapshot = from.take(id).await?;
    let snapshot = match incarnations {
        Incarnations::Kept => snapshot.settled(),
        Incarnations::OfTheirIds => snapshot.with_incarnation_of_its_id(),
    };
    let restored = if snapshot.is_empty() {
        Restoring::Done
    } else {
        write(to, &snapshot, closed).await?
    };
    Ok(One { snapshot, restored })
}

/// Restores a snapshot into a store that is closed for it, reads it back, and compares the digests; another process may
/// have written it.
pub(crate) async fn write(
    store: &Arc<dyn Provider>,
    snapshot: &InstanceSnapshot,
    closed: &str,
) -> Result<Restoring, Failure> {
    let restored = admin(store)?
        .restore_instance(snapshot, Some(closed))
        .await?;
    let restored = restored.ok_or_else(|| cannot("restores no snapshots"))?;
    if matches!(restored, Restoring::Unexpected(_)) {
        return Ok(restored);
    }
    let id = &snapshot.instance_id;
    let (wanted, found) = (digest(snapshot)?, digest(&take(store, id).await?)?);
    if wanted != found {
        let id = id.escape_debug();
        return Err(Failure::Store(format!(
            "`{id}` is not the same on both sides: {wanted} and {found}"
        )));
    }
    Ok(restored)
}
