//! Claims of activities. In: what the caller asks for. Out: a call, and from its rows what was claimed.

use std::collections::BTreeSet;
use std::sync::Arc;

use duroxide_core::provider::rules::lane::WorkNeeds;
use duroxide_core::provider::{SessionFetchConfig, TagFilter, WorkClaim};
use tokio_postgres::Row;
use uuid::Uuid;

use super::claim_turns::{Claimed, read_or_log};
use crate::connection::call::Call;
use crate::error::Result;
use crate::text::{self, Payload};
use crate::time::duration_ms;

/// What the caller asks for.
pub(crate) struct Ask {
    pub(crate) max: usize,
    lock_ms: i64,
    session: Option<(String, i64)>,
    new_sessions_max: i64,
    tags: TagFilter,
    activities: Option<Arc<BTreeSet<String>>>,
}

impl Ask {
    pub(crate) fn new(claim: WorkClaim) -> Self {
        let owner = |session: SessionFetchConfig| {
            (
                text::owned(&session.owner_id),
                duration_ms(session.lock_timeout),
            )
        };
        Self {
            max: claim.max.clamp(1, 10_000),
            lock_ms: duration_ms(claim.lock_timeout),
            session: claim.session.map(owner),
            new_sessions_max: i64::try_from(claim.new_sessions_max).unwrap_or(i64::MAX),
            tags: claim.tag_filter,
            activities: claim.activities,
        }
    }

    /// Whether what this claim did not find the other one would not find either.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let same_code = match (&self.activities, &other.activities) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same_code
            && self.session == other.session
            && self.new_sessions_max >= other.new_sessions_max
            && self.tags == other.tags
    }

    /// Whether nothing can ever match.
    pub(crate) fn wants_nothing(&self) -> bool {
        let has_no_code = self.activities.as_ref().is_some_and(|it| it.is_empty());
        has_no_code
            || match &self.tags {
                TagFilter::None => true,
                TagFilter::Tags(tags) => tags.is_empty(),
                TagFilter::DefaultOnly | TagFilter::DefaultAnd(_) | TagFilter::Any => false,
            }
    }

    /// Whether the caller may take what is in a lane. Any caller may take a row that does not decode; its claim
    /// dead-letters it.
    pub(crate) fn fits(&self, needs: Option<&WorkNeeds>) -> bool {
        needs.is_none_or(|needs| {
            needs.fit(&self.tags, self.activities.as_deref())
                && (!needs.in_session || self.session.is_some())
        })
    }

    pub(crate) fn lock_ms(&self) -> i64 {
        self.lock_ms
    }

    /// The call of the server. The lanes that the caller knows: `plain` for work without a session, `bound` for work of
    /// sessions, `unfit` for what it has no code for. The server reports any other lane that it meets.
    pub(crate) fn call<'a>(
        &'a self,
        plain: &'a [String],
        bound: &'a [String],
        unfit: &'a [String],
        expected: i64,
    ) -> Call<'a> {
        Call::new("claim_work")
            .int(expected)
            .small(i32::try_from(self.max).unwrap_or(i32::MAX))
            .int(self.lock_ms)
            .texts(plain.iter().map(String::as_str))
            .texts(bound.iter().map(String::as_str))
            .texts(unfit.iter().map(String::as_str))
            .opt_text(self.session.as_ref().map(|(owner, _)| owner.as_str()))
            .int(self.session.as_ref().map_or(0, |(_, lock)| *lock))
            .int(self.new_sessions_max)
    }
}

/// A claimed activity as the server left it.
#[derive(Debug)]
pub(crate) struct RawWork {
    pub(crate) id: i64,
    pub(crate) random: Uuid,
    pub(crate) json: String,
    pub(crate) attempts: u32,
    pub(crate) incarnation: Option<i64>,
}

pub(crate) fn read(rows: &[Row]) -> Result<Claimed<RawWork>> {
    let mut claimed = Claimed::new();
    for row in rows {
        match row.try_get::<_, i32>(0)? {
            0 => claimed.found.push(RawWork {
                id: row.try_get(1)?,
                random: row.try_get(2)?,
                json: row.try_get::<_, Payload>(3)?.0,
                attempts: u32::try_from(row.try_get::<_, i32>(4)?).unwrap_or(u32::MAX),
                incarnation: row.try_get(5)?,
            }),
            1 => claimed
                .lanes
                .extend(read_or_log(row.try_get::<_, String>(3))),
            3 => {
                if let Some(lane) = read_or_log(row.try_get(3)) {
                    claimed.first.push((lane, row.try_get(1)?));
                }
            }
            _ => {
                claimed.now = row.try_get(1)?;
                claimed.due_ms = row.try_get(5)?;
                claimed.others = row.try_get(6)?;
                claimed.walked_long = row.try_get::<_, i32>(4)? > 0;
            }
        }
    }
    Ok(claimed)
}
