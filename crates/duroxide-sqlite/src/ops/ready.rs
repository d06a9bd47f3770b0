//! Work that is ready and not claimed, by the handler it needs. Runs on a reader; counting stops at a bound, so
//! that a large backlog does not make it slow.

use std::collections::BTreeMap;

use duroxide_core::provider::rules::lane;
use duroxide_core::provider::{HandlerKind, ReadyWork};

use crate::error::Result;
use crate::tables::{orchestrator_queue, worker_queue};
use crate::tx::{Tx, shown_ms};

/// How many instances or activities are counted for one handler, per lane or per tag and session.
const COUNT_MAX: u32 = 10_000;
/// How many sessions of one tag are looked at.
const SESSIONS_MAX: usize = 1_000;

type Key = (HandlerKind, String, Option<String>);
type Waiting = BTreeMap<Key, (u64, i64)>;

/// At most `limit` handlers, those that wait longest first.
pub(crate) fn run(tx: &Tx<'_>, limit: u32) -> Result<Vec<ReadyWork>> {
    let mut waiting = Waiting::new();
    turns(tx, &mut waiting)?;
    activities(tx, &mut waiting)?;
    let mut ready: Vec<ReadyWork> = waiting
        .into_iter()
        .map(|((kind, name, version), (count, since))| ReadyWork {
            kind,
            name,
            version,
            count,
            ready_since_ms: shown_ms(since),
        })
        .collect();
    ready.sort_by_key(|work| work.ready_since_ms);
    ready.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(ready)
}

fn turns(tx: &Tx<'_>, waiting: &mut Waiting) -> Result<()> {
    for lane in orchestrator_queue::lanes(tx)? {
        // What any node may take needs no handler.
        if let Some(needs) = lane::needs(&lane)
            && let Some(name) = needs.name
        {
            let ready = orchestrator_queue::ready(tx, &lane, COUNT_MAX)?;
            let key = (HandlerKind::Orchestration, name, needs.version);
            add(waiting, key, ready);
        }
    }
    Ok(())
}

fn activities(tx: &Tx<'_>, waiting: &mut Waiting) -> Result<()> {
    let tags = worker_queue::free_tags(tx)?.into_iter().map(Some);
    for tag in std::iter::once(None).chain(tags) {
        let tag = tag.as_deref();
        let sessions = worker_queue::free_sessions(tx, tag)?.into_iter().map(Some);
        for session in std::iter::once(None).chain(sessions.take(SESSIONS_MAX)) {
            let session = session.as_deref();
            for name in worker_queue::free_names(tx, tag, session)? {
                let ready = worker_queue::ready(tx, tag, session, &name, COUNT_MAX)?;
                add(waiting, (HandlerKind::Activity, name, None), ready);
            }
        }
    }
    for (name, count, since) in worker_queue::expired(tx, COUNT_MAX)? {
        add(
            waiting,
            (HandlerKind::Activity, name, None),
            (count, Some(since)),
        );
    }
    Ok(())
}

fn add(waiting: &mut Waiting, key: Key, (count, since): (u64, Option<i64>)) {
    let Some(since) = since.filter(|_| count > 0) else {
        return;
    };
    let sum = waiting.entry(key).or_insert((0, since));
    sum.0 += count;
    sum.1 = sum.1.min(since);
}
