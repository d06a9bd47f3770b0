//! Children by their definition. The call asks for the child at once; what is set on it afterwards changes what was
//! asked for, before it is recorded.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;

use super::OrchestrationContext;
use super::child_attempts::{Attempts, Rules, attempt_id, outcome};
use super::start::target;
use super::trying::Stored;
use crate::definition::{Arguments, Orchestration, OrchestrationError, Retry, ToOrchestration};
use crate::durable::{CommandKind, OnClose, OperationKind, Resolution};
use crate::event::ErrorDetails;
use crate::future::{DurableFuture, ScheduleKind};
use crate::ids::{SUB_ORCH_AUTO_PREFIX, is_auto_generated_sub_orch_id};
use crate::label::{Labels, check_label, check_labels};
use crate::start::StartExtras;

/// What becomes of a child when its parent ends, or drops it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ParentClose {
    /// The child is asked to cancel: it ends at once, unless its code watches for the request and puts things right
    /// first.
    #[default]
    Request,
    /// The child is terminated: it ends at once, and its code is not asked.
    Cancel,
    /// The child goes on by itself.
    Abandon,
}

impl OrchestrationContext {
    /// Starts a child by its definition and awaits its result. The call takes effect now; what is set on it (id,
    /// version, labels, what happens when the parent ends) must be set before the next `await`.
    ///
    /// A child runs the version that its definition states, or the one that the policy chooses. Once a start is
    /// recorded the record governs: a definition may move on to a later version while parents run.
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
        let kind = CommandKind::Child {
            target: target(&orchestration),
            instance: None,
            input,
            labels: Labels::new(),
            extras: StartExtras::default(),
            on_close: OnClose::default(),
        };
        Child {
            state: State::Asked {
                first: self.ask_child(orchestration.name(), kind, location),
                again: None,
            },
            ctx: self.clone(),
            name: orchestration.name(),
            location,
            types: PhantomData,
        }
    }

    /// Asks for one child, all its failures to be handed to the code.
    pub(super) fn ask_child(
        &self,
        name: &str,
        kind: CommandKind,
        location: &'static Location<'static>,
    ) -> DurableFuture<Stored> {
        let operation = OperationKind::Child {
            name: name.to_owned(),
            instance: String::new(),
            scheduled_ms: 0,
        };
        let on_close = match &kind {
            CommandKind::Child { on_close, .. } => *on_close,
            _ => OnClose::default(),
        };
        let mut cell = self.shared.deciding(location);
        let slot = cell.call(operation, kind, location);
        let asked = cell.operations.get_mut(slot);
        (asked.surfaces_failures, asked.on_close) = (true, on_close);
        drop(cell);
        let kind = ScheduleKind::SubOrchestration { token: slot as u64 };
        DurableFuture::waiting(self.shared.clone(), slot, kind, Resolution::into_details)
    }
}

/// A child, in flight. Dropping it before it resolved cancels the child, unless it is
/// [abandoned](ParentClose::Abandon).
#[must_use = "dropping a child cancels it; await it, or keep it"]
pub struct Child<O: Orchestration> {
    ctx: OrchestrationContext,
    state: State<O>,
    name: &'static str,
    location: &'static Location<'static>,
    types: PhantomData<fn() -> O>,
}

type Answer<O> =
    Result<<O as Orchestration>::Output, OrchestrationError<<O as Orchestration>::Error>>;
type Running<O> = Pin<Box<dyn Future<Output = Answer<O>> + Send>>;

enum State<O: Orchestration> {
    Asked {
        first: DurableFuture<Stored>,
        /// The rules, and what further attempts ask for.
        again: Option<Box<(Rules<O::Error>, CommandKind)>>,
    },
    Trying(Running<O>),
    Done,
}

