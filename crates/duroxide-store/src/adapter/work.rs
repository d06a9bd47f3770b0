//! Activities: claim, complete, renew, give back.

use duroxide_core::WorkItem;
use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{
    ClaimedWork, DeadLetterOrigin, ScheduledActivityIdentifier, TagFilter, WorkClaim,
};
use tokio::time::Instant;

use super::error::{Error, Result, unless_lost};
use super::names::{self, INSTANCES, TURNS, WORK};
use super::{closing, dead_letters, kinds, ms, pause, rows, token};
use crate::EventStore;
use crate::atomic::{Batch, Guard, Operation, Query};
use crate::lease::{After, LeaseToken, Owner};
use crate::message::{Claim, Claimed, Labels, Message, Visible};

pub(super) async fn claim<S: EventStore>(store: &S, ask: &WorkClaim) -> Result<Vec<ClaimedWork>> {
    if ask.tag_filter == TagFilter::None {
        return Ok(Vec::new());
    }
    let begun = Instant::now();
    loop {
        let claim = Claim {
            queue: WORK,
            max: ask.max.max(1),
            lease_ms: ms(ask.lock_timeout),
            wait: ask.poll_timeout.saturating_sub(begun.elapsed()),
            labels: kinds::taken_by(&ask.tag_filter),
            kinds: match &ask.activities {
                Some(names) => Labels::of(names.iter()),
                None => Labels::Any,
            },
            owner: ask.session.as_ref().map(|session| Owner {
                id: session.owner_id.clone(),
                lease_ms: ms(session.lock_timeout),
                new_keys_max: ask.new_sessions_max,
            }),
            attach: Some(INSTANCES.to_owned()),
            ..Claim::one(WORK, 0)
        };
        let claimed = closing::claim(store, claim).await?;
        if claimed.is_empty() {
            return Ok(Vec::new());
        }
        let claimed = pause::hold_back_work(store, claimed).await?;
        let work = decode(store, claimed).await?;
        if !work.is_empty() {
            return Ok(work);
        }
    }
}

/// What decodes is handed out whatever becomes of the rest; what cannot be dead-lettered now comes again.
async fn decode<S: EventStore>(store: &S, claimed: Vec<Claimed>) -> Result<Vec<ClaimedWork>> {
    let mut work = Vec::with_capacity(claimed.len());
    let mut failed = None;
    for one in claimed {
        for message in &one.messages {
            match rows::decode(&message.payload, || format!("message {}", message.id)) {
                Ok(item) => work.push(ClaimedWork {
                    item,
                    lock_token: one.token.to_string(),
                    attempt_count: message.attempts,
                    incarnation: token::incarnation_of(message.stamp),
                }),
                Err(error) => {
                    let reason = error.to_string();
                    let moved = dead_letter(store, &one.token, message, &reason).await;
                    if let Err(error) = moved {
                        tracing::warn!(target: "duroxide::providers::store", %error, "an activity could not be dead-lettered");
                        let _ = closing::release(store, &one.token, After::Now, true).await;
                        failed = Some(error);
                    }
                }
            }
        }
    }
    match failed {
        Some(error) if work.is_empty() => Err(error),
        _ => Ok(work),
    }
}

/// Keeps a claimed item as a dead letter, because its worker can do nothing with it.
pub(super) async fn dead_letter_claimed<S: EventStore>(
    store: &S,
    token: &str,
    reason: &str,
) -> Result<()> {
    let lease = LeaseToken::new(token);
    let lost = || Error::InvalidToken(format!("lease {lease} is lost"));
    let held = store.lease(&lease).await?;
    let held = held.filter(|held| held.valid).ok_or_else(lost)?;
    let claimed = Query::MessagesById {
        queue: WORK,
        ids: held.claimed,
    };
    let messages = store.query_one(claimed).await?.into_messages()?;
    let mut operations = vec![Operation::Complete {
        lease: lease.clone(),
    }];
    for message in &messages {
        let origin = dead_letters::stamped(message);
        operations.push(dead_letters::keep(&WORK, message, reason, origin)?);
    }
    closing::commit(store, Batch::of(operations).guarded_by(Guard::Lease(lease))).await?;
    Ok(())
}

/// Keeps a message as a dead letter and fails the activity, so that its instance does not wait for ever. The release
/// fences the batch, see `turn::claim`.
async fn dead_letter<S: EventStore>(
    store: &S,
    lease: &LeaseToken,
    message: &Message,
    reason: &str,
) -> Result<()> {
    let release = Operation::Release {
        lease: lease.clone(),
        after: After::Now,
        forgive: true,
    };
    let instead = dead_letters::instead_of(message, reason)?;
    let origin = DeadLetterOrigin {
        answered: instead.is_some(),
        ..dead_letters::stamped(message)
    };
    let kept = dead_letters::keep(&WORK, message, reason, origin)?;
    let delete = Operation::DeleteMessages {
        queue: WORK,
        ids: vec![message.id],
    };
    let mut batch = Batch::of([release, kept, delete]);
    batch.operations.extend(instead.map(unstamped));
    unless_lost(closing::commit(store, batch).await)
}

