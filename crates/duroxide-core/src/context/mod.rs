//! What authors call from an orchestration. One file per family of calls; every call only asks, replay decides.

mod activities;
mod attempts;
mod call;
mod cancellation;
mod child;
mod child_attempts;
mod children;
mod combinators;
mod continue_as_new;
mod events;
mod given;
mod in_place;
mod join_all;
mod kv;
mod labels;
mod messages;
mod patches;
mod receive;
mod requests;
mod saga;
mod scopes;
mod shielding;
mod start;
mod status;
mod system;
mod timers;
mod trace;
mod trying;
mod values;

use std::fmt;
use std::sync::Arc;

use crate::durable::{Cell, Identity, Shared};
use crate::event::Event;
use crate::provider::SystemStats;

pub use activities::ActivityOptions;
pub use call::Call;
pub use child::{Child, ParentClose};
pub use combinators::{Either2, Either3};
pub use in_place::Run;
#[doc(hidden)]
pub use messages::AwaitedEnd;
#[doc(hidden)]
pub use requests::{
    AskMessage, KeptReply, ReplyCount, is_reserved_key, reply_count_key, reply_key, request_queue,
    view_key,
};
pub use requests::{REPLIES_MAX, Request, Requests};
pub use saga::{Saga, SagaError};
pub use scopes::Cancelled;
pub use start::Spawned;
pub use values::CONTINUE_AS_NEW_EVENTS;

/// The interface between an orchestration and the runtime.
///
/// Clones share one state. Every `schedule_*` call takes effect when it is made, in call order; awaiting only observes.
///
/// ```
/// use duroxide::OrchestrationContext;
///
/// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
///     ctx.trace_info("only when this happens for the first time");
///     let one = ctx.schedule_activity("greet", input);
///     let two = ctx.schedule_activity("greet", "everybody else");
///     let (one, two) = ctx.join2(one, two).await;
///     Ok(format!("{} {}", one?, two?))
/// }
/// ```
#[derive(Clone)]
pub struct OrchestrationContext {
    shared: Arc<Shared>,
}

impl OrchestrationContext {
    /// A context of its own, outside any runtime: calls are collected and nothing ever answers. For tests of helpers.
    #[must_use]
    pub fn new(
        _history: Vec<Event>,
        execution_id: u64,
        instance_id: String,
        orchestration_name: String,
        orchestration_version: String,
        _worker_id: Option<String>,
    ) -> Self {
        let identity = Identity {
            instance_id,
            execution_id,
            name: orchestration_name,
            version: orchestration_version,
        };
        let cell = Cell {
            replaying: true,
            ..Cell::default()
        };
        Self::of(Arc::new(Shared::of_nobody(identity, cell)))
    }

    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The id of this instance.
    #[must_use]
    pub fn instance_id(&self) -> String {
        self.shared.identity.instance_id.clone()
    }

    /// The execution: 1, and one more after each continue-as-new and each retry of the failed instance by an operator.
    /// Code that a retry replays gets the number of the execution that it ran in first.
    #[must_use]
    pub fn execution_id(&self) -> u64 {
        self.shared.cell().shown.execution_id
    }

    /// Registered name of the handler.
    #[must_use]
    pub fn orchestration_name(&self) -> String {
        self.shared.identity.name.clone()
    }

    /// Version of the handler.
    #[must_use]
    pub fn orchestration_version(&self) -> String {
        self.shared.identity.version.clone()
    }

    /// Whether the code is being fed events that were recorded before this turn.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        self.shared.cell().replaying
    }

    /// Whether traces are emitted at this point: not while replaying.
    #[must_use]
    pub fn is_logging_enabled(&self) -> bool {
        !self.is_replaying()
    }

    /// Always `None`: sizes of a history are not the same in every replay. Ask a client instead.
    #[must_use]
    pub fn get_system_stats(&self) -> Option<SystemStats> {
        None
    }
}

impl fmt::Debug for OrchestrationContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrchestrationContext")
            .field("instance_id", &self.shared.identity.instance_id)
            .field("execution_id", &self.shared.identity.execution_id)
            .field("orchestration_name", &self.shared.identity.name)
            .field("orchestration_version", &self.shared.identity.version)
            .finish_non_exhaustive()
    }
}