impl<O: Orchestration> Child<O> {
    /// The child's id, instead of one made from its parent's. An id that cannot be used, or is taken, is an `Err` of
    /// the child.
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
        self.with_room_for_attempts()
    }

    /// Exactly this version, whatever the definition says.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        let version = version.into();
        self.amend(|kind| {
            if let CommandKind::Child { target, .. } = kind {
                target.version = Some(version.clone());
            }
        });
        self
    }

    /// Gives the child a label, by which queries find it. One that is not fit, or one too many, is an `Err` of the
    /// child.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (key.into(), value.into());
        let Some(CommandKind::Child { mut labels, .. }) = self.asked() else {
            return self;
        };
        let unfit = check_label(&key, &value).err();
        labels.insert(key, value);
        if let Some(why) = unfit.or_else(|| check_labels(&labels).err()) {
            self.refuse(why);
            return self;
        }
        self.amend(|kind| {
            if let CommandKind::Child { labels: asked, .. } = kind {
                asked.clone_from(&labels);
            }
        });
        self
    }

    /// Gives the child a memo: a small value that lists show and its code reads. One that does not serialise, or is
    /// longer than [`MEMO_BYTES_MAX`](crate::MEMO_BYTES_MAX), is an `Err` of the child.
    pub fn memo<T: Serialize + ?Sized>(self, memo: &T) -> Self {
        self.extend(|extras| extras.with_memo(memo))
    }

    /// How long the child may take, all its executions together, from its first turn on. After that it fails with
    /// [`OrchestrationError::TimedOut`]. With [`retry`](Self::retry) each attempt has this long.
    pub fn timeout(self, limit: Duration) -> Self {
        self.extend(|extras| extras.with_timeout(limit))
    }

    fn extend(mut self, change: impl Fn(StartExtras) -> Result<StartExtras, String>) -> Self {
        let Some(CommandKind::Child { extras, .. }) = self.asked() else {
            return self;
        };
        match change(extras) {
            Ok(changed) => self.amend(|kind| {
                if let CommandKind::Child { extras, .. } = kind {
                    extras.clone_from(&changed);
                }
            }),
            Err(why) => self.refuse(why),
        }
        self
    }

    /// What becomes of the child when its parent ends or drops it, however the parent ends: by its code, cancelled,
    /// terminated, out of time, or because its code is gone. The children of an instance that is terminated are
    /// terminated too, unless they are abandoned. It is recorded with the child.
    pub fn on_parent_close(mut self, what: ParentClose) -> Self {
        let on_close = match what {
            ParentClose::Request => OnClose::Cancel,
            ParentClose::Cancel => OnClose::Terminate,
            ParentClose::Abandon => OnClose::Leave,
        };
        self.amend(|kind| {
            if let CommandKind::Child { on_close: own, .. } = kind {
                *own = on_close;
            }
        });
        if let Some(slot) = self.slot() {
            let mut cell = self.ctx.shared.cell();
            cell.operations.get_mut(slot).on_close = on_close;
        }
        self
    }

    /// Starts the child again after it failed, as the policy says: a further attempt is another child with the same
    /// input. A child with an id of your own has that id in its first attempt, then `id~2`, `id~3` and so on; without
    /// one each attempt gets an id made from its parent's. The pauses are durable timers.
    ///
    /// An attempt that failed by its own error is tried again if the error is [`Retryable`](crate::Retryable) or does
    /// not say, after a panic and after its own time limit as well; not after it was cancelled, or its code does not
    /// fit. A limit of the policy for one attempt is kept as [`timeout`](Self::timeout) is. When the total limit of the
    /// policy passes, the attempt that runs is dropped and the error is [`OrchestrationError::TimedOut`].
    ///
    /// ```
    /// use duroxide_core::{OrchestrationContext, OrchestrationRef, Retry};
    ///
    /// const IMPORT: OrchestrationRef<String, u64> = OrchestrationRef::new("import");
    ///
    /// async fn nightly(ctx: OrchestrationContext, day: String) -> Result<u64, String> {
    ///     // import-monday, then import-monday~2 and import-monday~3.
    ///     let import = ctx.child(IMPORT, &day).id(format!("import-{day}"));
    ///     Ok(import.retry(Retry::exponential(3)).await?)
    /// }
    /// ```
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        let retry: Retry = retry.into();
        if let Some(limit) = retry.attempt_limit() {
            self = self.timeout(limit);
        }
        let (ctx, location) = (self.ctx.clone(), self.location);
        if let Some(rules) = self.rules() {
            rules.total = retry
                .total_limit()
                .map(|limit| (limit, ctx.set_timer(limit, location)));
            rules.retry = Some(retry);
        }
        self.with_room_for_attempts()
    }

    /// Tries again only after errors for which this holds, beside what the policy and the error itself say. Code that
    /// runs again must answer alike: decide by the error alone.
    pub fn retry_if(mut self, may: impl Fn(&O::Error) -> bool + Send + 'static) -> Self {
        if let Some(rules) = self.rules() {
            rules.retry_if.push(Box::new(may));
        }
        self
    }

    /// Refuses an id that would become too long for the last attempt.
    fn with_room_for_attempts(mut self) -> Self {
        let State::Asked {
            again: Some(again), ..
        } = &self.state
        else {
            return self;
        };
        let attempts = again.0.retry.as_ref().map_or(1, Retry::attempts_max);
        let longest = match &again.1 {
            CommandKind::Child {
                instance: Some(id), ..
            } => Some(attempt_id(id, attempts)),
            _ => None,
        };
        if let Some(Err(why)) = longest.map(|id| self.ctx.check_id(&id)) {
            self.refuse(format!("the id of the last attempt: {why}"));
        }
        self
    }

    fn slot(&self) -> Option<usize> {
        match &self.state {
            State::Asked { first, .. } => first.slot(),
            State::Trying(_) | State::Done => None,
        }
    }

    /// What was asked for, while it can be changed.
    fn asked(&self) -> Option<CommandKind> {
        let slot = self.slot()?;
        self.ctx.shared.cell().asked(slot)
    }

    /// Changes what was asked for, here and for further attempts.
    fn amend(&mut self, change: impl Fn(&mut CommandKind)) {
        let State::Asked { first, again } = &mut self.state else {
            return;
        };
        if let Some(slot) = first.slot() {
            self.ctx.shared.cell().amend(slot, &change);
        }
        if let Some(again) = again {
            change(&mut again.1);
        }
    }

    /// The rules, to be changed.
    fn rules(&mut self) -> Option<&mut Rules<O::Error>> {
        let State::Asked { first, again } = &mut self.state else {
            return None;
        };
        if again.is_none() {
            let slot = first.slot()?;
            let kind = self.ctx.shared.cell().asked(slot)?;
            let mut rules = Rules::default();
            rules.retry_if.push(Box::new(O::is_retryable));
            *again = Some(Box::new((rules, kind)));
        }
        again.as_mut().map(|again| &mut again.0)
    }

    /// Takes the request back; the child resolves to this failure instead, and is not tried again.
    fn refuse(&mut self, why: String) {
        if let Some(slot) = self.slot() {
            self.ctx.shared.cell().take_back(slot);
        }
        let refused = Err(Box::new(ErrorDetails::orchestration_failed(why)));
        self.state = State::Asked {
            first: DurableFuture::known(refused, ScheduleKind::SubOrchestration { token: 0 }),
            again: None,
        };
    }
}

impl<O: Orchestration> Unpin for Child<O> {}

impl<O: Orchestration> Future for Child<O> {
    type Output = Answer<O>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Asked { again: Some(_), .. } = &self.state
            && let State::Asked {
                first,
                again: Some(again),
            } = std::mem::replace(&mut self.state, State::Done)
        {
            let (rules, kind) = *again;
            let attempts = Attempts {
                ctx: self.ctx.clone(),
                name: self.name,
                rules,
                kind,
                location: self.location,
            };
            self.state = State::Trying(Box::pin(attempts.run(first)));
        }
        let polled = match &mut self.state {
            State::Asked { first, .. } => Pin::new(first).poll(cx).map(outcome),
            State::Trying(running) => running.as_mut().poll(cx),
            State::Done => panic!("a child was polled after it had resolved"),
        };
        if polled.is_ready() {
            self.state = State::Done;
        }
        polled
    }
}

impl<O: Orchestration> fmt::Debug for Child<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("orchestration", &self.name)
            .finish_non_exhaustive()
    }
}
