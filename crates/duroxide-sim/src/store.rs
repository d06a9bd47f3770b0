//! The store of a run: the one in memory, watched. In: batches, claims, queries of the adapter. Out: the same, with
//! steps interleaved, wake-ups lost, every lease entered in the book, and every write of a history checked against it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use duroxide_store::memory::MemoryStore;
use duroxide_store::{
    After, Answer, AtomicOps, Batch, Claim, Claimed, Delivery, Guard, LeaseToken, MessageQueue,
    Operation, Query, Role, StoreError, TopicWatch,
};

use crate::leases::Granted;
use crate::sched::yield_now;
use crate::sim::{EPOCH_MS, Sim};

/// Longer than any run.
const DAY_MS: u64 = 86_400_000;

/// The memory store of a run.
#[derive(Debug)]
pub struct SimStore {
    inner: MemoryStore,
    sim: Arc<Sim>,
    /// Until when a node let an instance rest, by what the lease was for.
    rests: Mutex<HashMap<String, u64>>,
    /// Instances that held queue messages back, by what their leases are for: these may wait for their code.
    held: Mutex<HashSet<String>>,
}

impl SimStore {
    /// An empty store that follows the run's clock.
    #[must_use]
    pub fn new(sim: Arc<Sim>) -> Self {
        Self {
            inner: MemoryStore::with_clock(sim.clock),
            sim,
            rests: Mutex::default(),
            held: Mutex::default(),
        }
    }

    /// Lets others go first, now and then.
    async fn step(&self) {
        if self.sim.jitters() {
            yield_now().await;
        }
    }

    /// The store itself, without any of this.
    #[must_use]
    pub fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    /// Instances whose history a batch writes without a valid lease of them.
    fn unfenced(&self, batch: &Batch) -> Vec<String> {
        let appended: Vec<&String> = batch
            .operations
            .iter()
            .filter_map(|operation| match operation {
                Operation::Append { entity, .. } => Some(entity),
                _ => None,
            })
            .collect();
        if appended.is_empty() {
            return Vec::new();
        }
        let tokens: Vec<&LeaseToken> = batch
            .guards
            .iter()
            .filter_map(|guard| match guard {
                Guard::Lease(token) => Some(token),
                _ => None,
            })
            .collect();
        let now_ms = self.inner.now_ms();
        let covers = |entity: &str| {
            let subject = format!("turn of {entity}");
            self.sim.leases.covers(&tokens, &subject, now_ms)
        };
        let unfenced = appended.into_iter().filter(|entity| !covers(entity));
        unfenced.cloned().collect()
    }

    /// Delivers some completions twice.
    fn duplicate(&self, batch: &mut Batch) {
        let mut again = Vec::new();
        for operation in &batch.operations {
            if let Operation::Enqueue { queue, message } = operation
                && queue.delivery == Delivery::Grouped
                && is_completion(&message.payload)
                && self.sim.duplicates()
            {
                again.push(operation.clone());
            }
        }
        batch.operations.extend(again);
    }

    /// Puts messages before some that clients send which nobody can read.
    fn spoil(&self, batch: &mut Batch) {
        let mut unreadable = Vec::new();
        for operation in &batch.operations {
            if let Operation::Enqueue { queue, message } = operation
                && queue.delivery == Delivery::Grouped
                && is_sent_by_client(&message.payload)
                && self.sim.spoils()
            {
                let mut message = message.clone();
                message.payload = GARBAGE.into();
                let queue = queue.clone();
                unreadable.push(Operation::Enqueue { queue, message });
            }
        }
        batch.operations.splice(0..0, unreadable);
    }

