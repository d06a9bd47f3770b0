//! The store of a run: the one in memory, watched. In: batches, claims, queries of the adapter. Out: the same, with steps
//! interleaved, wake-ups lost, every lease entered in the book, and every write of a history checked against it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide_store::memory::MemoryStore;
use duroxide_store::{
    Answer, AtomicOps, Batch, Claim, Claimed, Delivery, Guard, LeaseToken, MessageQueue, Operation,
    Query, StoreError, TopicWatch,
};

use crate::leases::Granted;
use crate::sched::yield_now;
use crate::sim::{EPOCH_MS, Sim};

/// The memory store of a run.
#[derive(Debug)]
pub struct SimStore {
    inner: MemoryStore,
    sim: Arc<Sim>,
}

impl SimStore {
    /// An empty store that follows the run's clock.
    #[must_use]
    pub fn new(sim: Arc<Sim>) -> Self {
        Self {
            inner: MemoryStore::with_clock(sim.clock),
            sim,
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

    fn enter(&self, batch: &Ends) {
        for token in &batch.ended {
            self.sim.leases.ended(token);
        }
        for (token, lease_ms) in &batch.renewed {
            self.sim.leases.renewed(token, self.inner.now_ms() + lease_ms);
        }
        for group in &batch.groups_gone {
            let subject = format!("turn of {group}");
            self.sim.leases.ended_where(|lease| lease.subject == subject);
        }
    }
}

/// What a batch does to leases.
#[derive(Default)]
struct Ends {
    ended: Vec<LeaseToken>,
    renewed: Vec<(LeaseToken, u64)>,
    groups_gone: Vec<String>,
}

impl Ends {
    fn of(batch: &Batch) -> Self {
        let mut ends = Self::default();
        for operation in &batch.operations {
            match operation {
                Operation::Complete { lease } | Operation::Release { lease, .. } => {
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

#[async_trait]
impl AtomicOps for SimStore {
    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    async fn commit(&self, batch: Batch) -> Result<Vec<u64>, StoreError> {
        self.step().await;
        let ends = Ends::of(&batch);
        // The book still says what held before the commit.
        let unfenced = self.unfenced(&batch);
        let result = self.inner.commit(batch).await;
        if result.is_ok() {
            for entity in unfenced {
                let text = format!("history of {entity} written without a valid lease of it");
                self.sim.violation(text);
            }
            self.enter(&ends);
        }
        self.step().await;
        result
    }

    async fn query(&self, queries: Vec<Query>) -> Result<Vec<Answer>, StoreError> {
        self.step().await;
        self.inner.query(queries).await
    }

    fn watch(&self, topic: &str) -> Option<TopicWatch> {
        match self.sim.is_deaf() {
            true => self.inner.watch(&format!("nobody speaks of {topic}")),
            false => self.inner.watch(topic),
        }
    }
}

#[async_trait]
impl MessageQueue for SimStore {
    async fn claim(&self, mut claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        self.step().await;
        if !claim.wait.is_zero() && self.sim.is_deaf() {
            // Nobody tells it of what comes; it looks once, and again when its patience is over.
            let wait = std::mem::take(&mut claim.wait);
            let found = self.claim_now(&claim).await?;
            if !found.is_empty() {
                return Ok(found);
            }
            tokio::time::sleep(wait.min(Duration::from_secs(60))).await;
            return self.claim_now(&claim).await;
        }
        self.claim_now(&claim).await
    }
}

impl SimStore {
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
            };
            let attempts = one.messages.iter().map(|m| m.attempts).max().unwrap_or(0);
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
