//! Reads an instance and all its descendants from one state: those that have begun, and those that were asked for and
//! have not.

use std::collections::BTreeSet;

use duroxide_core::provider::{Incarnation, InstanceSnapshot, StoredIncarnation};

use super::read::{assemble, next, questions};
use crate::EventStore;
use crate::adapter::error::Result;
use crate::adapter::names::{self, INSTANCES};
use crate::adapter::rows::InstanceRow;
use crate::atomic::Query;
use crate::record::Entry;

/// Who belongs to the family, as it was found before it is read.
struct Member {
    id: String,
    partitions: Vec<u64>,
}

impl Member {
    /// What to ask of it: first who it is, then its snapshot.
    fn questions(&self) -> Vec<Query> {
        let mut all = vec![
            partitions(&self.id),
            Query::all_entries(names::children(&self.id)),
            Query::all_entries(names::asked(&self.id)),
        ];
        all.extend(questions(&self.id, &self.partitions));
        all
    }
}

fn partitions(id: &str) -> Query {
    Query::Partitions {
        entity: id.to_owned(),
    }
}

/// Of those listed under an instance, the children of this life of it.
fn kin(listed: Vec<Entry>, incarnation: Option<Incarnation>) -> impl Iterator<Item = String> {
    let own = listed
        .into_iter()
        .filter(move |entry| names::is_child(&entry.value, incarnation));
    own.map(|entry| entry.key)
}

pub(in crate::adapter) async fn run<S: EventStore>(
    store: &S,
    root: &str,
) -> Result<Vec<InstanceSnapshot>> {
    loop {
        // Who came or went since they were found is asked for anew: one state has all of them.
        if let Some(family) = read(store, root, &find(store, root).await?).await? {
            return Ok(family);
        }
    }
}

/// The members, parents first.
async fn find<S: EventStore>(store: &S, root: &str) -> Result<Vec<Member>> {
    let mut members: Vec<Member> = Vec::new();
    let mut known = BTreeSet::from([root.to_owned()]);
    let mut generation = vec![root.to_owned()];
    while !generation.is_empty() {
        let queries = generation.iter().flat_map(|id| {
            [
                Query::Entry {
                    scope: INSTANCES.to_owned(),
                    key: id.clone(),
                },
                partitions(id),
                Query::all_entries(names::children(id)),
                Query::all_entries(names::asked(id)),
            ]
        });
        let mut answers = store.query(queries.collect()).await?.into_iter();
        let mut later = Vec::new();
        for id in generation {
            let row = next(&mut answers)?.into_entry()?;
            let incarnation = row.and_then(|row| InstanceRow::read(&row).ok()?.incarnation());
            let partitions = next(&mut answers)?.into_partitions()?;
            let mut listed = next(&mut answers)?.into_entries()?;
            listed.extend(next(&mut answers)?.into_entries()?);
            members.push(Member { id, partitions });
            later.extend(kin(listed, incarnation).filter(|child| known.insert(child.clone())));
        }
        generation = later;
    }
    Ok(members)
}

/// Their snapshots from one state; `None` if they are not the same any more.
async fn read<S: EventStore>(
    store: &S,
    root: &str,
    members: &[Member],
) -> Result<Option<Vec<InstanceSnapshot>>> {
    let queries = members.iter().flat_map(Member::questions);
    let mut answers = store.query(queries.collect()).await?.into_iter();
    let mut family = Vec::with_capacity(members.len());
    let mut reached = BTreeSet::from([root.to_owned()]);
    for member in members {
        if next(&mut answers)?.into_partitions()? != member.partitions {
            return Ok(None);
        }
        let mut listed = next(&mut answers)?.into_entries()?;
        listed.extend(next(&mut answers)?.into_entries()?);
        let answered = questions(&member.id, &member.partitions).len();
        let own = answers.by_ref().take(answered);
        let snapshot = assemble(&member.id, &member.partitions, own)?;
        let record = snapshot.record.as_ref();
        let incarnation =
            record.and_then(|it| it.incarnation.and_then(StoredIncarnation::incarnation));
        reached.extend(kin(listed, incarnation));
        family.push(snapshot);
    }
    if reached.len() != members.len() || members.iter().any(|it| !reached.contains(&it.id)) {
        return Ok(None);
    }
    Ok(Some(kept(root, family)))
}

/// Without those that are not there, and without instances of an id that another start took meanwhile.
fn kept(root: &str, family: Vec<InstanceSnapshot>) -> Vec<InstanceSnapshot> {
    let mut ids = BTreeSet::new();
    let mut kept = Vec::with_capacity(family.len());
    for snapshot in family {
        let is_kin = snapshot.record.as_ref().is_none_or(|record| {
            let parent = record.parent.as_ref();
            parent.is_some_and(|parent| ids.contains(parent))
        });
        if !snapshot.is_empty() && (is_kin || snapshot.instance_id == root) {
            ids.insert(snapshot.instance_id.clone());
            kept.push(snapshot);
        }
    }
    kept
}
