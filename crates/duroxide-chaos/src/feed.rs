//! The clients of a life: start orchestrations for ever, tell them what they wait for, and look at how they end. What
//! the store acknowledged is written down.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duroxide::{Client, ClientError, OrchestrationStatus};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::check::history::{self, ClockOfRun};
use crate::ledger::Ledger;
use crate::life;
use crate::ops::{self, Acknowledged, GO, Kind, LATE, MESSAGES, NO_MESSAGE, Op, REASON};
use crate::workload::WAITS;

/// Orchestrations that one life of the worker keeps in flight.
const IN_FLIGHT: usize = 16;
/// How soon a call is tried again while the store is away.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// How long an instance may take.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// Where a life writes down what was acknowledged to it.
pub(crate) fn acknowledged(folder: &Path, life: u32) -> PathBuf {
    folder.join("acknowledged").join(life.to_string())
}

/// What the clients of a life share.
#[derive(Clone)]
pub(crate) struct Starter {
    pub(crate) client: Client,
    acknowledged: Arc<Ledger>,
    violations: Arc<Ledger>,
    clock: ClockOfRun,
    /// Whether everything that has ended is deleted, instead of a part.
    pub(crate) deletes_all: bool,
}

impl Starter {
    pub(crate) fn new(client: Client, folder: &Path, deletes_all: bool) -> Self {
        Self {
            client,
            acknowledged: Arc::new(Ledger::open(&acknowledged(folder, life::number()))),
            violations: Arc::new(Ledger::open(&folder.join("violations"))),
            clock: ClockOfRun::of(folder),
            deletes_all,
        }
    }

    fn note(&self, what: &str, instance: &str) {
        self.acknowledged.write(&format!("{what} {instance}"));
    }

    /// Starts an instance, tells it everything and waits for its end. What the store refuses or does not answer,
    /// somebody else has to make good.
    async fn drive(&self, instance: &str, op: Op) -> Result<Acknowledged, ClientError> {
        let mut acked = Acknowledged::default();
        self.client
            .start_orchestration(instance, op.kind.handler(), "")
            .await?;
        self.note("started", instance);
        acked.started = true;
        match op.kind {
            Kind::Guarded => {
                if !op.is_hasty {
                    self.waits(instance).await?;
                }
                self.client.cancel_instance(instance, REASON).await?;
                self.note("cancelled", instance);
                acked.cancelled = true;
            }
            Kind::Transfer => {
                for message in 1..=MESSAGES {
                    self.client
                        .enqueue_event(instance, "mail", message.to_string())
                        .await?;
                    self.note("message", instance);
                    acked.messages += 1;
                }
                self.waits(instance).await?;
                self.client.raise_event(instance, "go", GO).await?;
                self.note("signalled", instance);
                acked.signalled = true;
            }
        }
        Ok(acked)
    }

