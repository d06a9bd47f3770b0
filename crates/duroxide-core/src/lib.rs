//! Words and rules of Duroxide.
//!
//! Events, work items, the storage contract, what authors call, and replay. No async runtime, no randomness, no I/O;
//! time is handed in.

mod action;
mod arrivals;
mod attempt;
pub mod clock;
pub mod codec;
mod combine;
mod context;
#[doc(hidden)]
pub mod defect;
mod definition;
mod durable;
pub mod event;
mod future;
mod handler;
mod ids;
#[doc(hidden)]
pub mod kill;
mod label;
pub mod limits;
mod message;
pub mod provider;
pub mod replay;
mod retry;
pub mod rewind;
mod rewound;
mod start;
mod trace_context;
mod version;
mod waits;
mod work_item;

pub use action::Action;
pub use attempt::{AttemptLimits, CallOrigin, attempt_of, trace_of};
pub use context::{
    ActivityOptions, CONTINUE_AS_NEW_EVENTS, Call, Cancelled, Child, Either2, Either3,
    OrchestrationContext, ParentClose, REPLIES_MAX, Request, Requests, Run, Saga, SagaError,
    Spawned,
};
#[doc(hidden)]
pub use context::{
    AskMessage, AwaitedEnd, KeptReply, ReplyCount, is_reserved_key, reply_count_key, reply_key,
    request_queue, view_key,
};
#[doc(hidden)]
pub use definition::Misfit;
pub use definition::{
    Activity, ActivityError, ActivityRef, Arguments, Body, Elapsed, Inputs, Itself, Orchestration,
    OrchestrationError, OrchestrationRef, Payload, Retry, Retryable, Timeout, ToActivity,
    ToOrchestration, Undecodable,
};
pub use event::{
    AppErrorKind, BUILD_VERSION, ConfigErrorKind, ErrorDetails, Event, EventKind, PoisonMessageType,
};
pub use future::{DurableFuture, ScheduleKind};
pub use handler::{FnOrchestration, OrchestrationBody, OrchestrationHandler, TypedOrchestration};
pub use ids::{
    INITIAL_EVENT_ID, INITIAL_EXECUTION_ID, SUB_ORCH_AUTO_PREFIX, build_child_instance_id,
    check_instance_id, is_auto_generated_sub_orch_id, uses_reserved_marker,
};
pub use label::{
    LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX, LabelChange, Labels, check_label,
    check_labels, is_label_key, label_changes, labelled_input, labels_after, labels_of_input,
};
#[doc(hidden)]
pub use label::{LABELS_QUEUE, carried_labels, labels_at_birth, recorded_label_key};
#[doc(hidden)]
pub use message::{KEYS_QUEUE, check_queue_name, is_engine_queue, is_start_queue, unfit_key};
pub use message::{
    MESSAGE_KEY_BYTES_MAX, MESSAGE_KEYS_MAX, RESERVED_QUEUE_PREFIX, Undelivered, keyed_message,
    message_parts, plain_message,
};
pub use provider::SystemStats;
pub use retry::{BackoffStrategy, RetryPolicy};
#[doc(hidden)]
pub use rewound::REWIND_QUEUE;
pub use rewound::Rewound;
#[doc(hidden)]
pub use start::START_QUEUE;
pub use start::{MEMO_BYTES_MAX, REQUEST_ID_BYTES_MAX, StartExtras, memo_at_birth};
pub use trace_context::{TRACESTATE_BYTES_MAX, TraceContext};
pub use waits::{OpenWait, WaitKind, open_waits};
pub use work_item::{
    TERMINATE_PREFIX, WorkItem, reason_from_parent, sent_by_parent, termination_reason,
};
