//! What lies in the queues for one instance, as one snapshot. In: an instance. Out: its messages and activities with
//! their leases and attempts. Nothing is claimed and nothing is counted.

use duroxide_core::WorkItem;
use duroxide_core::provider::{PendingActivity, PendingMessage, PendingWork};

use super::error::Result;
use super::names::{self, TURNS, WORK};
use crate::EventStore;
use crate::atomic::{Answer, Query};
use crate::error::StoreError;
use crate::lease::Lease;
use crate::message::{Message, Queue};

/// How many messages and activities of one instance an answer lists.
const TOLD_MAX: usize = 1_000;

pub(super) async fn run<S: EventStore>(store: &S, instance: &str) -> Result<PendingWork> {
    let messages = |queue: Queue| Query::Messages {
        queue,
        group: Some(instance.to_owned()),
        after: 0,
        limit: TOLD_MAX,
    };
    let leases = |queue: Queue| Query::Leases {
        queue,
        group: instance.to_owned(),
    };
    let queries = vec![messages(TURNS), leases(TURNS), messages(WORK), leases(WORK)];
    let now_ms = store.now_ms();
    let answers: [Answer; 4] =
        store.query(queries).await?.try_into().map_err(|_| {
            StoreError::Permanent("the store left a question unanswered".to_owned())
        })?;
    let [queued, turn, work, work_leases] = answers;
    let turn_leased_until_ms = turn.into_leases()?.iter().map(|lease| lease.until_ms).max();
    let leases = work_leases.into_leases()?;
    let messages = queued.into_messages()?;
    let activities = work.into_messages()?;
    Ok(PendingWork {
        now_ms,
        turn_leased_until_ms,
        messages: messages.iter().map(pending_message).collect(),
        activities: activities
            .iter()
            .filter_map(|message| pending_activity(message, &leases))
            .collect(),
    })
}

fn pending_message(message: &Message) -> PendingMessage {
    let item = serde_json::from_slice::<WorkItem>(&message.payload).ok();
    let begins = item.as_ref().and_then(WorkItem::begins);
    PendingMessage {
        kind: match &item {
            Some(item) => item.kind_name().to_owned(),
            None => "Undecodable".to_owned(),
        },
        visible_at_ms: message.since_ms(),
        attempts: message.attempts,
        begins: begins.map(|(name, version)| (name.to_owned(), version.map(str::to_owned))),
    }
}

/// An activity by its key, which is there whether its content decodes or not.
fn pending_activity(message: &Message, leases: &[Lease]) -> Option<PendingActivity> {
    let (execution_id, activity_id) = names::parse_activity_key(message.key.as_deref()?)?;
    let lease = leases
        .iter()
        .find(|lease| lease.claimed.contains(&message.id));
    Some(PendingActivity {
        execution_id,
        activity_id,
        visible_at_ms: message.since_ms(),
        leased_until_ms: lease.map(|lease| lease.until_ms),
        attempts: message.attempts,
    })
}
