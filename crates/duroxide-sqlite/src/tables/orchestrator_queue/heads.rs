//! Which instances have something to do, by the code they need.
//!
//! A message that has a lane stands for its instance: the earliest one always does. Lanes follow the instance at each
//! commit; one that is outdated all the same is put right by the claim that finds it.

use crate::error::Result;
use crate::tx::Tx;

/// A message that stands for its instance.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) id: i64,
    pub(crate) instance: String,
    /// Since when it is visible.
    pub(crate) since: i64,
}

/// The lanes in which anything is queued, due or not. Walks from lane to lane by index seeks.
pub(crate) fn lanes(tx: &Tx<'_>) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut lane: Option<String> = tx.one(
        "SELECT MIN(lane) FROM orchestrator_queue INDEXED BY idx_orch_lane WHERE lane >= ''",
        [],
        |row| row.get(0),
    )?;
    while let Some(current) = lane {
        lane = tx.one(
            "SELECT MIN(lane) FROM orchestrator_queue INDEXED BY idx_orch_lane WHERE lane > ?1",
            [&current],
            |row| row.get(0),
        )?;
        found.push(current);
    }
    Ok(found)
}

/// What one lane has for a claim.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub(crate) lane: String,
    /// Visible heads of instances that are not leased, the one that waited longest first.
    pub(crate) heads: Vec<Head>,
    /// Whether there may be more of them; then nothing is known about what comes after.
    pub(crate) is_cut: bool,
    /// When the next message of the lane becomes visible.
    pub(crate) next_due: Option<i64>,
}

/// The first visible heads of every lane that fits, at most `limit` of each. One statement goes on from lane to lane,
/// and another one begins only where something is to be passed over: a lane that does not fit, messages that are not
/// due, or more heads than are wanted.
pub(crate) fn survey(
    tx: &Tx<'_>,
    limit: usize,
    fits: impl Fn(&str) -> bool,
) -> Result<Vec<Stretch>> {
    let mut found: Vec<Stretch> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut passed_over = None;
        let visit = |row: &rusqlite::Row<'_>| {
            let lane = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
            if found.last().is_none_or(|last| last.lane != lane) {
                if !fits(lane) {
                    passed_over = Some(lane.to_owned());
                    return Ok(false);
                }
                found.push(Stretch {
                    lane: lane.to_owned(),
                    heads: Vec::new(),
                    is_cut: false,
                    next_due: None,
                });
            }
            let Some(stretch) = found.last_mut() else {
                return Ok(false);
            };
            let head = head(row)?;
            if head.since > tx.now {
                stretch.next_due = Some(head.since);
            } else if stretch.heads.len() >= limit {
                stretch.is_cut = true;
            } else {
                stretch.heads.push(head);
                return Ok(true);
            }
            passed_over = Some(stretch.lane.clone());
            Ok(false)
        };
        walk_lanes(tx, after.as_deref(), visit)?;
        if passed_over.is_none() {
            return Ok(found);
        }
        after = passed_over;
    }
}

