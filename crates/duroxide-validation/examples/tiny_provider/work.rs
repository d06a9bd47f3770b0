//! The worker side: claim an activity, report its result, keep or give back its lease; sessions.

use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::provider::{
    ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter,
};

use super::state::{Activity, Result, Session, State, lost, ms, new_token};

fn session_of(item: &WorkItem) -> Option<&String> {
    match item {
        WorkItem::ActivityExecute { session_id, .. } => session_id.as_ref(),
        _ => None,
    }
}

fn tag_of(item: &WorkItem) -> Option<&str> {
    match item {
        WorkItem::ActivityExecute { tag, .. } => tag.as_deref(),
        _ => None,
    }
}

impl State {
    pub(crate) fn claim_work(
        &mut self,
        now: u64,
        lease: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Option<(WorkItem, String, u32)> {
        let free = |a: &Activity| a.visible_at <= now && a.locked_until <= now;
        let wanted =
            |a: &Activity| tags.matches(tag_of(&a.item)) && self.may_have(&a.item, session, now);
        let found = self.activities.iter().find(|(_, a)| free(a) && wanted(a));
        let row = *found?.0;
        let activity = self
            .activities
            .get_mut(&row)
            .expect("the row was just seen");
        let token = new_token();
        activity.token = Some(token.clone());
        activity.locked_until = now.saturating_add(ms(lease));
        activity.attempts += 1;
        let (item, attempts) = (activity.item.clone(), activity.attempts);
        if let (Some(id), Some(session)) = (session_of(&item), session) {
            let held = Session {
                owner: session.owner_id.clone(),
                locked_until: now.saturating_add(ms(session.lock_timeout)),
                last_activity_at: now,
            };
            self.sessions.insert(id.clone(), held);
        }
        Some((item, token, attempts))
    }

    /// A session's work goes to its owner, or to anybody once its lease is over.
    fn may_have(&self, item: &WorkItem, asking: Option<&SessionFetchConfig>, now: u64) -> bool {
        let Some(id) = session_of(item) else {
            return true;
        };
        let Some(asking) = asking else {
            return false;
        };
        let held = self
            .sessions
            .get(id)
            .filter(|session| session.locked_until > now);
        held.is_none_or(|session| session.owner == asking.owner_id)
    }

    fn held_row(&self, token: &str, now: u64, operation: &str) -> Result<u64> {
        let held = |a: &Activity| a.token.as_deref() == Some(token) && a.locked_until > now;
        let row = self
            .activities
            .iter()
            .find(|(_, a)| held(a))
            .map(|(row, _)| *row);
        row.ok_or_else(|| lost(operation))
    }

    pub(crate) fn ack_work(
        &mut self,
        token: &str,
        completion: Option<WorkItem>,
        now: u64,
    ) -> Result<()> {
        let row = self.held_row(token, now, "ack_work_item")?;
        if let Some(item) = &completion
            && !matches!(
                item,
                WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. }
            )
        {
            return Err(ProviderError::permanent(
                "ack_work_item",
                "Invalid work item type",
            ));
        }
        self.touch_session(row, now);
        self.activities.remove(&row);
        if let Some(item) = completion {
            self.send(item, now);
        }
        Ok(())
    }

    pub(crate) fn renew_work(&mut self, token: &str, extend: Duration, now: u64) -> Result<()> {
        let row = self.held_row(token, now, "renew_work_item_lock")?;
        self.touch_session(row, now);
        if let Some(activity) = self.activities.get_mut(&row) {
            activity.locked_until = now.saturating_add(ms(extend));
        }
        Ok(())
    }

    fn touch_session(&mut self, row: u64, now: u64) {
        let id = self
            .activities
            .get(&row)
            .and_then(|a| session_of(&a.item))
            .cloned();
        if let Some(session) = id.and_then(|id| self.sessions.get_mut(&id))
            && session.locked_until > now
        {
            session.last_activity_at = now;
        }
    }

    pub(crate) fn abandon_work(
        &mut self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
        now: u64,
    ) -> Result<()> {
        let mut all = self.activities.values_mut();
        let activity = all.find(|a| a.token.as_deref() == Some(token));
        let activity = activity.ok_or_else(|| lost("abandon_work_item"))?;
        activity.token = None;
        activity.locked_until = 0;
        activity.visible_at = now.saturating_add(delay.map_or(0, ms));
        if ignore_attempt {
            activity.attempts = activity.attempts.saturating_sub(1);
        }
        Ok(())
    }

    pub(crate) fn cancel(&mut self, wanted: &ScheduledActivityIdentifier) {
        let is_it = |item: &WorkItem| {
            matches!(item, WorkItem::ActivityExecute { instance, execution_id, id, .. }
                if *instance == wanted.instance
                    && *execution_id == wanted.execution_id
                    && *id == wanted.activity_id)
        };
        self.activities.retain(|_, a| !is_it(&a.item));
    }

    pub(crate) fn renew_sessions(
        &mut self,
        owners: &[&str],
        extend: Duration,
        idle: Duration,
        now: u64,
    ) -> usize {
        let active_after = now.saturating_sub(ms(idle));
        let mine = |s: &&mut Session| {
            owners.contains(&s.owner.as_str())
                && s.locked_until > now
                && s.last_activity_at > active_after
        };
        let renewed = self.sessions.values_mut().filter(mine);
        renewed
            .map(|s| s.locked_until = now.saturating_add(ms(extend)))
            .count()
    }

    pub(crate) fn sweep_sessions(&mut self, now: u64) -> usize {
        let before = self.sessions.len();
        let activities = &self.activities;
        self.sessions.retain(|id, session| {
            let needed = activities.values().any(|a| session_of(&a.item) == Some(id));
            session.locked_until >= now || needed
        });
        before - self.sessions.len()
    }
}
