//! Other orchestrations by their definition: children that are awaited, and detached ones that are not.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;

use super::OrchestrationContext;
use super::trying::Stored;
use crate::codec;
use crate::definition::{
    Arguments, Orchestration, OrchestrationError, ToOrchestration, Undecodable,
};
use crate::durable::{CommandKind, OnClose, OperationKind, Resolution, Target};
use crate::event::ErrorDetails;
use crate::future::{DurableFuture, ScheduleKind};
use crate::ids::{SUB_ORCH_AUTO_PREFIX, is_auto_generated_sub_orch_id, uses_reserved_marker};
use crate::label::{Labels, check_label, check_labels};
use crate::start::StartExtras;

/// What becomes of a child when its parent ends, or drops it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ParentClose {
    /// The child is asked to cancel: it ends at once, unless its code watches for the request and puts things right first.
    #[default]
    Request,
    /// The child is terminated: it ends at once, and its code is not asked.
    Cancel,
    /// The child goes on by itself.
    Abandon,
}

impl OrchestrationContext {
    /// Starts a child by its definition and awaits its result. The call takes effect now; what is set on it (id, version, labels,
    /// what happens when the parent ends) must be set before the next `await`.
    ///
    /// A child runs the version that its definition states, or the one that the policy chooses. Once a start is recorded
    /// the record governs: a definition may move on to a later version while parents run.
    ///
    /// # Panics
    ///
    /// When the input does not serialise, which fails the orchestration.
    ///
    /// ```
    /// use duroxide_core::{OrchestrationContext, OrchestrationRef, ParentClose};
    ///
    /// const INVOICE: OrchestrationRef<u64, String> = OrchestrationRef::new("invoice");
    ///
    /// async fn order(ctx: OrchestrationContext, number: u64) -> Result<String, String> {
    ///     let invoice = ctx.child(INVOICE, &number).id(format!("invoice-{number}"));
    ///     let archive = ctx.child(INVOICE, &number).on_parent_close(ParentClose::Abandon);
    ///     drop(archive); // it goes on
    ///     Ok(invoice.await?)
    /// }
    /// ```
    #[track_caller]
    pub fn child<Via, T: ToOrchestration<Via>>(
        &self,
        orchestration: T,
        input: impl Arguments<<T::Orchestration as Orchestration>::Input>,
    ) -> Child<T::Orchestration> {
        let orchestration = orchestration.to_orchestration();
        let input = input.encode().unwrap_or_else(|e| panic!("encode: {e}"));
        let location = Location::caller();
        let operation = OperationKind::Child {
            name: orchestration.name().to_owned(),
            instance: String::new(),
            scheduled_ms: 0,
        };
        let kind = CommandKind::Child {
            target: target(&orchestration),
            instance: None,
            input,
            labels: Labels::new(),
            extras: StartExtras::default(),
            on_close: OnClose::default(),
        };
        let mut cell = self.shared.deciding(location);
        let slot = cell.call(operation, kind, location);
        cell.operations.get_mut(slot).surfaces_failures = true;
        drop(cell);
        let kind = ScheduleKind::SubOrchestration { token: slot as u64 };
        Child {
            result: DurableFuture::waiting(
                self.shared.clone(),
                slot,
                kind,
                Resolution::into_details,
            ),
            ctx: self.clone(),
            types: PhantomData,
        }
    }

    /// Starts an orchestration that this one does not await, by its definition. It takes effect now; without an id of your own it
    /// gets a generated one.
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
        cell.tell(kind, location);
        drop(cell);
        Spawned {
            ctx: self.clone(),
            instance,
            types: PhantomData,
        }
    }
}

fn target<O: Orchestration>(orchestration: &O) -> Target {
    Target {
        name: orchestration.name().to_owned(),
        version: orchestration.version().map(str::to_owned),
        record_governs: true,
    }
}

/// A child, in flight. Dropping it before it resolved cancels the child, unless it is
/// [abandoned](ParentClose::Abandon).
#[must_use = "dropping a child cancels it; await it, or keep it"]
pub struct Child<O: Orchestration> {
    ctx: OrchestrationContext,
    result: DurableFuture<Stored>,
    types: PhantomData<fn() -> O>,
}

