//! Flaws of commits.

use duroxide_core::provider::{
    ExecutionMetadata, OutcomeStatus, Provider, ProviderError, ScheduledActivityIdentifier,
    TurnWrites,
};
use duroxide_core::{Event, EventKind, REWIND_QUEUE, WorkItem};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

/// A commit, by name.
pub(super) struct Turn {
    pub(super) token: String,
    pub(super) execution_id: u64,
    pub(super) events: Vec<Event>,
    pub(super) work: Vec<WorkItem>,
    pub(super) messages: Vec<WorkItem>,
    pub(super) metadata: ExecutionMetadata,
    pub(super) cancelled: Vec<ScheduledActivityIdentifier>,
}

impl Turn {
    pub(super) fn of(token: String, writes: TurnWrites) -> Self {
        Self {
            token,
            execution_id: writes.execution_id,
            events: writes.history,
            work: writes.to_workers,
            messages: writes.to_orchestrators,
            metadata: writes.metadata,
            cancelled: writes.cancelled,
        }
    }

    /// The token, and the rest as a store takes it.
    pub(super) fn writes(self) -> (String, TurnWrites) {
        let writes = TurnWrites {
            execution_id: self.execution_id,
            history: self.events,
            to_workers: self.work,
            to_orchestrators: self.messages,
            metadata: self.metadata,
            cancelled: self.cancelled,
        };
        (self.token, writes)
    }
}

/// Whether a turn schedules an activity that it cancels.
fn schedules(work: &[WorkItem], wanted: &ScheduledActivityIdentifier) -> bool {
    work.iter().any(|item| {
        matches!(item, WorkItem::ActivityExecute { instance, execution_id, id, .. }
            if *instance == wanted.instance
                && *execution_id == wanted.execution_id
                && *id == wanted.activity_id)
    })
}

impl Mutant {
    pub(super) async fn commit_turn(&self, mut turn: Turn) -> Result<()> {
        if self.has(Flaw::LeaseIsCheckedFirst) {
            return self.commit_after_a_look(turn).await;
        }
        let token = turn.token.clone();
        if self.has(Flaw::CommitsTwice) && self.notes.lock().committed.contains(&token) {
            return Ok(());
        }
        if self.has(Flaw::SecondCommitEnqueues) && self.notes.lock().committed.contains(&token) {
            return self.schedule_anyway(turn).await;
        }
        self.slip(&mut turn);
        let after = self.before_commit(&mut turn).await?;
        let (execution, events) = (turn.execution_id, turn.events.clone());
        let answer = self.commit_inner(turn).await;
        if answer.is_err() && self.has(Flaw::CommitsWithoutFencing) {
            return self.append_anyway(&token, execution, events).await;
        }
        answer?;
        self.notes.lock().open_turns.remove(&token);
        self.notes.lock().committed.insert(token);
        after.send(self).await
    }

    /// Whether a commit goes on with an instance that has failed.
    async fn follows_a_failure(&self, turn: &Turn) -> Result<bool> {
        let Some(first) = turn.events.first() else {
            return Ok(false);
        };
        let before = self.inner.read_outcome(&first.instance_id).await?;
        let status = before.map(|it| it.status);
        Ok(matches!(status, Some(OutcomeStatus::Failed { .. })))
    }

    /// Begins no execution after one that failed, but for a failed one.
    async fn fail_again(&self, turn: &mut Turn) -> Result<()> {
        if self.follows_a_failure(turn).await? {
            turn.metadata
                .status
                .get_or_insert_with(|| "Failed".to_owned());
        }
        Ok(())
    }

