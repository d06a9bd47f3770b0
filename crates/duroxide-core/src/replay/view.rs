//! What a host may ask of an execution between its turns. Never moves it on.

use std::sync::Arc;
use std::time::Duration;

use super::execution::Execution;
use super::start::ParentLink;
use crate::durable::InPlaceFuture;
use crate::start::StartExtras;
use crate::trace_context::TraceContext;
use crate::work_item::WorkItem;

impl Execution {
    /// The instance.
    #[must_use]
    pub fn instance_id(&self) -> &str {
        &self.shared.identity.instance_id
    }

    /// The execution's number.
    #[must_use]
    pub fn execution_id(&self) -> u64 {
        self.shared.identity.execution_id
    }

    /// Registered name of the handler.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.identity.name
    }

    /// Version of the handler.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.shared.identity.version
    }

    /// The instance that awaits the result.
    #[must_use]
    pub fn parent(&self) -> Option<&ParentLink> {
        self.parent.as_ref()
    }

    /// Takes the work that the code asked to run in place, to be driven by the host within the turn; `None` if it was
    /// taken before. Nothing of it runs before the future is polled; a panic of the author's code comes out of that.
    #[must_use]
    pub fn take_in_place(&mut self, activity_id: u64) -> Option<InPlaceFuture> {
        let mut cell = self.shared.cell();
        let slot = cell.operations.slot_of(activity_id)?;
        let work = cell.in_place.remove(&slot)?;
        drop(cell);
        Some(Box::pin(async move { (work.work)().await }))
    }

    /// How long the work behind a question may take, if its author said; to be asked before the work is taken.
    #[must_use]
    pub fn in_place_limit(&self, activity_id: u64) -> Option<Duration> {
        let cell = self.shared.cell();
        let slot = cell.operations.slot_of(activity_id)?;
        cell.in_place.get(&slot)?.limit
    }

    /// What the start gave beside input and labels.
    #[must_use]
    pub fn extras(&self) -> StartExtras {
        self.shared.cell().extras.clone()
    }

    /// The place of this execution in the trace that it belongs to.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.shared.cell().trace.clone()
    }

    /// The last event applied.
    #[must_use]
    pub fn last_event_id(&self) -> u64 {
        self.last_event_id
    }

    /// Whether its terminal event is recorded or decided; such an execution takes no further turn.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// When the execution began, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn started_at_ms(&self) -> u64 {
        self.started_at_ms
    }

    /// A message that gives the instance a turn and has no other effect: a timer of an execution that never is.
    #[must_use]
    pub fn nudge(&self) -> WorkItem {
        WorkItem::TimerFired {
            instance: self.instance_id().to_owned(),
            execution_id: 0,
            id: 0,
            fire_at_ms: 0,
        }
    }

    /// Calls back, once, when something from outside its history reaches the orchestration: a wake by a timer, channel
    /// or task that it awaits, or a use of its context elsewhere. It is in the log by then, and the next turn of this
    /// execution fails with the report. Called on the foreign thread, or at once if it has happened already.
    pub fn on_foreign(&self, notify: Arc<dyn Fn() + Send + Sync>) {
        self.shared.presence.on_foreign(notify);
    }

    /// From now on, completions that fit no schedule are noted in [`Notes::strays`](super::Notes::strays) and otherwise
    /// ignored, instead of ending the execution.
    pub fn ignore_strays(&mut self) {
        self.ignores_strays = true;
    }

    /// How many turns it took so far, this one included; see [`count_turns`](super::count_turns).
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.turns
    }
}
