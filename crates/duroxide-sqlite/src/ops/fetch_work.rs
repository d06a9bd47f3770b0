//! Claims activities. In: how many, for how long, which tags, which session owner. Out: items leased to the caller,
//! oldest first; or, if there are none, when to look again.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::{
    ClaimedWork, HandOut, Incarnation, SessionFetchConfig, TagFilter, WorkClaim,
};
use tokio::time::Instant;

use crate::claims::ClaimAttempt;
use crate::codec;
use crate::error::Result;
use crate::ops::{abandon_work, dead_letter};
use crate::requests::{ClaimQueue, LeaseView};
use crate::store::Store;
use crate::tables::worker_queue::Free;
use crate::tables::{sessions, worker_queue};
use crate::token;
use crate::tx::Tx;
use crate::writer_tx::WriterTx;

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
struct RawWork {
    token: String,
    json: Vec<u8>,
    attempts: u32,
    incarnation: Option<Incarnation>,
}

/// Claims, decodes, dead-letters what does not decode. Waits until the deadline for something to claim.
pub(crate) async fn run(
    store: &Store,
    ask: &Arc<Ask>,
    deadline: Option<Instant>,
) -> Result<Vec<ClaimedWork>> {
    loop {
        let step = Arc::clone(ask);
        let step = move |tx: &mut WriterTx<'_>| claim(tx, &step);
        let undo =
            |tx: &mut WriterTx<'_>, raw: &RawWork| abandon_work::run(tx, &raw.token, None, true);
        let raw = store.claim(ClaimQueue::Work, deadline, step, undo).await?;
        let nothing_there = raw.is_empty();
        let mut found = Vec::with_capacity(raw.len());
        for RawWork {
            token,
            json,
            attempts,
            incarnation,
        } in raw
        {
            match codec::decode_work_item(&json) {
                Ok(item) => found.push(ClaimedWork {
                    item,
                    lock_token: token,
                    attempt_count: attempts,
                    incarnation,
                }),
                Err(reason) => dead_letter_broken(store, token, reason).await,
            }
        }
        if !found.is_empty() || nothing_there {
            return Ok(found);
        }
    }
}

/// Dead-letters an item that did not decode. If the store fails here, the other items of the claim are still handed
/// out, and this one is claimed again when its lease has run out.
async fn dead_letter_broken(store: &Store, token: String, reason: String) {
    let step = move |tx: &mut WriterTx<'_>| dead_letter::undecodable_work(tx, &token, &reason);
    if let Err(error) = store.write(LeaseView::Needed, step).await {
        tracing::warn!(target: "duroxide::providers::sqlite", %error, "an activity that does not decode could not be dead-lettered, it is claimed again");
    }
}

fn claim(tx: &mut Tx<'_>, ask: &Ask) -> Result<ClaimAttempt<RawWork>> {
    worker_queue::free_expired(tx)?;
    let (free, sessions_free_at) = choose(tx, ask)?;
    let until = tx.later(ask.lock_timeout);
    let mut found = Vec::with_capacity(free.len());
    for item in free {
        let token = token::for_work(item.id, item.session.is_some());
        worker_queue::claim(tx, item.id, &token, until)?;
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

/// The oldest free items the caller may take, and when the first session that another worker holds becomes free.
fn choose(tx: &Tx<'_>, ask: &Ask) -> Result<(Vec<Free>, Option<i64>)> {
    let mut free = Vec::new();
    let mut sessions_free_at: Option<i64> = None;
    let mut new_sessions = HashSet::new();
    for tag in tags(tx, &ask.tags)? {
        let tag = tag.as_deref();
        collect(tx, ask, tag, None, &mut free)?;
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
            collect(tx, ask, tag, Some(&session), &mut free)?;
        }
    }
    free.sort_unstable_by_key(|item| item.id);
    keep_to_sessions(&mut free, &new_sessions, ask.new_sessions_max);
    free.truncate(ask.max);
    Ok((free, sessions_free_at))
}

/// Adds the free items of one tag and session that the caller has code for. What cannot be read goes to any
/// caller, which dead-letters it.
fn collect(
    tx: &Tx<'_>,
    ask: &Ask,
    tag: Option<&str>,
    session: Option<&str>,
    free: &mut Vec<Free>,
) -> Result<()> {
    let has_code = |name: &str| {
        ask.activities
            .as_ref()
            .is_none_or(|names| names.contains(name))
    };
    free.extend(worker_queue::free(tx, tag, session, ask.max, has_code)?);
    Ok(())
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
