//! The storage contract. A provider stores and hands out; it never interprets an event beyond what is said here.

mod admin;
mod blocked;
mod claim;
mod contract;
pub mod error;
mod handlers;
mod incarnation;
mod key_values;
mod labelling;
pub mod management;
mod nodes;
mod outcome;
mod pause;
mod pending;
mod query;
mod readings;
mod refusal_kind;
mod requeue;
pub mod rules;
mod snapshot;
mod space;
mod status;
mod submission;
mod tags;
mod types;
mod watch;
mod writes;

pub use admin::{ProviderAdmin, walk};
pub use blocked::BlockNote;
pub use claim::{
    CLAIM_BYTES_IN_ALL_MAX, CLAIM_BYTES_MAX, CLAIM_MESSAGES_IN_ALL_MAX, CLAIM_MESSAGES_MAX,
    CLAIM_QUEUE_MESSAGES_MAX, CachedHistories, CachedHistory, ClaimedTurn, ClaimedWork, HandOut,
    TurnClaim, TurnHistory, WorkClaim,
};
pub use contract::Provider;
pub use error::ProviderError;
pub use handlers::{HandlerKind, OrchestrationHandlers, ReadyWork};
pub use incarnation::Incarnation;
pub use key_values::fold_key_values;
pub use labelling::Labelling;
pub use management::{
    DeadLetter, DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree,
    ManagementProvider, PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};
pub use nodes::{BlockedInstance, HeldActivity, NodeInfo, NodeTerm, SeenNode};
pub use outcome::{InstanceOutcome, OutcomeStatus};
pub use pause::Pausing;
pub use pending::{PendingActivity, PendingMessage, PendingWork};
pub use query::{
    CountBy, InstanceCount, InstanceQuery, InstanceSort, InstanceStatus, InstanceSummary, Listed,
    PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, Page, PageCursor, PagePosition, SortKey, SortOrder,
    TimeRange, WaitingFor,
};
pub use readings::StoreReadings;
pub use refusal_kind::RefusalKind;
pub use requeue::{DeadLetterOrigin, Requeue};
pub use snapshot::{
    Awaiting, Closing, DeadLetterRecord, EventRecord, ExecutionRecord, HeartbeatRecord, HeldIds,
    InstanceRecord, InstanceSnapshot, KeyValueRecord, QueuedActivity, QueuedMessage, Restoring,
    StoredIncarnation,
};
pub use space::GivenBack;
pub use status::ExecutionStatus;
pub use submission::{IdState, MessageRule, StartRule, Step, Submission, Submitted};
pub use tags::TagFilter;
pub use types::{
    ExecutionMetadata, KvEntry, OrchestrationItem, ScheduledActivityIdentifier, SessionFetchConfig,
    SystemStats,
};
pub use watch::InstanceWatch;
pub use writes::TurnWrites;

pub use crate::limits::MAX_WORKER_TAGS;
pub use crate::version::{DispatcherCapabilityFilter, SemverRange, current_build_version};
pub use crate::work_item::WorkItem;
