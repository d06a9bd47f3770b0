//! Detached orchestrations by their definition: started, and not awaited.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::time::Duration;

use serde::Serialize;

use super::OrchestrationContext;
use crate::definition::{Arguments, Orchestration, ToOrchestration};
use crate::durable::{CommandKind, Target};
use crate::ids::{SUB_ORCH_AUTO_PREFIX, uses_reserved_marker};
use crate::label::{Labels, check_label, check_labels};
use crate::start::StartExtras;

impl OrchestrationContext {
    /// Starts an orchestration that this one does not await, by its definition. It takes effect now; without an id of
    /// your own it gets a generated one.
    ///
    /// # Panics
    ///
    /// When the input does not serialise, which fails the orchestration.
    ///
    /// ```
    /// use duroxide_core::{OrchestrationContext, OrchestrationRef};
    ///
    /// const AUDIT: OrchestrationRef<u64, ()> = OrchestrationRef::new("audit");
    ///
    /// async fn order(ctx: OrchestrationContext, number: u64) -> Result<String, String> {
    ///     let audit = ctx.spawn(AUDIT, &number).id(format!("audit-{number}"));
    ///     Ok(format!("the audit goes on as {}", audit.instance()))
    /// }
    /// ```
    #[track_caller]
    pub fn spawn<Via, T: ToOrchestration<Via>>(
        &self,
        orchestration: T,
        input: impl Arguments<<T::Orchestration as Orchestration>::Input>,
    ) -> Spawned<T::Orchestration> {
        let orchestration = orchestration.to_orchestration();
        let input = input.encode().unwrap_or_else(|e| panic!("encode: {e}"));
        let location = Location::caller();
        let instance = self.uuid().to_string();
        let kind = CommandKind::Detached {
            target: target(&orchestration),
            instance: instance.clone(),
            input,
            labels: Labels::new(),
            extras: StartExtras::default(),
        };
        let mut cell = self.shared.deciding(location);
        cell.record(kind, location);
        drop(cell);
        Spawned {
            ctx: self.clone(),
            instance,
            types: PhantomData,
        }
    }
}

/// The handler of a definition, as a start names it.
pub(super) fn target<O: Orchestration>(orchestration: &O) -> Target {
    Target {
        name: orchestration.name().to_owned(),
        version: orchestration.version().map(str::to_owned),
        record_governs: true,
    }
}

/// An orchestration that was started and is not awaited.
pub struct Spawned<O: Orchestration> {
    ctx: OrchestrationContext,
    instance: String,
    types: PhantomData<fn() -> O>,
}

impl<O: Orchestration> Spawned<O> {
    /// Its id. A start for an id that exists is ignored.
    ///
    /// # Panics
    ///
    /// When the id is empty, too long, or uses the marker of generated child ids, which fails the orchestration.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        let id = id.into();
        assert!(
            !uses_reserved_marker(&id),
            "detached orchestration instance id '{id}' uses the reserved sub-orchestration marker '{SUB_ORCH_AUTO_PREFIX}'"
        );
        if let Err(refusal) = self.ctx.check_id(&id) {
            panic!("detached orchestration: {refusal}");
        }
        self.ctx.shared.cell().rename_detached(&self.instance, &id);
        self.instance = id;
        self
    }

    /// Gives it a label, by which queries find it.
    ///
    /// # Panics
    ///
    /// When the label is not fit, which fails the orchestration.
    pub fn label(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (key.into(), value.into());
        if let Err(why) = check_label(&key, &value) {
            panic!("detached orchestration: {why}");
        }
        let labels = self
            .ctx
            .shared
            .cell()
            .label_detached(&self.instance, &key, &value);
        if let Some(Err(why)) = labels.as_ref().map(check_labels) {
            panic!("detached orchestration: {why}");
        }
        self
    }

    /// Gives it a memo: a small value that lists show and its code reads.
    ///
    /// # Panics
    ///
    /// When the memo does not serialise or is too long, which fails the orchestration.
    pub fn memo<T: Serialize + ?Sized>(self, memo: &T) -> Self {
        self.extend(|extras| extras.with_memo(memo))
    }

    /// How long it may take, all its executions together, from its first turn on. After that it fails.
    ///
    /// # Panics
    ///
    /// When the limit is shorter than a millisecond, which fails the orchestration.
    pub fn timeout(self, limit: Duration) -> Self {
        self.extend(|extras| extras.with_timeout(limit))
    }

    fn extend(self, change: impl FnOnce(StartExtras) -> Result<StartExtras, String>) -> Self {
        let refusal = self
            .ctx
            .shared
            .cell()
            .extend_detached(&self.instance, change);
        if let Err(why) = refusal {
            panic!("detached orchestration: {why}");
        }
        self
    }

    /// Its id.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.instance
    }
}

impl<O: Orchestration> fmt::Debug for Spawned<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawned")
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}
