//! A verb applied to one instance. In: the instance as a query saw it. Out: what became of it.

use duroxide_core::provider::{
    IdState, InstanceSummary, MessageRule, Pausing, Submission, Submitted,
};
use duroxide_core::rewind::{RewindMessage, RewindPoint};
use duroxide_core::{TERMINATE_PREFIX, WorkItem};

use super::{Applied, Verb};
use crate::client::audit::Change;
use crate::client::{Client, ClientError};
use crate::failures::Failures;

/// How many dead letters are looked at in one step.
const LETTERS: u32 = 1_000;

impl Client {
    /// Applies the verb to one instance. What the store failed to do is tried once more, as it may have shared a
    /// transaction with what failed; if it fails again and the store answers otherwise, that is about this one alone.
    pub(super) async fn act(
        &self,
        verb: &Verb,
        one: &InstanceSummary,
        is_dry: bool,
        failures: &mut Failures,
    ) -> Result<Applied, ClientError> {
        let mut done = self.act_once(verb, one, is_dry).await;
        if done.as_ref().is_err_and(ClientError::is_retryable) {
            done = self.act_once(verb, one, is_dry).await;
        }
        match done {
            Err(ClientError::Provider(error)) if error.is_retryable() => {
                if let Err(error) = failures.is_of_one(self.admin()?, &error).await {
                    // The next call begins anew.
                    failures.end();
                    return Err(error.into());
                }
                let why = error.to_string();
                Ok(Applied::Refused { count: 0, why })
            }
            Err(error) => Err(error),
            Ok(applied) => {
                failures.end();
                Ok(applied)
            }
        }
    }

    async fn act_once(
        &self,
        verb: &Verb,
        one: &InstanceSummary,
        is_dry: bool,
    ) -> Result<Applied, ClientError> {
        let done = match verb {
            Verb::RequeueDeadLetters | Verb::DeleteDeadLetters => {
                return self.each_letter(verb, &one.instance_id, is_dry).await;
            }
            Verb::Restart { suffix } if one.instance_id.ends_with(suffix.as_str()) => Ok(false),
            _ if is_dry => Ok(true),
            Verb::Cancel { reason } => self.cancel_life(one, reason.clone(), "cancel").await,
            Verb::Terminate { reason } => {
                let reason = format!("{TERMINATE_PREFIX}{reason}");
                self.cancel_life(one, reason, "terminate").await
            }
            Verb::Pause => self.set_paused(one, true).await,
            Verb::Resume => self.set_paused(one, false).await,
            Verb::Retry => self.retry_life(one).await,
            Verb::Restart { suffix } => {
                let new_id = format!("{}{suffix}", one.instance_id);
                self.restart_life(one, &new_id).await
            }
        };
        match done {
            Ok(true) => Ok(Applied::Reached { count: 1 }),
            Ok(false) | Err(ClientError::InstanceNotFound { .. }) => Ok(Applied::Unchanged),
            Err(error) => refused(error, 0),
        }
    }

    async fn cancel_life(
        &self,
        one: &InstanceSummary,
        reason: String,
        verb: &'static str,
    ) -> Result<bool, ClientError> {
        self.check_payload("cancel reason", &reason)?;
        let item = WorkItem::CancelInstance {
            instance: one.instance_id.clone(),
            reason: reason.clone(),
        };
        let sent = self
            .send_to_life(one, MessageRule::MustBeAlive, item)
            .await?;
        if sent {
            let told = reason.strip_prefix(TERMINATE_PREFIX).unwrap_or(&reason);
            self.audit(Change::of(verb, &one.instance_id).with_detail(told));
        }
        Ok(sent)
    }

    async fn set_paused(&self, one: &InstanceSummary, pause: bool) -> Result<bool, ClientError> {
        let (admin, id) = (self.admin()?, one.instance_id.as_str());
        let answer = match (one.incarnation, pause) {
            (Some(life), true) => admin.pause_life(id, life).await?,
            (Some(life), false) => admin.resume_life(id, life).await?,
            (None, _) => None,
        };
        let changed = match answer {
            Some(answer) => answer == Pausing::Done,
            None if !self.is_still(one).await? => false,
            None if pause => return self.pause_instance(id).await.or_else(ended),
            None => return self.resume_instance(id).await.or_else(ended),
        };
        if changed {
            let verb = if pause { "pause" } else { "resume" };
            self.audit(Change::of(verb, id));
        }
        Ok(changed)
    }