    /// Spoils the commit; what it returns is done after the real one.
    async fn before_commit(&self, turn: &mut Turn) -> Result<After> {
        let mut after = After::default();
        turn.messages
            .iter()
            .for_each(|item| self.seen.note_sent(item));
        turn.work = turn
            .work
            .drain(..)
            .map(|item| self.as_scheduled(item))
            .collect();
        match self.flaw {
            Flaw::RewoundStaysAsItFailed => forget_rewind(&mut turn.events),
            Flaw::FailureIsFinal => self.fail_again(turn).await?,
            Flaw::RewoundIsAnybodys if self.follows_a_failure(turn).await? => {
                turn.metadata.pinned_duroxide_version = None;
            }
            Flaw::CommitInTwoSteps => after.work = std::mem::take(&mut turn.work),
            Flaw::CancelBeforeInsert => {
                let work = &turn.work;
                turn.cancelled.retain(|wanted| !schedules(work, wanted));
            }
            Flaw::TimersIgnoreStepBack => after.take(turn, |item| self.fires_early(item)),
            Flaw::CommitLeavesHalf => {
                for item in turn.work.drain(..) {
                    self.inner.enqueue_for_worker(item).await?;
                }
            }
            Flaw::OverwritesEvents => self.drop_known_events(turn).await?,
            Flaw::AcceptsEventZero => turn.events.retain(|e| e.event_id != 0),
            Flaw::IgnoresStatusOfEmptyTurn if turn.events.is_empty() => turn.metadata.status = None,
            Flaw::LosesParent => turn.metadata.parent_instance_id = None,
            Flaw::ForgetsPinnedVersion => turn.metadata.pinned_duroxide_version = None,
            Flaw::CancelIgnored => turn.cancelled.clear(),
            Flaw::CancelSparesClaimed => {
                turn.cancelled
                    .retain(|wanted| !self.notes.was_claimed(wanted));
            }
            Flaw::TimersAtOnce => {
                after.take(turn, |item| matches!(item, WorkItem::TimerFired { .. }));
            }
            Flaw::StartsScheduleNothing => {
                let is_of_start =
                    |item: &WorkItem| matches!(item, WorkItem::TimerFired { id: 1, .. });
                turn.messages.retain(|item| !is_of_start(item));
            }
            Flaw::LaterRefusalIsLost => {
                let mut answered = 0;
                turn.messages.retain(|item| {
                    let answers = matches!(item, WorkItem::SubOrchFailed { .. });
                    answered += u32::from(answers);
                    !answers || answered == 1
                });
            }
            Flaw::RefusalEndsWithItsSender
                if turn.metadata.status.as_deref() == Some("ContinuedAsNew") =>
            {
                turn.messages.retain(|item| refused(item).is_none());
            }
            Flaw::RefusalEndsWithItsAsker => self.drop_late_refusals(turn).await?,
            Flaw::ResultsReachAnyLife => after.take(turn, |item| {
                matches!(
                    item,
                    WorkItem::SubOrchCompleted { .. } | WorkItem::SubOrchFailed { .. }
                )
            }),
            _ => {}
        }
        Ok(after)
    }

    /// Drops the refusal of a start that an earlier execution asked for.
    async fn drop_late_refusals(&self, turn: &mut Turn) -> Result<()> {
        let mut kept = Vec::new();
        for item in turn.messages.drain(..) {
            let is_late = match refused(&item) {
                Some((asker, execution)) => {
                    self.reference().latest_execution_id(asker).await? > execution
                }
                None => false,
            };
            if !is_late {
                kept.push(item);
            }
        }
        turn.messages = kept;
        Ok(())
    }

    async fn drop_known_events(&self, turn: &mut Turn) -> Result<()> {
        let Some(instance) = self.notes.instance_of(&turn.token) else {
            return Ok(());
        };
        let known = self
            .inner
            .read_with_execution(&instance, turn.execution_id)
            .await?;
        turn.events
            .retain(|e| known.iter().all(|k| k.event_id != e.event_id));
        Ok(())
    }

    pub(super) async fn commit_inner(&self, turn: Turn) -> Result<()> {
        let (token, writes) = turn.writes();
        let committed = writes.commit_to(&*self.inner, &token).await;
        committed.map_err(|error| match self.flaw {
            Flaw::LostLeaseUnnamed => ProviderError::permanent(error.operation, "cannot commit"),
            _ => error,
        })
    }

    pub(super) async fn append_anyway(
        &self,
        token: &str,
        execution: u64,
        events: Vec<Event>,
    ) -> Result<()> {
        let unknown = || ProviderError::permanent("ack_orchestration_item", "Invalid lock token");
        let instance = self.notes.instance_of(token).ok_or_else(unknown)?;
        self.inner
            .append_with_execution(&instance, execution, events)
            .await
    }
}

/// What a spoiled commit does in a second step.
#[derive(Default)]
struct After {
    work: Vec<WorkItem>,
    messages: Vec<WorkItem>,
}

impl After {
    /// Keeps these messages of the turn back.
    fn take(&mut self, turn: &mut Turn, chosen: impl FnMut(&WorkItem) -> bool) {
        (self.messages, turn.messages) = turn.messages.drain(..).partition(chosen);
    }

    async fn send(self, mutant: &Mutant) -> Result<()> {
        tokio::task::yield_now().await;
        for item in self.work {
            mutant.inner.enqueue_for_worker(item).await?;
        }
        for item in self.messages {
            mutant.inner.enqueue_for_orchestrator(item, None).await?;
        }
        Ok(())
    }
}

/// Who asked for a child that it does not get, and which execution of it.
fn refused(item: &WorkItem) -> Option<(&str, u64)> {
    match item {
        WorkItem::SubOrchFailed {
            parent_instance,
            parent_execution_id,
            ..
        } => Some((parent_instance, *parent_execution_id)),
        _ => None,
    }
}

/// Takes from the beginning of a rewound execution what says that it is one.
fn forget_rewind(events: &mut [Event]) {
    if let Some(first) = events.first_mut()
        && let EventKind::OrchestrationStarted {
            carry_forward_events: Some(carried),
            ..
        } = &mut first.kind
    {
        carried.retain(|(queue, _)| queue != REWIND_QUEUE);
    }
}
