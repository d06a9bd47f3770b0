//! Flaws of submissions: a start and its messages, by a rule about the id.

use duroxide_core::WorkItem;
use duroxide_core::provider::{
    IdState, MessageRule, OutcomeStatus, Provider, ProviderAdmin, ProviderError, StartRule, Step,
    Submission, Submitted,
};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

fn cloned(submission: &Submission, step: Step) -> Vec<WorkItem> {
    let items = submission.items(step).into_iter();
    items.map(|(item, _)| item.clone()).collect()
}

/// The start of a submission, without its messages.
fn start_of(submission: &Submission) -> Option<WorkItem> {
    let first = cloned(submission, Step::StoreAll).into_iter().next();
    first.filter(|_| submission.begins())
}

/// The submission with a changed start and changed messages.
fn changed(
    submission: &Submission,
    start: impl FnOnce(&mut WorkItem),
    messages: impl FnOnce(&mut Vec<WorkItem>),
) -> Submission {
    let mut changed = cloned(submission, Step::StoreMessages);
    messages(&mut changed);
    let rule = match submission.steps() {
        [_, Step::StoreMessages, ..] => StartRule::UseWhatIsThere,
        [.., Step::Replace] => StartRule::ReplaceFinished,
        _ => StartRule::MustBeNew,
    };
    match submission.items(Step::StoreAll).first() {
        Some((item, delay)) if submission.begins() => {
            let mut item = (*item).clone();
            start(&mut item);
            Submission::start(item, *delay, rule, changed)
        }
        _ => submission.clone(),
    }
}

fn reversed(submission: &Submission) -> Submission {
    changed(submission, |_| {}, |messages| messages.reverse())
}

/// Nobody knows who asked for it.
fn anonymous(submission: &Submission) -> Submission {
    let forget = |start: &mut WorkItem| {
        if let WorkItem::StartOrchestration { input, .. } = start {
            *input = String::new();
        }
    };
    changed(submission, forget, |_| {})
}

impl Mutant {
    pub(super) async fn take(&self, submission: Submission) -> Result<Submitted> {
        if submission.check().is_err() && !self.has(Flaw::SubmitDropsStrays) {
            return self.inner.submit(submission).await;
        }
        match self.flaw {
            Flaw::MessagesReachAnyLife | Flaw::GoneLivesTakeMessages
                if submission.life().is_some() =>
            {
                self.take_unfenced(&submission).await
            }
            Flaw::EndsTakeNoMessages if submission.step(IdState::Running) == Step::Nothing => {
                match self.standing(submission.instance()).await? {
                    IdState::Ended if !submission.begins() => {
                        Ok(Submitted::Refused(IdState::Ended))
                    }
                    _ => self.inner.submit(submission).await,
                }
            }
            Flaw::SubmitLooksFirst => {
                let found = self.standing(submission.instance()).await?;
                tokio::task::yield_now().await;
                self.write(&submission, found).await
            }
            Flaw::SubmitForgetsQueuedStarts => {
                let found = match self.standing(submission.instance()).await? {
                    IdState::Starting => IdState::Unknown,
                    _ => return self.inner.submit(submission).await,
                };
                self.write(&submission, found).await
            }
            Flaw::SubmitForgetsWhoAsked => {
                let found = self.standing(submission.instance()).await?;
                if found == IdState::Unknown {
                    self.inner.submit(submission).await
                } else {
                    self.inner.submit(anonymous(&submission)).await
                }
            }
            Flaw::SubmitTakesAnyForItsOwn => {
                let found = self.standing(submission.instance()).await?;
                if submission.request().is_some() && found != IdState::Unknown {
                    Ok(Submitted::Started)
                } else {
                    self.inner.submit(submission).await
                }
            }
            Flaw::SubmitMessagesApart if submission.begins() => self.in_two_parts(submission).await,
            Flaw::SubmitReplacesApart => {
                let found = self.standing(submission.instance()).await?;
                if submission.step(found) != Step::Replace {
                    return self.inner.submit(submission).await;
                }
                let deleted = self
                    .inner
                    .delete_instance(submission.instance(), false)
                    .await;
                if deleted.is_err() {
                    return self.inner.submit(submission).await;
                }
                tokio::task::yield_now().await;
                match self.inner.submit(submission).await? {
                    Submitted::Started => Ok(Submitted::Replaced),
                    other => Ok(other),
                }
            }
            Flaw::SubmitReplacesByForce => match self.inner.submit(submission.clone()).await? {
                Submitted::Refused(IdState::Unfinished) => {
                    let tree = self.inner.get_instance_tree(submission.instance()).await?;
                    let ids = &tree.all_ids;
                    self.inner.delete_instances_atomic(ids, true).await?;
                    self.inner.submit(submission).await?;
                    Ok(Submitted::Replaced)
                }
                other => Ok(other),
            },
            Flaw::SubmitReversesMessages => self.inner.submit(reversed(&submission)).await,
            Flaw::SubmitIgnoresDelay if submission.begins() => {
                let found = self.standing(submission.instance()).await?;
                if submission.step(found) != Step::StoreAll {
                    return self.inner.submit(submission).await;
                }
                for item in cloned(&submission, Step::StoreAll) {
                    self.inner.enqueue_for_orchestrator(item, None).await?;
                }
                Ok(Submitted::Started)
            }
            Flaw::SubmitStoresRefused => {
                let messages = cloned(&submission, Step::StoreMessages);
                let submitted = self.inner.submit(submission).await?;
                if let Submitted::Refused(_) = submitted {
                    self.put_all(messages).await?;
                }
                Ok(submitted)
            }
            Flaw::SubmitStartsTwice => {
                let start = start_of(&submission);
                let submitted = self.inner.submit(submission).await?;
                if let (Submitted::Joined(_), Some(start)) = (submitted, start) {
                    self.put_all(vec![start]).await?;
                }
                Ok(submitted)
            }
            Flaw::SubmitFeedsTheDead if !submission.begins() => {
                let messages = cloned(&submission, Step::StoreMessages);
                match self.inner.submit(submission).await? {
                    Submitted::Refused(IdState::Ended) => {
                        self.put_all(messages).await?;
                        Ok(Submitted::Joined(IdState::Ended))
                    }
                    other => Ok(other),
                }
            }
            Flaw::SubmitDropsStrays => match start_of(&submission) {
                Some(start @ WorkItem::StartOrchestration { .. })
                    if submission.check().is_err() =>
                {
                    let alone = Submission::start(start, None, StartRule::MustBeNew, Vec::new());
                    self.inner.submit(alone).await
                }
                _ => self.inner.submit(submission).await,
            },
            _ => self.inner.submit(submission).await,
        }
    }