    async fn retry_life(&self, one: &InstanceSummary) -> Result<bool, ClientError> {
        let id = one.instance_id.as_str();
        let rewind = match self.plan_retry(id, RewindPoint::Failure).await {
            // It has not failed any more: somebody else retried it.
            Err(ClientError::InvalidInput { .. }) => return Ok(false),
            planned => planned?,
        };
        let request = RewindMessage::Rewind {
            execution_id: rewind.failed_execution_id,
            from_event_id: Some(rewind.from_event_id),
            failure: rewind.failure,
        };
        let rule = MessageRule::MustHaveEnded;
        let sent = self.send_to_life(one, rule, request.to(id)).await?;
        if sent {
            let detail = format!(
                "execution {}, from event {}",
                rewind.failed_execution_id, rewind.from_event_id
            );
            self.audit(Change::of("retry", id).with_detail(&detail));
        }
        Ok(sent)
    }

    /// Sends a message to the life that a query saw; `false` if another one has the id, or it stands otherwise than the
    /// rule wants.
    async fn send_to_life(
        &self,
        one: &InstanceSummary,
        rule: MessageRule,
        item: WorkItem,
    ) -> Result<bool, ClientError> {
        let id = one.instance_id.as_str();
        let submission = Submission::messages(id, rule, vec![item]);
        let submission = match one.incarnation {
            Some(life) => submission.of_life(life),
            None if self.is_still(one).await? => submission,
            None => return Ok(false),
        };
        Ok(match self.submit(submission).await? {
            Submitted::Joined(found) => found != IdState::Unknown,
            _ => false,
        })
    }

    /// Whether the id stands for what a query saw, as far as a look can tell.
    pub(in crate::client) async fn is_still(
        &self,
        one: &InstanceSummary,
    ) -> Result<bool, ClientError> {
        let id = one.instance_id.as_str();
        if one.incarnation.is_some() {
            return Ok(self.admin()?.incarnation(id).await? == one.incarnation);
        }
        match self.get_instance_info(id).await {
            Ok(info) => Ok(info.created_at == one.created_at_ms),
            Err(ClientError::InstanceNotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Requeues or deletes the dead letters that name an instance, oldest first in each step. A letter has a number of
    /// its own, and the store compares the life that it is for.
    async fn each_letter(
        &self,
        verb: &Verb,
        instance: &str,
        is_dry: bool,
    ) -> Result<Applied, ClientError> {
        let (mut count, mut why) = (0, None);
        let mut limit = LETTERS;
        if is_dry {
            let all = self
                .admin()?
                .list_dead_letters_of(instance, u32::MAX)
                .await?;
            count = all.len() as u64;
            limit = 0;
        }
        let mut left_alone = std::collections::HashSet::new();
        while limit > 0 {
            let letters = self.admin()?.list_dead_letters_of(instance, limit).await?;
            let mut ids: Vec<u64> = letters.iter().map(|letter| letter.id).collect();
            ids.retain(|id| !left_alone.contains(id));
            if ids.is_empty() {
                break;
            }
            for id in ids.into_iter().rev() {
                let done = match verb {
                    Verb::RequeueDeadLetters => self.requeue_dead_letter(id).await,
                    _ => self.delete_dead_letter(id).await,
                };
                match done {
                    Ok(was_there) => count += u64::from(was_there),
                    Err(ClientError::InvalidInput { message }) => {
                        left_alone.insert(id);
                        why.get_or_insert(message);
                    }
                    Err(error) => return refused(error, count),
                }
            }
            // Beyond those that stay.
            let stay = u32::try_from(left_alone.len()).unwrap_or(u32::MAX);
            limit = LETTERS.saturating_add(stay);
        }
        Ok(match (why, count) {
            (Some(why), count) => Applied::Refused { count, why },
            (None, 0) => Applied::Unchanged,
            (None, count) => Applied::Reached { count },
        })
    }
}

/// What is wrong with one instance does not stop the others; a store that may be away, or cannot do it at all, does.
fn refused(error: ClientError, count: u64) -> Result<Applied, ClientError> {
    let stops = match &error {
        ClientError::Provider(error) => error.is_retryable() || error.is_store_closed(),
        ClientError::ManagementNotAvailable | ClientError::Timeout => true,
        _ => false,
    };
    if stops {
        return Err(error);
    }
    let why = error.to_string();
    Ok(Applied::Refused { count, why })
}

/// One that ended meanwhile needs neither pause nor resumption.
fn ended(error: ClientError) -> Result<bool, ClientError> {
    match error {
        ClientError::InvalidInput { .. } => Ok(false),
        error => Err(error),
    }
}