/// Heads lane by lane, those that are not due included; those that are due only if their instance is not leased.
fn walk_lanes(
    tx: &Tx<'_>,
    after: Option<&str>,
    visit: impl FnMut(&rusqlite::Row<'_>) -> Result<bool>,
) -> Result<()> {
    match after {
        None => tx.walk(
            "SELECT q.id, q.instance_id, q.visible_at, q.lane FROM orchestrator_queue AS q INDEXED BY idx_orch_lane
             WHERE q.lane >= '' AND (q.visible_at > ?1 OR NOT EXISTS
                 (SELECT 1 FROM instance_locks AS l WHERE l.instance_id = q.instance_id AND l.locked_until > ?1))
             ORDER BY q.lane, q.visible_at, q.id",
            [tx.now],
            visit,
        ),
        Some(after) => tx.walk(
            "SELECT q.id, q.instance_id, q.visible_at, q.lane FROM orchestrator_queue AS q INDEXED BY idx_orch_lane
             WHERE q.lane > ?2 AND (q.visible_at > ?1 OR NOT EXISTS
                 (SELECT 1 FROM instance_locks AS l WHERE l.instance_id = q.instance_id AND l.locked_until > ?1))
             ORDER BY q.lane, q.visible_at, q.id",
            (tx.now, after),
            visit,
        ),
    }
}

/// Visible heads of a lane, of instances that are not leased, the one that waited longest first, after a given one.
pub(crate) fn heads(tx: &Tx<'_>, lane: &str, after: &Head, limit: usize) -> Result<Vec<Head>> {
    tx.all(
        "SELECT q.id, q.instance_id, q.visible_at FROM orchestrator_queue AS q INDEXED BY idx_orch_lane
         WHERE q.lane = ?1 AND (q.visible_at, q.id) > (?2, ?3) AND q.visible_at <= ?4 AND NOT EXISTS
             (SELECT 1 FROM instance_locks AS l WHERE l.instance_id = q.instance_id AND l.locked_until > ?4)
         ORDER BY q.visible_at, q.id LIMIT ?5",
        (
            lane,
            after.since,
            after.id,
            tx.now,
            i64::try_from(limit).unwrap_or(i64::MAX),
        ),
        head,
    )
}

const OLD_CANCELS: &str = "SELECT q.id, q.instance_id, q.asked_at FROM orchestrator_queue AS q INDEXED BY idx_orch_cancel
     WHERE q.kind = 'CancelInstance' AND (q.asked_at, q.id) > (?1, ?2) AND q.asked_at <= ?3
       AND q.visible_at <= ?4 AND NOT EXISTS
         (SELECT 1 FROM instance_locks AS l WHERE l.instance_id = q.instance_id AND l.locked_until > ?4)
     ORDER BY q.asked_at, q.id LIMIT ?5";

/// Requests to cancel that were enqueued by a time, of instances that are not leased, those that terminate first, then
/// the oldest, after a given one. When they were enqueued, 0 for those that terminate, stands in `since`.
pub(crate) fn old_cancels(
    tx: &Tx<'_>,
    enqueued_by: i64,
    after: &Head,
    limit: usize,
) -> Result<Vec<Head>> {
    tx.all(
        OLD_CANCELS,
        (
            after.since,
            after.id,
            enqueued_by,
            tx.now,
            i64::try_from(limit).unwrap_or(i64::MAX),
        ),
        head,
    )
}

fn head(row: &rusqlite::Row<'_>) -> rusqlite::Result<Head> {
    Ok(Head {
        id: row.get(0)?,
        instance: row.get(1)?,
        since: row.get(2)?,
    })
}

/// A time before which no request to cancel was enqueued that is still queued, 0 if one may terminate; far in the
/// future if there is none.
pub(crate) fn cancels_from(tx: &Tx<'_>) -> Result<i64> {
    let memory = tx.memory();
    if let Some(from) = memory.and_then(|memory| memory.cancels_from()) {
        return Ok(from);
    }
    let first: Option<i64> = tx.one(
        "SELECT MIN(asked_at) FROM orchestrator_queue INDEXED BY idx_orch_cancel WHERE kind = 'CancelInstance'",
        [],
        |row| row.get(0),
    )?;
    let from = first.unwrap_or(i64::MAX);
    if let Some(memory) = memory {
        memory.set_cancels_from(from);
    }
    Ok(from)
}

/// When the first request to cancel after a time was enqueued.
pub(crate) fn next_cancel(tx: &Tx<'_>, enqueued_after: i64) -> Result<Option<i64>> {
    tx.one(
        "SELECT MIN(asked_at) FROM orchestrator_queue INDEXED BY idx_orch_cancel
         WHERE kind = 'CancelInstance' AND asked_at > ?1",
        [enqueued_after],
        |row| row.get(0),
    )
}

/// When the next message of a lane becomes visible.
pub(crate) fn next_due(tx: &Tx<'_>, lane: &str) -> Result<Option<i64>> {
    tx.one(
        "SELECT MIN(visible_at) FROM orchestrator_queue INDEXED BY idx_orch_lane WHERE lane = ?1 AND visible_at > ?2",
        (lane, tx.now),
        |row| row.get(0),
    )
}

/// How many instances wait in a lane, counted up to `limit`, and since when the first does.
pub(crate) fn ready(tx: &Tx<'_>, lane: &str, limit: u32) -> Result<(u64, Option<i64>)> {
    tx.one(
        "SELECT COUNT(*), MIN(since) FROM
             (SELECT MIN(q.visible_at) AS since FROM
                  (SELECT instance_id, visible_at FROM orchestrator_queue INDEXED BY idx_orch_lane
                   WHERE lane = ?1 AND visible_at <= ?2 ORDER BY visible_at LIMIT ?3) AS q
              WHERE NOT EXISTS
                  (SELECT 1 FROM instance_locks AS l WHERE l.instance_id = q.instance_id AND l.locked_until > ?2)
              GROUP BY q.instance_id)",
        (lane, tx.now, limit),
        |row| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?)),
    )
}