    /// Messages for one life of an id as if they were for whoever has it, or will have it.
    async fn take_unfenced(&self, submission: &Submission) -> Result<Submitted> {
        let found = self.standing(submission.instance()).await?;
        let is_gone = matches!(found, IdState::Unknown | IdState::Starting);
        if is_gone != self.has(Flaw::GoneLivesTakeMessages) {
            return self.inner.submit(submission.clone()).await;
        }
        if !is_gone && submission.step(found) == Step::Nothing {
            return Ok(Submitted::Refused(found));
        }
        self.put_all(cloned(submission, Step::StoreMessages))
            .await?;
        Ok(Submitted::Joined(found))
    }

    async fn standing(&self, id: &str) -> Result<IdState> {
        if let Some(outcome) = self.inner.read_outcome(id).await? {
            return Ok(match outcome.status {
                OutcomeStatus::Running => IdState::Running,
                _ => IdState::Ended,
            });
        }
        let pending = self.inner.pending_work(id).await?.unwrap_or_default();
        let is_starting = pending.messages.iter().any(|one| one.begins.is_some());
        Ok(if is_starting {
            IdState::Starting
        } else {
            IdState::Unknown
        })
    }

    /// Does what the rule says for what was found before.
    async fn write(&self, submission: &Submission, found: IdState) -> Result<Submitted> {
        let step = submission.step(found);
        if step == Step::Replace {
            return self.inner.submit(submission.clone()).await;
        }
        for (item, delay) in submission.items(step) {
            self.inner
                .enqueue_for_orchestrator(item.clone(), delay)
                .await?;
        }
        Ok(Submission::answer(found, step))
    }

    async fn in_two_parts(&self, submission: Submission) -> Result<Submitted> {
        let messages = cloned(&submission, Step::StoreMessages);
        let rule = submission.step(IdState::Ended);
        let found = self.standing(submission.instance()).await?;
        if submission.step(found) != Step::StoreAll || rule == Step::Replace {
            return self.inner.submit(submission).await;
        }
        let items = submission.items(Step::StoreAll);
        let Some((start, delay)) = items.into_iter().next() else {
            return self.inner.submit(submission).await;
        };
        let alone = Submission::start(start.clone(), delay, StartRule::MustBeNew, Vec::new());
        let submitted = self.inner.submit(alone).await?;
        tokio::task::yield_now().await;
        let rest = Submission::messages(
            submission.instance(),
            MessageRule::MustNotHaveEnded,
            messages,
        );
        self.inner.submit(rest).await?;
        Ok(submitted)
    }

    async fn put_all(&self, items: Vec<WorkItem>) -> Result<()> {
        for item in items {
            self.inner.enqueue_for_orchestrator(item, None).await?;
        }
        Ok(())
    }
}
