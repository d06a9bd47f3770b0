//! Flaws of notes about blocked instances, and of queries for what instances wait for.

use duroxide_core::provider::{
    BlockNote, BlockedInstance, InstanceQuery, InstanceStatus, InstanceSummary, Page, Provider,
    ProviderError, WaitingFor,
};
use duroxide_core::{Event, EventKind};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

impl Mutant {
    pub(super) async fn note_block(
        &self,
        lock_token: &str,
        blocked: &BlockedInstance,
        node: &str,
    ) -> Result<bool> {
        let token = self.real_token(lock_token);
        let id = &blocked.instance_id;
        let remember = || {
            let note = BlockNote::new(blocked.clone(), node, 0);
            self.notes.lock().blocks.insert(id.clone(), note);
        };
        match self.flaw {
            Flaw::BlockIsOnlyTold => return Ok(true),
            Flaw::BlockNeedsNoLease => {
                let noted = self.inner.note_blocked(&token, blocked, node).await;
                return Ok(noted.unwrap_or_else(|_lost| {
                    remember();
                    true
                }));
            }
            Flaw::BlockKeepsTheFirst if self.reference().block_note(id).await?.is_some() => {
                return Ok(true);
            }
            _ => {}
        }
        let noted = self.inner.note_blocked(&token, blocked, node).await?;
        if noted {
            remember();
        }
        Ok(noted)
    }

    pub(super) async fn told_block(&self, instance: &str) -> Result<Option<BlockNote>> {
        let note = self.reference().block_note(instance).await?;
        if note.is_some() {
            return Ok(note);
        }
        let remembered = self.notes.lock().blocks.get(instance).cloned();
        let is_told = match self.flaw {
            Flaw::BlockOutlivesTheTurn | Flaw::BlockNeedsNoLease => true,
            // As long as the history is as short as it was.
            Flaw::BlockOutlivesTheInstance => self.inner.read(instance).await?.len() == 1,
            _ => false,
        };
        Ok(remembered.filter(|_| is_told))
    }

    /// The instances that a query for blocked ones admits, by what this mutant says of each.
    pub(super) async fn blocked_page(
        &self,
        query: &InstanceQuery,
        blocked: bool,
    ) -> Result<Page<InstanceSummary>> {
        let mut all = query.clone();
        all.blocked = None;
        let mut page = self.reference().query_instances(&all).await?;
        let mut kept = Vec::new();
        for one in page.items {
            if self.told_block(&one.instance_id).await?.is_some() == blocked {
                kept.push(one);
            }
        }
        page.items = kept;
        Ok(page)
    }

    /// The instances that once asked for something.
    pub(super) async fn that_ever_asked(
        &self,
        query: &InstanceQuery,
        what: &WaitingFor,
    ) -> Result<Page<InstanceSummary>> {
        let mut all = query.clone().with_status(InstanceStatus::Running);
        all.waiting_for = None;
        let mut page = self.reference().query_instances(&all).await?;
        let mut kept = Vec::new();
        for one in page.items {
            let history = self.inner.read(&one.instance_id).await?;
            let asked: Vec<Event> = history.into_iter().filter(is_question).collect();
            if what.is_open_in(&asked) {
                kept.push(one);
            }
        }
        page.items = kept;
        Ok(page)
    }
}

fn is_question(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::ActivityScheduled { .. }
            | EventKind::TimerCreated { .. }
            | EventKind::ExternalSubscribed { .. }
            | EventKind::QueueSubscribed { .. }
            | EventKind::SubOrchestrationScheduled { .. }
    )
}
