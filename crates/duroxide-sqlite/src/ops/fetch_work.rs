//! Claims activities. In: how many, for how long, which tags, which session owner. Out: items leased to the caller,
//! oldest first; or, if there are none, when to look again.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::{
    ClaimedWork, HandOut, Incarnation, SessionFetchConfig, TagFilter, WorkClaim,
};

use crate::claims::ClaimAttempt;
use crate::codec;
use crate::damage::DamagedRows;
use crate::error::{Result, SqliteError};
use crate::tables::worker_queue::{Columns, Free};
use crate::tables::{sessions, worker_queue};
use crate::token;
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

/// How many items a claim that met a damaged page looks at, to find out which ones are on it.
const NOTED_AT_ONCE: usize = 100;

/// What the caller asks for.
pub(crate) struct Ask {
    max: usize,
    lock_timeout: Duration,
    session: Option<SessionFetchConfig>,
    new_sessions_max: usize,
    tags: TagFilter,
    activities: Option<Arc<BTreeSet<String>>>,
}

impl Ask {
    pub(crate) fn new(claim: WorkClaim) -> Self {
        Self {
            max: claim.max.max(1),
            lock_timeout: claim.lock_timeout,
            session: claim.session,
            new_sessions_max: claim.new_sessions_max,
            tags: claim.tag_filter,
            activities: claim.activities,
        }
    }

    /// Whether nothing can ever match.
    pub(crate) fn wants_nothing(&self) -> bool {
        if self
            .activities
            .as_ref()
            .is_some_and(|names| names.is_empty())
        {
            return true;
        }
        match &self.tags {
            TagFilter::None => true,
            TagFilter::Tags(tags) => tags.is_empty(),
            TagFilter::DefaultOnly | TagFilter::DefaultAnd(_) | TagFilter::Any => false,
        }
    }
}

/// A claimed item as the transaction left it.
pub(crate) struct RawWork {
    token: String,
    json: Vec<u8>,
    attempts: u32,
    incarnation: Option<Incarnation>,
}

/// A claimed item that does not decode.
pub(crate) struct BrokenWork {
    pub(crate) token: String,
    pub(crate) reason: String,
}

impl RawWork {
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The item as the contract hands it out.
    pub(crate) fn decode(self) -> std::result::Result<ClaimedWork, BrokenWork> {
        match codec::decode_work_item(&self.json) {
            Ok(item) => Ok(ClaimedWork {
                item,
                lock_token: self.token,
                attempt_count: self.attempts,
                incarnation: self.incarnation,
            }),
            Err(reason) => Err(BrokenWork {
                token: self.token,
                reason,
            }),
        }
    }
}

/// Claims as many activities as the caller wants and there are.
pub(crate) fn claim(tx: &mut WriterTx<'_>, ask: &Ask) -> Result<ClaimAttempt<RawWork>> {
    worker_queue::free_expired(tx)?;
    let (free, sessions_free_at) = choose_readable(tx, ask)?;
    let until = tx.later(ask.lock_timeout);
    let mut found = Vec::with_capacity(free.len());
    for item in free {
        let token = token::for_work(item.id, item.session.is_some());
        let leased = worker_queue::claim(tx, item.id, &token, until);
        noting_damage(tx.writer().damaged, item.id, leased)?;
        if let (Some(session), Some(config)) = (&item.session, &ask.session) {
            sessions::grant(tx, session, &config.owner_id, tx.later(config.lock_timeout))?;
        }
        found.push(RawWork {
            token,
            json: item.json,
            attempts: item.attempts,
            incarnation: item.incarnation,
        });
    }
    let mut due = None;
    if found.is_empty() {
        due = worker_queue::next_due(tx)?
            .into_iter()
            .chain(sessions_free_at)
            .min();
    }
    Ok(ClaimAttempt {
        leaves_more: found.len() >= ask.max,
        hand_out: HandOut::AfterCommit,
        found,
        due,
    })
}

/// Chooses, and leaves alone what cannot be read. A transaction that meets it fails as a whole; before it does, it finds
/// out which items those are, and the next ones avoid them.
fn choose_readable(tx: &WriterTx<'_>, ask: &Ask) -> Result<(Vec<Free>, Option<i64>)> {
    let damaged = tx.writer().damaged;
    if damaged.has_work() {
        return choose_by_index(tx, ask, ask.max, damaged);
    }
    let chosen = choose(tx, ask, ask.max, Columns::Whole, damaged);
    if let Err(SqliteError::Damaged { .. }) = &chosen {
        // Only to note what is damaged.
        let _ = choose_by_index(tx, ask, ask.max.max(NOTED_AT_ONCE), damaged);
    }
    chosen
}