/// Moves a message to another lane.
pub(crate) fn move_to(tx: &Tx<'_>, id: i64, lane: &str) -> Result<()> {
    tx.execute(
        "UPDATE orchestrator_queue SET lane = ?2 WHERE id = ?1",
        (id, lane),
    )?;
    Ok(())
}

/// Messages of the instance went or moved: the earliest one that is left stands for it, in the lane of the instance.
/// Returns whether it can be claimed now.
pub(crate) fn choose_head(tx: &Tx<'_>, instance: &str) -> Result<bool> {
    let first = tx.first(
        "SELECT q.id, q.visible_at, COALESCE(NULLIF(i.lane, 'between'), q.lane, i.lane, ''),
             q.lane IS COALESCE(NULLIF(i.lane, 'between'), q.lane, i.lane, '')
         FROM orchestrator_queue AS q LEFT JOIN instances AS i ON i.instance_id = q.instance_id
         WHERE q.instance_id = ?1 ORDER BY q.visible_at, q.id LIMIT 1",
        [instance],
        |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, bool>(3)?,
            ))
        },
    )?;
    let head_is = |at| {
        if let Some(memory) = tx.memory() {
            memory.head_is(instance, at);
        }
    };
    let Some((id, visible_at, lane, is_right)) = first else {
        head_is(None);
        return Ok(false);
    };
    if !is_right {
        move_to(tx, id, &lane)?;
    }
    head_is(Some(visible_at));
    Ok(visible_at <= tx.now)
}

/// The lane named by the message that begins the next execution, and when that message becomes visible. One that
/// continues the instance goes before a start.
pub(crate) fn beginning_lane(tx: &Tx<'_>, instance: &str) -> Result<Option<(String, i64)>> {
    let unwritten = tx.unwritten().and_then(|unwritten| unwritten.get(instance));
    if let Some(message) = unwritten.filter(|message| message.begins) {
        return Ok(Some((message.lane, message.visible_at)));
    }
    // Chosen here: there is nearly always one, and sorting costs SQLite more than finding it.
    let mut first = None;
    tx.walk(
        "SELECT COALESCE(lane, ''), visible_at, kind, id FROM orchestrator_queue INDEXED BY idx_orch_begin
         WHERE instance_id = ?1 AND kind IN ('StartOrchestration', 'ContinueAsNew')",
        [instance],
        |row| {
            let (visible_at, kind): (i64, String) = (row.get(1)?, row.get(2)?);
            let rank = (visible_at > tx.now, kind, visible_at, row.get::<_, i64>(3)?);
            if first.as_ref().is_none_or(|(best, _)| rank < *best) {
                first = Some((rank, row.get(0)?));
            }
            Ok(true)
        },
    )?;
    Ok(first.map(|((_, _, visible_at, _), lane)| (lane, visible_at)))
}

#[cfg(test)]
mod tests {
    use super::OLD_CANCELS;
    use crate::connection::database::open_memory;

    #[test]
    fn old_requests_to_cancel_are_found_in_order_by_their_index() {
        let conn = open_memory().unwrap();
        let mut explain = conn
            .prepare(&format!("EXPLAIN QUERY PLAN {OLD_CANCELS}"))
            .unwrap();
        let plan = explain.query_map((0, 0, 0, 0, 9), |row| row.get::<_, String>(3));
        let plan = plan.unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        let plan = plan.join("\n");
        assert!(
            plan.contains("idx_orch_cancel (asked_at>? AND asked_at<?)"),
            "{plan}"
        );
        assert!(!plan.contains("TEMP B-TREE"), "nothing is sorted:\n{plan}");
        assert!(!plan.contains("SCAN"), "nothing is read through:\n{plan}");
    }
}
