//! Which code ready work waits for. In: nothing but a limit. Out: handlers with the number and age of what waits.

use std::collections::BTreeMap;

use duroxide_core::provider::rules::lane::{self, WorkNeeds};
use duroxide_core::provider::{HandlerKind, ReadyWork};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::codec::unsigned;
use crate::error::Result;
use crate::store::Store;
use crate::text;
use crate::time::shown_ms;

/// How much ready work is counted for one lane.
const COUNT_MAX: i64 = 10_000;

impl Store {
    pub(crate) async fn ready_work(&self, limit: u32) -> Result<Vec<ReadyWork>> {
        let turns = self
            .ask(
                "SELECT l.lane, count(*), min(r.ready_at) FROM (SELECT DISTINCT lane FROM {s}.inboxes) AS l
                 CROSS JOIN (SELECT {now} AS now) AS n
                 CROSS JOIN LATERAL (SELECT b.ready_at FROM {s}.inboxes AS b
                     WHERE b.lane = l.lane AND b.ready_at <= n.now AND b.locked_until <= n.now LIMIT $1) AS r
                 GROUP BY l.lane",
                &[(&COUNT_MAX, Type::INT8)],
            )
            .await?;
        let work = self
            .ask(
                "SELECT l.lane, count(*), min(r.since) FROM (SELECT DISTINCT lane FROM {s}.worker_queue) AS l
                 CROSS JOIN (SELECT {now} AS now) AS n
                 CROSS JOIN LATERAL (SELECT greatest(w.visible_at, w.locked_until) AS since FROM {s}.worker_queue AS w
                     WHERE w.lane = l.lane AND w.visible_at <= n.now AND w.locked_until <= n.now LIMIT $1) AS r
                 GROUP BY l.lane",
                &[(&COUNT_MAX, Type::INT8)],
            )
            .await?;
        let mut waiting = BTreeMap::new();
        for row in &turns {
            let lane = text::shown(row.try_get(0)?);
            // What any node may take needs no handler.
            if let Some(needs) = lane::needs(&lane)
                && let Some(name) = needs.name
            {
                let key = (HandlerKind::Orchestration, name, needs.version);
                gather(&mut waiting, key, row)?;
            }
        }
        for row in &work {
            let lane = text::shown(row.try_get(0)?);
            if let Some(needs) = WorkNeeds::of(&lane) {
                gather(&mut waiting, (HandlerKind::Activity, needs.name, None), row)?;
            }
        }
        let mut ready: Vec<ReadyWork> = waiting
            .into_iter()
            .map(|((kind, name, version), (count, since))| ReadyWork {
                kind,
                name,
                version,
                count,
                ready_since_ms: since,
            })
            .collect();
        ready.sort_by_key(|work| work.ready_since_ms);
        ready.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(ready)
    }
}

type Waiting = BTreeMap<(HandlerKind, String, Option<String>), (u64, u64)>;

fn gather(
    waiting: &mut Waiting,
    key: (HandlerKind, String, Option<String>),
    row: &Row,
) -> Result<()> {
    let (count, since) = (unsigned(row, 1)?, shown_ms(row.try_get(2)?));
    let sum = waiting.entry(key).or_insert((0, since));
    sum.0 += count;
    sum.1 = sum.1.min(since);
    Ok(())
}
