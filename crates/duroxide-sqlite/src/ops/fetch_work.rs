//! Claims activities. In: how many, for how long, which tags, which session owner. Out: items leased to the caller,
//! oldest first; or, if there are none, when to look again.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::{
    ClaimedWork, HandOut, Incarnation, SessionFetchConfig, TagFilter, WorkClaim,
};

use crate::codec;
use crate::damage::DamagedRows;
use crate::error::{Result, SqliteError};
use crate::ops::claim_try::ClaimTry;
use crate::ops::steps::STEP_ROWS;
use crate::ops::{delete, free_expired, note_damage};
use crate::tables::worker_queue::{Bound, Columns, Free, Next};
use crate::tables::{closing, deletions, pauses, sessions, worker_queue};
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

    /// Whether the caller has code for an activity. What has no name because it does not decode goes to any caller,
    /// which dead-letters it.
    fn has_code(&self, name: &str) -> bool {
        let names = self.activities.as_ref();
        names.is_none_or(|names| names.contains(name))
    }

    /// Whether nothing can ever match.
    pub(crate) fn wants_nothing(&self) -> bool {
        let names = self.activities.as_ref();
        if names.is_some_and(|names| names.is_empty()) {
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
pub(crate) fn claim(tx: &mut WriterTx<'_>, ask: &Ask) -> Result<ClaimTry<RawWork>> {
    closing::check(tx)?;
    note_damage::run(tx)?;
    let more_expire = free_expired::run(tx)?;
    let (free, sessions_free_at) = choose_readable(tx, ask)?;
    let until = tx.later(ask.lock_timeout);
    let mut found = Vec::with_capacity(free.len());
    let mut held_back = false;
    let mut may_delete = STEP_ROWS;
    for item in free {
        match standing(tx, item.id)? {
            Standing::Claimable => {}
            Standing::Paused => {
                worker_queue::hold_back(tx, item.id)?;
                held_back = true;
                continue;
            }
            Standing::BeingDeleted(instance) => {
                let damaged = tx.writer().damaged;
                damaged.remembering(
                    || delete::sweep_activities(tx, &instance, &mut may_delete),
                    |why| damaged.add_work(item.id, why),
                )?;
                held_back = true;
                continue;
            }
            Standing::Gone => continue,
        }
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
    Ok(ClaimTry {
        // Behind those that were held back, deleted or freed there may be others.
        leaves_more: held_back || more_expire || found.len() >= ask.max,
        hand_out: HandOut::AfterCommit,
        found,
        due,
    })
}

/// What a claim may do with a free item.
enum Standing {
    Claimable,
    /// Its instance is paused.
    Paused,
    /// It is left of this instance, which was deleted.
    BeingDeleted(String),
    /// It went with others of its instance in this claim.
    Gone,
}

fn standing(tx: &Tx<'_>, id: i64) -> Result<Standing> {
    if pauses::is_empty(tx)? && deletions::is_empty(tx)? {
        return Ok(Standing::Claimable);
    }
    let Some(instance) = worker_queue::instance_of(tx, id)? else {
        return Ok(Standing::Gone);
    };
    if deletions::include_work(tx, &instance, id)? {
        return Ok(Standing::BeingDeleted(instance));
    }
    Ok(match pauses::since(tx, &instance)? {
        Some(_) => Standing::Paused,
        None => Standing::Claimable,
    })
}

/// Chooses, and leaves alone what cannot be read. A transaction that meets it fails as a whole; before it does, it
/// finds out which items those are, and the next ones avoid them.
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
    let mut bound = BoundItems::default();
    for tag in tags(tx, &ask.tags)? {
        let tag = tag.as_deref();
        let is_damaged = |id| damaged.contains_work(id);
        let has_code = |name: &str| ask.has_code(name);
        let unbound = worker_queue::free(tx, columns, tag, max, has_code, is_damaged)?;
        free.extend(unbound);
        if let Some(config) = &ask.session {
            let wanted = Wanted {
                ask,
                config,
                tag,
                max,
            };
            bound.choose(tx, &wanted, damaged)?;
        }
    }
    free.append(&mut bound.free);
    free.sort_unstable_by_key(|item| item.id);
    keep_to_sessions(&mut free, &bound.new_sessions, ask.new_sessions_max);
    free.truncate(max);
    if columns == Columns::Whole {
        for item in free.iter_mut().filter(|item| item.session.is_some()) {
            worker_queue::read_free(tx, item)?;
        }
    }
    Ok((free, bound.sessions_free_at))
}

/// Which bound items a claim wants: of one tag, and of each session and name at most `max`.
struct Wanted<'a> {
    ask: &'a Ask,
    config: &'a SessionFetchConfig,
    tag: Option<&'a str>,
    max: usize,
}

/// Items that are bound to sessions, as the index has them.
#[derive(Default)]
struct BoundItems {
    free: Vec<Free>,
    /// Sessions without an owner.
    new_sessions: HashSet<String>,
    /// When the first session that another worker holds becomes free.
    sessions_free_at: Option<i64>,
}

impl BoundItems {
    /// Adds the items of one tag that the caller may take: of each session and name the oldest, at most `max`.
    fn choose(&mut self, tx: &Tx<'_>, wanted: &Wanted<'_>, damaged: &DamagedRows) -> Result<()> {
        let Wanted {
            ask,
            config,
            tag,
            max,
        } = *wanted;
        let mut place: Option<(String, Option<String>)> = None;
        let mut count = 0_usize;
        worker_queue::walk_bound(tx, tag, |item| {
            let (session, name) = (item.session, item.name);
            let is_same_session = place.as_ref().is_some_and(|(s, _)| s == session);
            if !is_same_session && !self.may_take(ask, config, item) {
                return Next::Session;
            }
            let is_same_name = place.as_ref().is_some_and(|(_, n)| n.as_deref() == name);
            if !is_same_session || !is_same_name {
                place = Some((session.to_owned(), name.map(str::to_owned)));
                count = 0;
            }
            if count >= max || name.is_some_and(|name| !ask.has_code(name)) {
                return Next::Name;
            }
            if item.visible_at <= tx.now && !damaged.contains_work(item.id) {
                count += 1;
                self.free.push(Free::bound(item.id, session));
            }
            Next::Row
        })
    }

    /// Whether the session of this item is the caller's, or could be.
    fn may_take(&mut self, ask: &Ask, config: &SessionFetchConfig, item: &Bound<'_>) -> bool {
        match &item.holder {
            Some((worker, until)) if *worker != config.owner_id => {
                let at = self.sessions_free_at.map_or(*until, |at| at.min(*until));
                self.sessions_free_at = Some(at);
                false
            }
            Some(_) => true,
            None if ask.new_sessions_max == 0 => false,
            None => {
                self.new_sessions.insert(item.session.to_owned());
                true
            }
        }
    }
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