    /// A parent is told that the id of its child is taken: by a child of an earlier life that was not born when that
    /// life was deleted.
    fn note_collisions(&self, batch: &Batch) {
        for operation in &batch.operations {
            if let Operation::Enqueue { queue, message } = operation
                && queue.delivery == Delivery::Grouped
                && message.payload.starts_with(b"{\"SubOrchFailed\"")
                && message
                    .payload
                    .windows(14)
                    .any(|part| part == b"already exists")
            {
                self.sim.collided(&message.group);
            }
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_holds(&self, batch: &Batch) {
        for operation in &batch.operations {
            if let Operation::HoldFollowers { group, .. } = operation {
                self.held().insert(format!("turn of {group}"));
            }
        }
    }

    fn enter(&self, batch: &Ends) {
        for (token, rest_ms) in &batch.rested {
            if let Some(subject) = self.sim.leases.subject(token) {
                let until = self.inner.now_ms() + rest_ms;
                self.rests().insert(subject, until);
            }
        }
        for token in &batch.forgiven {
            self.sim.leases.forgiven(token);
        }
        for token in &batch.counted {
            let what = self.sim.leases.subject(token).unwrap_or_default();
            self.sim
                .violation(format!("{what} was given back and counts as tried"));
        }
        for token in &batch.ended {
            self.sim.leases.ended(token);
        }
        for (token, lease_ms) in &batch.renewed {
            self.sim
                .leases
                .renewed(token, self.inner.now_ms() + lease_ms);
        }
        for group in &batch.groups_gone {
            let subject = format!("turn of {group}");
            self.sim
                .leases
                .ended_where(|lease| lease.subject == subject);
        }
    }
}

/// What a batch does to leases.
#[derive(Default)]
struct Ends {
    ended: Vec<LeaseToken>,
    completed: Vec<LeaseToken>,
    forgiven: Vec<LeaseToken>,
    /// Given back, and still counted as tried.
    counted: Vec<LeaseToken>,
    /// Given back for a while.
    rested: Vec<(LeaseToken, u64)>,
    renewed: Vec<(LeaseToken, u64)>,
    groups_gone: Vec<String>,
}

impl Ends {
    fn of(batch: &Batch) -> Self {
        let mut ends = Self::default();
        for operation in &batch.operations {
            match operation {
                Operation::Complete { lease } => {
                    ends.completed.push(lease.clone());
                    ends.ended.push(lease.clone());
                }
                Operation::Release {
                    lease,
                    forgive,
                    after,
                } => {
                    // What is paused, or belongs to nobody, rests for ever.
                    if let After::QuietMs(rest_ms) | After::DelayMs(rest_ms) = after {
                        ends.rested.push((lease.clone(), (*rest_ms).min(DAY_MS)));
                    }
                    let given_back = if *forgive {
                        &mut ends.forgiven
                    } else {
                        &mut ends.counted
                    };
                    given_back.push(lease.clone());
                    ends.ended.push(lease.clone());
                }
                Operation::Renew { lease, lease_ms } => {
                    ends.renewed.push((lease.clone(), *lease_ms));
                }
                Operation::DeleteGroup { group, .. } => ends.groups_gone.push(group.clone()),
                _ => {}
            }
        }
        ends
    }
}

/// The events that a batch stores.
fn appended(batch: &Batch) -> Vec<(String, u64, u64)> {
    let mut appended = Vec::new();
    for operation in &batch.operations {
        if let Operation::Append {
            entity,
            partition,
            events,
        } = operation
        {
            let stored = events.iter().map(|event| event.number);
            appended.extend(stored.map(|number| (entity.clone(), *partition, number)));
        }
    }
    appended
}

/// How long a turn may wait when nothing goes wrong.
const LONGEST_WAIT_MS: u64 = 12_000;

/// A message that nobody can read.
pub const GARBAGE: &str = "{\"Garbage\":true}";

fn is_sent_by_client(payload: &[u8]) -> bool {
    payload.starts_with(b"{\"QueueMessage\"") || payload.starts_with(b"{\"ExternalRaised\"")
}

/// Whether a message answers something that an instance scheduled.
fn is_completion(payload: &[u8]) -> bool {
    [
        &b"{\"ActivityCompleted\""[..],
        b"{\"ActivityFailed\"",
        b"{\"TimerFired\"",
        b"{\"SubOrchCompleted\"",
        b"{\"SubOrchFailed\"",
    ]
    .iter()
    .any(|kind| payload.starts_with(kind))
}

#[async_trait]
impl AtomicOps for SimStore {
    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    async fn commit(&self, mut batch: Batch) -> Result<Vec<u64>, StoreError> {
        self.step().await;
        self.duplicate(&mut batch);
        self.spoil(&mut batch);
        self.note_collisions(&batch);
        self.note_holds(&batch);
        let ends = Ends::of(&batch);
        // The book still says what held before the commit.
        let unfenced = self.unfenced(&batch);
        let events = appended(&batch);
        let result = self.inner.commit(batch).await;
        if let Err(StoreError::Conflict(text)) = &result
            && text.starts_with("event ")
        {
            let text = format!("a turn was decided on another history than the stored one: {text}");
            self.sim.violation(text);
        }
        if result.is_ok() {
            for token in &ends.completed {
                if !self.sim.leases.is_valid(token, self.inner.now_ms()) {
                    let what = self.sim.leases.subject(token).unwrap_or_default();
                    self.sim.violation(format!(
                        "{what} was completed under a lease that had run out"
                    ));
                }
            }
            for entity in unfenced {
                let text = format!("history of {entity} written without a valid lease of it");
                self.sim.violation(text);
            }
            self.enter(&ends);
            for (instance, execution, event) in &events {
                self.sim.store_event(instance, *execution, *event);
            }
        }
        self.step().await;
        result
    }

    async fn query(&self, queries: Vec<Query>) -> Result<Vec<Answer>, StoreError> {
        self.step().await;
        self.inner.query(queries).await
    }

    fn watch(&self, topic: &str) -> Option<TopicWatch> {
        if self.sim.is_deaf() {
            self.inner.watch(&format!("nobody speaks of {topic}"))
        } else {
            self.inner.watch(topic)
        }
    }
}

#[async_trait]
impl MessageQueue for SimStore {
    async fn claim(&self, mut claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        self.step().await;
        let who = self.sim.who();
        if let Some(owner) = &claim.owner
            && owner.new_keys_max > self.sim.sessions_max(&who)
        {
            let text = format!("{who} asks for {} more sessions", owner.new_keys_max);
            self.sim.violation(text);
        }
        if !claim.wait.is_zero() && self.sim.is_deaf() {
            // No watch notifies it; it looks once, and again when its time limit is over.
            let wait = std::mem::take(&mut claim.wait);
            let found = self.claim_now(&claim).await?;
            if !found.is_empty() {
                return Ok(found);
            }
            self.sim.wait(wait).await;
            return self.claim_now(&claim).await;
        }
        self.claim_now(&claim).await
    }
}

impl SimStore {
    fn rests(&self) -> std::sync::MutexGuard<'_, HashMap<String, u64>> {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_attempts(&self, subject: &str, one: &Claimed) {
        for message in &one.messages {
            let tried = self.sim.leases.tried(message.id);
            if message.attempts != tried {
                let text = format!(
                    "{subject} counts {} attempts, not {tried}",
                    message.attempts
                );
                self.sim.violation(text);
            }
        }
    }

    /// Once nothing goes wrong any more, no turn waits for long.
    fn check_patience(&self, subject: &str, claim: &Claim, one: &Claimed) {
        let may_wait = self.held().contains(subject);
        let since = one
            .messages
            .iter()
            .filter(|message| !(may_wait && message.role == Role::Follower))
            .map(duroxide_store::Message::since_ms)
            .min();
        let (Some(since), Some(well)) = (since, self.sim.well_since_ms()) else {
            return;
        };
        // A node that cannot run an instance lets it rest, and one that looks for the end of another looks again later.
        let rested = self.rests().remove(subject).unwrap_or_default();
        let now_ms = self.inner.now_ms();
        let waited = now_ms.saturating_sub(since.max(well + EPOCH_MS).max(rested));
        let limit = match claim.queue.delivery {
            Delivery::Grouped => LONGEST_WAIT_MS,
            // One slot may have to do all others first.
            Delivery::Single => LONGEST_WAIT_MS + self.sim.work_ms(),
        };
        if waited > limit {
            self.sim
                .violation(format!("{subject} has waited for {waited} ms"));
        }
    }

    async fn claim_now(&self, claim: &Claim) -> Result<Vec<Claimed>, StoreError> {
        let claimed = self.inner.claim(claim.clone()).await?;
        let now_ms = self.inner.now_ms();
        for one in &claimed {
            let subject = match claim.queue.delivery {
                Delivery::Grouped => format!("turn of {}", one.group),
                Delivery::Single => {
                    let id = one.messages.first().map_or(0, |message| message.id);
                    format!("work {id} of {}", one.group)
                }
            };
            let granted = Granted {
                subject: subject.clone(),
                holder: self.sim.who(),
                until_ms: now_ms + claim.lease_ms,
                is_told: false,
                messages: one.messages.iter().map(|message| message.id).collect(),
            };
            let attempts = one.messages.iter().map(|m| m.attempts).max().unwrap_or(0);
            self.check_attempts(&subject, one);
            self.check_patience(&subject, claim, one);
            self.sim
                .note(format_args!("claims {subject}, attempt {attempts}"));
            if let Some(other) = self.sim.leases.granted(one.token.clone(), granted, now_ms) {
                self.sim.violation(format!(
                    "{subject} was claimed while {} holds it until {}",
                    other.holder,
                    other.until_ms - EPOCH_MS
                ));
            }
        }
        self.step().await;
        Ok(claimed)
    }
}
