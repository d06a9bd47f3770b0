//! Why an instance stands where it stands. In: its history, its queues, its children. Out: an [`Explanation`], as data
//! and in words. Nothing is replayed and no code of an author runs.

mod around;
mod failures;
mod open;
mod types;
mod words;

use std::collections::HashSet;

use duroxide_core::Event;
use duroxide_core::clock::{Clock, SystemClock};
use duroxide_core::provider::{
    DeadLetter, HandlerKind, PendingActivity, PendingWork, ScheduledActivityIdentifier,
};

use around::{Claim, Surroundings, ready_for};
pub use types::{ActivityPlace, Explanation, FailedBefore, Finding, Standing, Wait};

use super::{Client, ClientError};

/// How deep children are followed.
const DEPTH_MAX: usize = 8;
/// How many children are followed over all.
const CHILDREN_MAX: usize = 100;
/// How many handlers are looked through.
const LOOKED_THROUGH: u32 = 10_000;
/// How many dead letters of one instance an explanation lists.
const DEAD_LETTERS_MAX: u32 = 20;

/// The instance that is being explained, and what the store says of it.
#[derive(Clone, Copy)]
struct Explaining<'a> {
    instance: &'a str,
    history: &'a [Event],
    pending: Option<&'a PendingWork>,
    /// How many parents were explained on the way to it.
    depth: usize,
}

impl Client {
    /// Why an instance stands where it stands: what it waits for, since when, and what is in its way.
    ///
    /// The answer is derived from what is stored, so it is the same whether or not a node runs. A timer that the code
    /// no longer waits for (the loser of a select) is listed as long as it is not due: histories do not record that.
    /// The worker that holds an activity is named once its node has announced itself after the claim, which takes some
    /// seconds; see [`ActivityPlace::Held`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::Client;
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// client.start_orchestration("order-7", "order", "{}").await?;
    /// let why = client.explain("order-7").await?;
    /// println!("{why}");
    /// assert!(why.to_string().contains("no node has run its first turn"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InstanceNotFound` if the store knows nothing of it; `ManagementNotAvailable`, or what the store says.
    pub async fn explain(&self, instance: &str) -> Result<Explanation, ClientError> {
        let admin = self.admin()?;
        let ready = admin.list_ready_work(LOOKED_THROUGH).await?;
        let nodes = admin.list_nodes().await?;
        let mut around = Surroundings {
            ready: ready.unwrap_or_default(),
            nodes,
            seen: HashSet::new(),
        };
        let explained = self.explain_one(instance, &mut around, 0).await?;
        let mut explained = explained.ok_or_else(|| ClientError::InstanceNotFound {
            instance_id: instance.to_owned(),
        })?;
        if !explained.standing.has_ended() {
            let closed = self.closed_because().await?;
            let closed = closed.map(|reason| Finding::StoreClosed { reason });
            explained.findings.extend(closed);
        }
        Ok(explained)
    }

    /// Why the store is closed: a move or an import does that, and nothing runs meanwhile. `None` if it is open.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::Client;
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// assert_eq!(client.closed_because().await?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `ManagementNotAvailable`, or what the store says.
    pub async fn closed_because(&self) -> Result<Option<String>, ClientError> {
        Ok(self.admin()?.closed_because().await?)
    }

    /// What an instance waits for, as its history shows: a part of [`explain`](Self::explain) that asks nothing else.
    /// Empty if it has ended or is not known. What the store knows besides (where an activity is, why a child waits) is
    /// left open.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use duroxide::providers::sqlite::SqliteProvider;
    /// # use std::sync::Arc;
    /// use duroxide::Client;
    ///
    /// # let client = Client::new(Arc::new(SqliteProvider::new_in_memory().await?));
    /// let waits = client.waits("order-7").await?;
    /// assert!(waits.is_empty(), "nobody started it");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the store says.
    pub async fn waits(&self, instance: &str) -> Result<Vec<Wait>, ClientError> {
        let history = self.store.read(instance).await?;
        Ok(match open::standing(&history) {
            Some(Standing::Running) => open::waits(&history),
            _ => Vec::new(),
        })
    }