impl<O: Orchestration> Child<O> {
    /// The child's id, instead of one made from its parent's. An id that cannot be used, or is taken, is an `Err` of the child.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        let id = id.into();
        let refusal = if is_auto_generated_sub_orch_id(&id) {
            Some(format!(
                "child id '{id}' begins with the reserved marker '{SUB_ORCH_AUTO_PREFIX}'"
            ))
        } else {
            self.ctx.check_id(&id).err()
        };
        if let Some(why) = refusal {
            self.refuse(why);
            return self;
        }
        self.amend(|kind| {
            if let CommandKind::Child { instance, .. } = kind {
                *instance = Some(id.clone());
            }
        });
        self
    }

    /// Exactly this version, whatever the definition says.
    pub fn version(self, version: impl Into<String>) -> Self {
        let version = version.into();
        self.amend(|kind| {
            if let CommandKind::Child { target, .. } = kind {
                target.version = Some(version.clone());
            }
        });
        self
    }

    /// Gives the child a label, by which queries find it. One that is not fit, or one too many, is an `Err` of the child.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (key.into(), value.into());
        let Some(slot) = self.result.slot() else {
            return self;
        };
        let refusal = check_label(&key, &value).err().or_else(|| {
            let mut cell = self.ctx.shared.cell();
            let Some(CommandKind::Child { mut labels, .. }) = cell.asked(slot) else {
                return None;
            };
            labels.insert(key, value);
            let refusal = check_labels(&labels).err();
            cell.amend(slot, |kind| {
                if let CommandKind::Child { labels: asked, .. } = kind {
                    asked.clone_from(&labels);
                }
            });
            refusal
        });
        if let Some(why) = refusal {
            self.refuse(why);
        }
        self
    }

    /// Gives the child a memo: a small value that lists show and its code reads. One that does not serialise, or is longer than
    /// [`MEMO_BYTES_MAX`](crate::MEMO_BYTES_MAX), is an `Err` of the child.
    pub fn memo<T: Serialize + ?Sized>(self, memo: &T) -> Self {
        self.extend(|extras| extras.with_memo(memo))
    }

    /// How long the child may take, all its executions together, from its first turn on. After that it fails with
    /// [`OrchestrationError::TimedOut`].
    pub fn timeout(self, limit: Duration) -> Self {
        self.extend(|extras| extras.with_timeout(limit))
    }

    fn extend(mut self, change: impl Fn(StartExtras) -> Result<StartExtras, String>) -> Self {
        let Some(slot) = self.result.slot() else {
            return self;
        };
        let mut cell = self.ctx.shared.cell();
        let Some(CommandKind::Child { extras, .. }) = cell.asked(slot) else {
            drop(cell);
            return self;
        };
        let changed = change(extras);
        if let Ok(changed) = &changed {
            cell.amend(slot, |kind| {
                if let CommandKind::Child { extras, .. } = kind {
                    extras.clone_from(changed);
                }
            });
        }
        drop(cell);
        if let Err(why) = changed {
            self.refuse(why);
        }
        self
    }

    /// What becomes of the child when its parent ends or drops it, however the parent ends: by its code, cancelled, terminated, out
    /// of time, or because its code is gone. The children of an instance that is terminated are terminated too, unless they are
    /// abandoned. It is recorded with the child.
    pub fn on_parent_close(self, what: ParentClose) -> Self {
        if let Some(slot) = self.result.slot() {
            let on_close = match what {
                ParentClose::Request => OnClose::Cancel,
                ParentClose::Cancel => OnClose::Terminate,
                ParentClose::Abandon => OnClose::Leave,
            };
            let mut cell = self.ctx.shared.cell();
            cell.amend(slot, |kind| {
                if let CommandKind::Child {
                    on_close: asked, ..
                } = kind
                {
                    *asked = on_close;
                }
            });
            cell.operations.get_mut(slot).on_close = on_close;
        }
        self
    }

    fn amend(&self, change: impl Fn(&mut CommandKind)) {
        if let Some(slot) = self.result.slot() {
            self.ctx.shared.cell().amend(slot, &change);
        }
    }

    /// Takes the request back; the child resolves to this failure instead.
    fn refuse(&mut self, why: String) {
        if let Some(slot) = self.result.slot() {
            self.ctx.shared.cell().take_back(slot);
        }
        let refused = Err(Box::new(ErrorDetails::orchestration_failed(why)));
        self.result = DurableFuture::known(refused, ScheduleKind::SubOrchestration { token: 0 });
    }
}

impl<O: Orchestration> Unpin for Child<O> {}

impl<O: Orchestration> Future for Child<O> {
    type Output = Result<O::Output, OrchestrationError<O::Error>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(cx).map(|stored| {
            let text = stored.map_err(|details| OrchestrationError::of(*details))?;
            codec::decode(&text)
                .map_err(|error| OrchestrationError::Undecodable(Undecodable { text, error }))
        })
    }
}

impl<O: Orchestration> fmt::Debug for Child<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").finish_non_exhaustive()
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