/// Remembers an item that cannot be read, or not written because a page next to it cannot be read.
fn noting_damage(damaged: &DamagedRows, id: i64, done: Result<()>) -> Result<()> {
    if let Err(SqliteError::Damaged { detail }) = &done {
        damaged.add_work(id, detail);
    }
    done
}

/// Chooses by what stands in the index, then reads item by item.
fn choose_by_index(
    tx: &Tx<'_>,
    ask: &Ask,
    max: usize,
    damaged: &DamagedRows,
) -> Result<(Vec<Free>, Option<i64>)> {
    let (mut free, sessions_free_at) = choose(tx, ask, max, Columns::IndexOnly, damaged)?;
    let mut broken = None;
    for item in &mut free {
        let id = item.id;
        let read = worker_queue::read_free(tx, item);
        match noting_damage(damaged, id, read) {
            // Goes on, to note the others.
            Err(error @ SqliteError::Damaged { .. }) => broken = Some(error),
            read => read?,
        }
    }
    match broken {
        Some(error) => Err(error),
        None => Ok((free, sessions_free_at)),
    }
}

/// The oldest free items the caller may take, and when the first session that another worker holds becomes free.
fn choose(
    tx: &Tx<'_>,
    ask: &Ask,
    max: usize,
    columns: Columns,
    damaged: &DamagedRows,
) -> Result<(Vec<Free>, Option<i64>)> {
    let mut free = Vec::new();
    let mut sessions_free_at: Option<i64> = None;
    let mut new_sessions = HashSet::new();
    for tag in tags(tx, &ask.tags)? {
        let tag = tag.as_deref();
        free.extend(free_items(tx, ask, max, columns, damaged, tag, None)?);
        let Some(config) = &ask.session else {
            continue;
        };
        for session in worker_queue::free_sessions(tx, tag)? {
            match sessions::holder(tx, &session)? {
                Some(holder) if holder.worker != config.owner_id => {
                    let earliest = sessions_free_at.map_or(holder.until, |at| at.min(holder.until));
                    sessions_free_at = Some(earliest);
                    continue;
                }
                Some(_) => {}
                None if ask.new_sessions_max == 0 => continue,
                None => drop(new_sessions.insert(session.clone())),
            }
            free.extend(free_items(
                tx,
                ask,
                max,
                columns,
                damaged,
                tag,
                Some(&session),
            )?);
        }
    }
    free.sort_unstable_by_key(|item| item.id);
    keep_to_sessions(&mut free, &new_sessions, ask.new_sessions_max);
    free.truncate(max);
    Ok((free, sessions_free_at))
}

/// The free items of one tag and session that the caller has code for. What does not decode goes to any caller, which
/// dead-letters it.
fn free_items(
    tx: &Tx<'_>,
    ask: &Ask,
    max: usize,
    columns: Columns,
    damaged: &DamagedRows,
    tag: Option<&str>,
    session: Option<&str>,
) -> Result<Vec<Free>> {
    let has_code = |name: &str| {
        ask.activities
            .as_ref()
            .is_none_or(|names| names.contains(name))
    };
    let is_damaged = |id| damaged.contains_work(id);
    worker_queue::free(tx, columns, tag, session, max, has_code, is_damaged)
}

/// Leaves the items of sessions that would be one too many to other owners.
fn keep_to_sessions(free: &mut Vec<Free>, new: &HashSet<String>, max: usize) {
    let mut taken = HashSet::new();
    free.retain(|item| match &item.session {
        Some(session) if new.contains(session) => {
            taken.contains(session) || (taken.len() < max && taken.insert(session.clone()))
        }
        Some(_) | None => true,
    });
}

/// The tags to look at; `None` stands for items without one.
fn tags(tx: &Tx<'_>, filter: &TagFilter) -> Result<Vec<Option<String>>> {
    let untagged = std::iter::once(None);
    Ok(match filter {
        TagFilter::DefaultOnly => vec![None],
        TagFilter::Tags(tags) => tags.iter().cloned().map(Some).collect(),
        TagFilter::DefaultAnd(tags) => untagged.chain(tags.iter().cloned().map(Some)).collect(),
        TagFilter::Any => untagged
            .chain(worker_queue::free_tags(tx)?.into_iter().map(Some))
            .collect(),
        TagFilter::None => Vec::new(),
    })
}