    async fn explain_one(
        &self,
        instance: &str,
        around: &mut Surroundings,
        depth: usize,
    ) -> Result<Option<Explanation>, ClientError> {
        around.seen.insert(instance.to_owned());
        let mut history = self.store.read(instance).await?;
        let pending = self.admin()?.pending_work(instance).await?;
        if history.is_empty() {
            // The first turn may have taken the start out of the queue between the two reads.
            history = self.store.read(instance).await?;
        }
        let now_ms = match &pending {
            Some(pending) => pending.now_ms,
            None => SystemClock.now_ms(),
        };
        let letters = self
            .admin()?
            .list_dead_letters_of(instance, DEAD_LETTERS_MAX);
        let mut findings = dead_letter_findings(&letters.await?);
        let Some(standing) = open::standing(&history) else {
            return Ok(not_begun(
                instance,
                pending.as_ref(),
                now_ms,
                findings,
                around,
            ));
        };
        findings.extend(open::cancel_requests(&history));
        let mut waits = match standing {
            Standing::Running => open::waits(&history),
            _ => Vec::new(),
        };
        let explaining = Explaining {
            instance,
            history: &history,
            pending: pending.as_ref(),
            depth,
        };
        for wait in &mut waits {
            self.complete(&explaining, wait, around).await?;
        }
        let paused = self.admin()?.paused_since(instance).await?;
        findings.extend(paused.map(|since_ms| Finding::Paused { since_ms }));
        // What is paused waits for an operator, and not for a node.
        let is_open = matches!(standing, Standing::Running | Standing::BetweenExecutions);
        if is_open {
            let execution_id = history.last().map_or(1, |event| event.execution_id);
            let told = around.blocked(instance, execution_id);
            findings.extend(self.or_as_noted(instance, told).await?);
        }
        // What has ended has messages only if something is to become of it: a retry waits for a node.
        if paused.is_none() {
            findings.extend(turn_findings(&history, pending.as_ref(), now_ms));
            findings.extend(missing_code(
                &history,
                &waits,
                pending.as_ref(),
                (around, now_ms),
            ));
        }
        let (name, version) = history.iter().find_map(Event::started_handler).unzip();
        Ok(Some(Explanation {
            instance_id: instance.to_owned(),
            name: name.unwrap_or_default(),
            version: version.unwrap_or_default(),
            execution_id: history.last().map_or(1, |event| event.execution_id),
            standing,
            now_ms,
            last_event_ms: history.last().map(|event| event.timestamp_ms),
            waits,
            findings,
        }))
    }

    /// What nodes that are up say about an instance that they cannot go on with; if none says anything, what a node
    /// noted, which outlives it.
    async fn or_as_noted(
        &self,
        instance: &str,
        told: Vec<Finding>,
    ) -> Result<Vec<Finding>, ClientError> {
        if !told.is_empty() {
            return Ok(told);
        }
        let noted = self.admin()?.block_note(instance).await?;
        let finding = noted.map(|note| Finding::Blocked {
            node: note.node,
            report: note.blocked.report,
            attempts: note.blocked.attempts,
        });
        Ok(finding.into_iter().collect())
    }

    /// Adds to a wait what its history does not say.
    async fn complete(
        &self,
        explaining: &Explaining<'_>,
        wait: &mut Wait,
        around: &mut Surroundings,
    ) -> Result<(), ClientError> {
        let Explaining {
            instance,
            history,
            pending,
            depth,
        } = *explaining;
        match wait {
            Wait::Activity {
                event_id,
                since_ms,
                place,
                ..
            } => {
                let activity = ScheduledActivityIdentifier {
                    instance: instance.to_owned(),
                    execution_id: history.last().map_or(1, |event| event.execution_id),
                    activity_id: *event_id,
                };
                *place = match pending {
                    Some(pending) => place_of(&activity, *since_ms, pending, around),
                    None => self.whether_claimed(&activity).await?,
                };
            }
            Wait::Child {
                instance_id, why, ..
            } => {
                let is_new = !around.seen.contains(instance_id.as_str());
                if is_new && depth < DEPTH_MAX && around.seen.len() <= CHILDREN_MAX {
                    let explained = Box::pin(self.explain_one(instance_id, around, depth + 1));
                    *why = explained.await?.map(Box::new);
                }
            }
            Wait::Timer { .. } | Wait::Signal { .. } | Wait::Queue { .. } => {}
        }
        Ok(())
    }

    /// Where an activity is, on a store that cannot tell what lies in its queues.
    async fn whether_claimed(
        &self,
        activity: &ScheduledActivityIdentifier,
    ) -> Result<ActivityPlace, ClientError> {
        let claimed = self.store.activity_claimed(activity).await?;
        Ok(match claimed {
            Some(true) => ActivityPlace::Claimed,
            Some(false) => ActivityPlace::Queued {
                visible_at_ms: 0,
                attempts: 0,
            },
            None => ActivityPlace::Unknown,
        })
    }
}

