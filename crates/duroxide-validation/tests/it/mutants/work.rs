//! Flaws of the worker side.

use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::provider::{
    ClaimedWork, Incarnation, Provider, ProviderError, ScheduledActivityIdentifier,
    SessionFetchConfig, TagFilter, WorkClaim,
};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;
type Fetched = Option<(WorkItem, String, u32)>;

impl Mutant {
    pub(super) fn as_scheduled(&self, mut item: WorkItem) -> WorkItem {
        if self.has(Flaw::DropsTag)
            && let WorkItem::ActivityExecute { tag, .. } = &mut item
        {
            *tag = None;
        }
        if self.has(Flaw::CutsAtNul) {
            Self::cut_texts(&mut item);
        }
        item
    }

    pub(super) async fn fetch_work(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Fetched> {
        if self.is_blind() {
            return Ok(None);
        }
        if self.has(Flaw::Oversleeps) {
            self.oversleep(poll_timeout).await;
        }
        let lease = lock_timeout;
        let tags = match tags {
            TagFilter::None if self.has(Flaw::TagNoneIsAny) => &TagFilter::Any,
            tags => tags,
        };
        let session = self.as_session(session, lock_timeout);
        let poll = match self.flaw {
            Flaw::NeverWaits | Flaw::SleepsThroughWork => Duration::ZERO,
            _ => poll_timeout,
        };
        let mut found = self
            .inner
            .fetch_work_item(lease, poll, session.as_ref(), tags)
            .await?;
        if found.is_none() && self.has(Flaw::SleepsThroughWork) && !poll_timeout.is_zero() {
            tokio::time::sleep(poll_timeout).await;
            found = self
                .inner
                .fetch_work_item(lease, poll, session.as_ref(), tags)
                .await?;
        }
        if self.has(Flaw::ReordersWork)
            && let Some(first) = found.take()
        {
            found = Some(
                self.second_before(first, lease, session.as_ref(), tags)
                    .await?,
            );
        }
        if self.has(Flaw::WorkLeaseIsNoLease)
            && let Some((_, token, _)) = &found
        {
            self.inner
                .renew_work_item_lock(token, Duration::ZERO)
                .await?;
        }
        if let Some((_, token, _)) = &found {
            self.note_length(token, lock_timeout);
        }
        Ok(self.as_fetched_work(found))
    }

    fn as_fetched_work(&self, found: Fetched) -> Fetched {
        let (item, token, attempt) = found?;
        self.notes.lock().works.insert(token.clone(), item.clone());
        let attempt = match self.flaw {
            Flaw::AttemptsFromZero => attempt - 1,
            Flaw::AttemptsNotKept => 1,
            Flaw::StrangersForgive => self.forgiven(item.target_instance(), attempt),
            _ => attempt,
        };
        Some((item, token, attempt))
    }

    fn as_session(
        &self,
        session: Option<&SessionFetchConfig>,
        lock_timeout: Duration,
    ) -> Option<SessionFetchConfig> {
        let mut session = session.cloned();
        match &mut session {
            Some(session) if self.has(Flaw::SessionsShared) => session.owner_id = "all".into(),
            None if self.has(Flaw::SessionlessGetsSessions) => {
                return Some(SessionFetchConfig {
                    owner_id: "nobody".into(),
                    lock_timeout,
                });
            }
            _ => {}
        }
        session
    }

    async fn second_before(
        &self,
        first: (WorkItem, String, u32),
        lease: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<(WorkItem, String, u32)> {
        let now = Duration::ZERO;
        match self
            .inner
            .fetch_work_item(lease, now, session, tags)
            .await?
        {
            Some(second) => {
                self.inner.abandon_work_item(&first.1, None, true).await?;
                Ok(second)
            }
            None => Ok(first),
        }
    }

    pub(super) async fn claim_works(&self, claim: WorkClaim) -> Result<Vec<ClaimedWork>> {
        let claim = self.as_work_claim(claim);
        let mut works = self.inner.claim_work(claim).await?;
        if self.has(Flaw::WorkNamesNoLife) {
            let nobody = Some(Incarnation::from_random(0));
            works.iter_mut().for_each(|work| work.incarnation = nobody);
        }
        for work in &works {
            let (token, item) = (work.lock_token.clone(), work.item.clone());
            self.notes.lock().works.insert(token, item);
        }
        Ok(works)
    }

    pub(super) async fn ack_work(&self, token: &str, completion: Option<WorkItem>) -> Result<()> {
        if self.has(Flaw::LosesCompletion) {
            return self.inner.ack_work_item(token, None).await;
        }
        if self.has(Flaw::AcceptsAnyCompletion) {
            self.inner.ack_work_item(token, None).await?;
            return match completion {
                Some(item) if !matches!(item, WorkItem::ActivityExecute { .. }) => {
                    self.inner.enqueue_for_orchestrator(item, None).await
                }
                _ => Ok(()),
            };
        }
        let answer = self.inner.ack_work_item(token, completion.clone()).await;
        let known = self.notes.activity_of(token).is_some();
        match (answer, completion) {
            (Err(_), Some(item)) if known && self.has(Flaw::AcksWorkWithoutFencing) => {
                self.inner.enqueue_for_orchestrator(item, None).await
            }
            (answer, _) => answer,
        }
    }

    pub(super) async fn renew_work(&self, token: &str, extend_for: Duration) -> Result<()> {
        let known = self.notes.activity_of(token).is_some();
        if self.has(Flaw::WorkRenewalIsLost) && known {
            let lost = self.inner.lost_work_items(&[token.to_owned()]).await?;
            if lost.is_some_and(|lost| lost.is_empty()) {
                return Ok(());
            }
        }
        let extend_for = self.as_renewal(token, extend_for);
        let answer = self.inner.renew_work_item_lock(token, extend_for).await;
        if (self.has(Flaw::WorkRenewalRevives) && known) || self.takes_for_renewed(token) {
            return Ok(());
        }
        answer
    }

    pub(super) async fn heartbeat(
        &self,
        token: &str,
        extend_for: Duration,
        call: u64,
        details: &str,
    ) -> Result<bool> {
        let activity = self.notes.activity_of(token);
        let (instance, own) = match &activity {
            Some(WorkItem::ActivityExecute { instance, id, .. }) => (instance.clone(), *id),
            _ => (String::new(), call),
        };
        let call = match self.flaw {
            Flaw::HeartbeatPerAttempt => own,
            Flaw::HeartbeatForInstance => 0,
            _ => call,
        };
        let extend_for = match self.flaw {
            Flaw::HeartbeatExtendsNothing => extend_for / 100,
            _ => extend_for,
        };
        let answer = self
            .inner
            .heartbeat_work_item(token, extend_for, call, details)
            .await;
        let keeps = match self.flaw {
            Flaw::HeartbeatsUnfenced => answer.is_err(),
            Flaw::HeartbeatsOutliveAll => answer.is_ok(),
            _ => false,
        };
        if keeps && activity.is_some() {
            let said = details.to_owned();
            self.notes.lock().said.insert((instance, call), said);
            return Ok(true);
        }
        answer
    }

    pub(super) async fn last_said(
        &self,
        call: &ScheduledActivityIdentifier,
    ) -> Result<Option<String>> {
        let key = (call.instance.clone(), call.activity_id);
        let kept = self.notes.lock().said.get(&key).cloned();
        if kept.is_some() {
            return Ok(kept);
        }
        if self.has(Flaw::HeartbeatsEndWithARewind) {
            let current = self.inner.read_outcome(&call.instance).await?;
            if current.is_some_and(|it| it.execution_id > call.execution_id) {
                return Ok(None);
            }
        }
        let mut call = call.clone();
        if self.has(Flaw::HeartbeatForInstance) {
            call.activity_id = 0;
        }
        self.inner.last_heartbeat(&call).await
    }

    pub(super) async fn abandon_work(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<()> {
        let (delay, ignore_attempt) = match self.flaw {
            Flaw::AbandonIgnoresDelay => (None, ignore_attempt),
            Flaw::AbandonAlwaysCounts => (delay, false),
            Flaw::AbandonNeverCounts => (delay, true),
            _ => (delay, ignore_attempt),
        };
        let answer = self
            .inner
            .abandon_work_item(token, delay, ignore_attempt)
            .await;
        if self.has(Flaw::AbandonForgivesStrangers) {
            return Ok(());
        }
        if answer.is_err() && ignore_attempt && self.has(Flaw::StrangersForgive) {
            self.forgive(token);
        }
        answer
    }

    pub(super) async fn renew_sessions(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize> {
        let idle_timeout = match self.flaw {
            Flaw::SessionIdleIgnored => Duration::from_secs(1_000_000),
            _ => idle_timeout,
        };
        let everybody = ["all"];
        let owner_ids = if self.has(Flaw::SessionsShared) {
            &everybody
        } else {
            owner_ids
        };
        let renewed = self
            .inner
            .renew_session_lock(owner_ids, extend_for, idle_timeout)
            .await?;
        Ok(match self.flaw {
            Flaw::SessionsRenewedByNobody => renewed.max(1),
            _ => renewed,
        })
    }
}