/// An activity's stamp names its sender, a result's stamp its receiver, and results carry none.
fn unstamped(mut operation: Operation) -> Operation {
    if let Operation::Enqueue { message, .. } = &mut operation {
        message.stamp = None;
    }
    operation
}

pub(super) async fn ack<S: EventStore>(
    store: &S,
    token: &str,
    completion: Option<WorkItem>,
) -> Result<()> {
    let lease = LeaseToken::new(token);
    let mut batch = Batch::of([Operation::Complete {
        lease: lease.clone(),
    }])
    .guarded_by(Guard::Lease(lease));
    if let Some(item) = &completion {
        if !matches!(
            item,
            WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. }
        ) {
            return Err(Error::Refused(Refusal::WrongKind {
                queue: "orchestrator",
                kind: item.kind_name(),
            }));
        }
        batch.operations.push(Operation::Enqueue {
            queue: TURNS,
            message: names::to_instance(item, Visible::Now)?,
        });
    }
    closing::commit(store, batch).await?;
    Ok(())
}

/// Extends a lease and keeps what its activity said; `false` if the execution is gone.
pub(super) async fn heartbeat<S: EventStore>(
    store: &S,
    token: &str,
    lease_ms: u64,
    call: u64,
    details: &str,
) -> Result<bool> {
    let lease = LeaseToken::new(token);
    let held = store.lease(&lease).await?.filter(|held| held.valid);
    let held = held.ok_or_else(|| Error::InvalidToken(format!("lease {lease} is lost")))?;
    let claimed = Query::MessagesById {
        queue: WORK,
        ids: held.claimed,
    };
    let messages = store.query_one(claimed).await?.into_messages()?;
    let key = messages.first().and_then(|message| message.key.as_deref());
    let place = messages
        .first()
        .zip(key.and_then(names::parse_activity_key));
    let Some((message, (execution, _activity))) = place else {
        let text = format!("lease {lease} holds no activity");
        return Err(Error::InvalidToken(text));
    };
    let execution_row = (
        names::executions(&message.group),
        names::execution_key(execution),
    );
    let exists = store
        .get(&execution_row.0, &execution_row.1)
        .await?
        .is_some();
    let mut batch = Batch::of([Operation::Renew { lease, lease_ms }]);
    if exists {
        batch.operations.push(Operation::Put {
            scope: names::heartbeats(&message.group),
            key: names::heartbeat_key(execution, call),
            value: details.as_bytes().to_vec(),
        });
        let (scope, key) = execution_row;
        batch.guards.push(Guard::Present { scope, key });
    }
    closing::commit(store, batch).await?;
    Ok(exists)
}

/// What a call said last.
pub(super) async fn last_heartbeat<S: EventStore>(
    store: &S,
    call: &ScheduledActivityIdentifier,
) -> Result<Option<String>> {
    let scope = names::heartbeats(&call.instance);
    let key = names::heartbeat_key(call.execution_id, call.activity_id);
    let said = store.get(&scope, &key).await?;
    said.map(String::from_utf8).transpose().map_err(|error| {
        let what = format!("heartbeat {key} of {}", call.instance);
        Error::undecodable(what, &error)
    })
}

/// Of these leases, the ones that are gone.
pub(super) async fn lost<S: EventStore>(store: &S, tokens: &[String]) -> Result<Vec<String>> {
    let queries = tokens.iter().map(|token| Query::Lease {
        token: LeaseToken::new(token),
    });
    let answers = store.query(queries.collect()).await?;
    let mut lost = Vec::new();
    for (token, answer) in tokens.iter().zip(answers) {
        if !answer.into_lease()?.is_some_and(|lease| lease.valid) {
            lost.push(token.clone());
        }
    }
    Ok(lost)
}

/// Whether a worker ever claimed an activity; one that is no longer queued was claimed.
pub(super) async fn claimed<S: EventStore>(
    store: &S,
    activity: &ScheduledActivityIdentifier,
) -> Result<bool> {
    let key = names::activity_key(activity.execution_id, activity.activity_id);
    let queued = store.query_one(Query::MessagesByKey {
        queue: WORK,
        group: activity.instance.clone(),
        key,
    });
    let queued = queued.await?.into_messages()?;
    let message = queued.first();
    Ok(message.is_none_or(|message| message.attempts > 0))
}