/// Where an activity is. The store says whether a worker holds it, nodes say which one.
fn place_of(
    activity: &ScheduledActivityIdentifier,
    scheduled_ms: u64,
    pending: &PendingWork,
    around: &Surroundings,
) -> ActivityPlace {
    let is_it = |queued: &&PendingActivity| {
        queued.activity_id == activity.activity_id && queued.execution_id == activity.execution_id
    };
    let Some(queued) = pending.activities.iter().find(is_it) else {
        return ActivityPlace::NotQueued;
    };
    let attempts = queued.attempts;
    let lease = queued.leased_until_ms;
    let Some(until_ms) = lease.filter(|until| *until > pending.now_ms) else {
        return ActivityPlace::Queued {
            visible_at_ms: queued.visible_at_ms,
            attempts,
        };
    };
    let holder = around.holder(Claim {
        activity,
        scheduled_ms,
        attempt: attempts,
    });
    let silent = holder.filter(|(seen, _)| seen.is_gone);
    ActivityPlace::Held {
        until_ms,
        attempts,
        worker: holder.map(|(seen, _)| seen.node.name.clone()),
        since_ms: holder.map(|(_, held)| held.since_ms),
        silent_since_ms: silent.map(|(seen, _)| seen.last_seen_ms),
    }
}

/// Oldest first.
fn dead_letter_findings(letters: &[DeadLetter]) -> Vec<Finding> {
    let finding = |letter: &DeadLetter| Finding::DeadLetter {
        id: letter.id,
        reason: letter.reason.clone(),
        at_ms: letter.dead_lettered_at_ms,
    };
    letters.iter().rev().map(finding).collect()
}

/// An instance without a history: its start waits, or the store knows nothing of it.
fn not_begun(
    instance: &str,
    pending: Option<&PendingWork>,
    now_ms: u64,
    mut findings: Vec<Finding>,
    around: &Surroundings,
) -> Option<Explanation> {
    let start = pending.and_then(|pending| pending.messages.iter().find_map(|m| m.begins.clone()));
    if start.is_none() && pending.is_none_or(|p| p.messages.is_empty()) && findings.is_empty() {
        return None;
    }
    let (name, version) = start.unzip();
    let version = version.flatten();
    if let Some(name) = &name {
        let waits = ready_for(
            (around, now_ms),
            HandlerKind::Orchestration,
            name,
            version.as_deref(),
        );
        findings.extend(waits);
    }
    findings.extend(turn_findings(&[], pending, now_ms));
    Some(Explanation {
        instance_id: instance.to_owned(),
        name: name.unwrap_or_default(),
        version: version.unwrap_or_default(),
        execution_id: 1,
        standing: Standing::NotBegun,
        now_ms,
        last_event_ms: None,
        waits: Vec::new(),
        findings,
    })
}

/// What the orchestrator queue says: a turn that runs, messages that wait for one.
fn turn_findings(history: &[Event], pending: Option<&PendingWork>, now_ms: u64) -> Vec<Finding> {
    let Some(pending) = pending else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    if let Some(until_ms) = pending.turn_leased_until_ms.filter(|until| *until > now_ms) {
        findings.push(Finding::TurnRuns { until_ms });
        return findings;
    }
    let ready = || {
        pending
            .messages
            .iter()
            .filter(|m| m.visible_at_ms <= now_ms)
    };
    let count = ready().count() as u64;
    if count > 0 && !history.is_empty() {
        findings.push(Finding::MessagesWait {
            count,
            since_ms: ready().map(|m| m.visible_at_ms).min().unwrap_or(now_ms),
            attempts: ready().map(|m| m.attempts).max().unwrap_or(0),
        });
    }
    findings
}

/// Ready work of the handlers that this instance needs: no node claims it, so perhaps no node has the code.
fn missing_code(
    history: &[Event],
    waits: &[Wait],
    pending: Option<&PendingWork>,
    around: (&Surroundings, u64),
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let has_messages =
        pending.is_some_and(|p| p.messages.iter().any(|m| m.visible_at_ms <= p.now_ms));
    if has_messages && let Some((name, version)) = history.iter().find_map(Event::started_handler) {
        let kind = HandlerKind::Orchestration;
        findings.extend(ready_for(around, kind, &name, Some(&version)));
    }
    let mut named = HashSet::new();
    for wait in waits {
        if let Wait::Activity { name, place, .. } = wait
            && matches!(place, ActivityPlace::Queued { .. })
            && named.insert(name)
        {
            findings.extend(ready_for(around, HandlerKind::Activity, name, None));
        }
    }
    findings
}