    /// Waits until the instance waits for its signal, or has ended.
    async fn waits(&self, instance: &str) -> Result<(), ClientError> {
        let mut seen = 0;
        loop {
            let status = self
                .client
                .wait_for_status_change(instance, seen, RETRY_PAUSE, ANSWER_MAX)
                .await?;
            match status {
                OrchestrationStatus::Running {
                    custom_status,
                    custom_status_version,
                    ..
                } => {
                    if custom_status.as_deref() == Some(WAITS) {
                        return Ok(());
                    }
                    seen = custom_status_version;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Brings an instance to its end whose starter died, or was not answered, before it had sent it everything.
    pub(crate) async fn rescue(&self, instance: &str, op: Op) -> Result<(), ClientError> {
        match op.kind {
            Kind::Guarded => self.client.cancel_instance(instance, LATE).await?,
            Kind::Transfer => {
                for _ in 0..MESSAGES {
                    self.client
                        .enqueue_event(instance, "mail", NO_MESSAGE)
                        .await?;
                }
                self.waits(instance).await?;
                self.client.raise_event(instance, "go", LATE).await?;
            }
        }
        self.client
            .wait_for_orchestration(instance, ANSWER_MAX)
            .await?;
        Ok(())
    }

    /// Looks at an instance that has ended, and deletes it. What is wrong with it is written down.
    pub(crate) async fn delete(
        &self,
        instance: &str,
        acked: Acknowledged,
    ) -> Result<(), ClientError> {
        let status = self.client.get_orchestration_status(instance).await?;
        if status == OrchestrationStatus::NotFound && acked.deleting {
            return Ok(());
        }
        let values = self.client.get_kv_all_values(instance).await?;
        let mut wrong = Vec::from_iter(ops::wrong(instance, acked, &status, &values));
        for execution in self.client.list_executions(instance).await? {
            let history = self
                .client
                .read_execution_history(instance, execution)
                .await?;
            history::check(instance, execution, &history, self.clock, &mut wrong);
        }
        for wrong in &wrong {
            self.violations.write(wrong);
        }
        if !wrong.is_empty() {
            return Ok(());
        }
        self.note("deleting", instance);
        match self.client.delete_instance(instance, false).await {
            // An earlier try was not answered.
            Err(ClientError::InstanceNotFound { .. }) if acked.deleting => {}
            done => {
                done?;
            }
        }
        self.note("deleted", instance);
        Ok(())
    }

    /// One instance from its start to its end.
    async fn serve(&self, instance: &str, op: Op) {
        let mut acked = match self.drive(instance, op).await {
            Ok(acked) => acked,
            Err(error) if is_away(&error) => {
                tokio::time::sleep(RETRY_PAUSE).await;
                return;
            }
            Err(error) => return self.violations.write(&format!("{instance}: {error}")),
        };
        if let Err(error) = self
            .client
            .wait_for_orchestration(instance, ANSWER_MAX)
            .await
        {
            if !is_away(&error) {
                self.violations
                    .write(&format!("{instance} does not end: {error}"));
            }
            return;
        }
        if !op.is_deleted && !self.deletes_all {
            return;
        }
        loop {
            match self.delete(instance, acked).await {
                Ok(()) => return,
                Err(error) if is_away(&error) => tokio::time::sleep(RETRY_PAUSE).await,
                Err(error) => return self.violations.write(&format!("{instance}: {error}")),
            }
            acked.deleting = true;
        }
    }
}

/// Whether the store did not answer, which is nobody's fault while it is cut off or crashes.
fn is_away(error: &ClientError) -> bool {
    error.is_retryable()
}

/// How fast a life starts orchestrations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// One whenever one has ended.
    AsFastAsTheyEnd,
    /// At most so many in a second.
    PerSecond(f64),
}

impl Pace {
    pub(crate) fn of(per_second: Option<f64>) -> Self {
        per_second.map_or(Self::AsFastAsTheyEnd, Self::PerSecond)
    }

    /// The moments at which a lane may start its next one. The lanes take turns: all at once would be a burst every few
    /// seconds.
    fn ticks(self, lane: usize) -> Option<Interval> {
        let Self::PerSecond(many) = self else {
            return None;
        };
        let first = Instant::now() + Duration::from_secs_f64(lane as f64 / many);
        let every = Duration::from_secs_f64(IN_FLIGHT as f64 / many);
        let mut ticks = tokio::time::interval_at(first, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(ticks)
    }
}

/// Starts orchestrations for ever, so many in flight.
pub(crate) async fn run(starter: Starter, pace: Pace) {
    let mut lanes = JoinSet::new();
    for lane in 0..IN_FLIGHT {
        let starter = starter.clone();
        lanes.spawn(async move {
            let mut ticks = pace.ticks(lane);
            for number in 0_u64.. {
                if let Some(ticks) = &mut ticks {
                    ticks.tick().await;
                }
                let instance = Op::id(life::number(), lane, number);
                let op = Op::of(&instance).expect("an id of ours");
                starter.serve(&instance, op).await;
            }
        });
    }
    // A lane that panics ends the process.
    while let Some(lane) = lanes.join_next().await {
        lane.expect("a lane");
    }
}
