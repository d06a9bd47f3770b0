//! Answers of the administrative half, and the older trait kept for source compatibility.

use async_trait::async_trait;

use super::ProviderError;
use crate::event::Event;

/// One instance.
#[derive(Debug, Clone)]
pub struct InstanceInfo {
    /// Its id.
    pub instance_id: String,
    /// Handler name.
    pub orchestration_name: String,
    /// Handler version.
    pub orchestration_version: String,
    /// Current execution.
    pub current_execution_id: u64,
    /// Status of the current execution.
    pub status: String,
    /// Result, error text or next input; `None` while running.
    pub output: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub created_at: u64,
    /// Milliseconds since the Unix epoch.
    pub updated_at: u64,
    /// Parent, if it is a child.
    pub parent_instance_id: Option<String>,
}

/// One execution.
#[derive(Debug, Clone)]
pub struct ExecutionInfo {
    /// Its id.
    pub execution_id: u64,
    /// `Running`, `Completed`, `Failed` or `ContinuedAsNew`.
    pub status: String,
    /// Result, error text or next input; `None` while running.
    pub output: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub started_at: u64,
    /// Milliseconds since the Unix epoch; `None` while running.
    pub completed_at: Option<u64>,
    /// Events in its history.
    pub event_count: usize,
}

/// Totals over the store.
#[derive(Debug, Clone, Default)]
pub struct SystemMetrics {
    /// The number of instances in the store.
    pub total_instances: u64,
    /// The number of executions of all instances.
    pub total_executions: u64,
    /// Instances whose current execution runs.
    pub running_instances: u64,
    /// Instances whose current execution completed.
    pub completed_instances: u64,
    /// Instances whose current execution failed.
    pub failed_instances: u64,
    /// The number of events of all executions.
    pub total_events: u64,
}

/// Messages and activities in the queues that no node has claimed.
#[derive(Debug, Clone, Default)]
pub struct QueueDepths {
    /// Orchestrator messages, timers excluded.
    pub orchestrator_queue: usize,
    /// Activities that wait for a worker.
    pub worker_queue: usize,
    /// Timers that are not due yet.
    pub timer_queue: usize,
}

/// Which instances; criteria are combined with "and".
#[derive(Debug, Clone, Default)]
pub struct InstanceFilter {
    /// Only these; an empty list selects nothing.
    pub instance_ids: Option<Vec<String>>,
    /// Only those whose current execution ended before this time, in milliseconds since the Unix epoch.
    pub completed_before: Option<u64>,
    /// Largest number of instances; 1000 if not given.
    pub limit: Option<u32>,
}

/// Which executions to prune; criteria are combined with "and".
#[derive(Debug, Clone, Default)]
pub struct PruneOptions {
    /// Keep this many of the newest; the current one is always kept.
    pub keep_last: Option<u32>,
    /// Only those that ended before this time, in milliseconds since the Unix epoch.
    pub completed_before: Option<u64>,
}

/// What a deletion removed.
#[derive(Debug, Clone, Default)]
pub struct DeleteInstanceResult {
    /// Instances that existed and are gone.
    pub instances_deleted: u64,
    /// Their executions.
    pub executions_deleted: u64,
    /// Their events.
    pub events_deleted: u64,
    /// Their messages, both queues.
    pub queue_messages_deleted: u64,
}

/// What a pruning removed.
#[derive(Debug, Clone, Default)]
pub struct PruneResult {
    /// Instances looked at.
    pub instances_processed: u64,
    /// Executions removed.
    pub executions_deleted: u64,
    /// Events removed.
    pub events_deleted: u64,
}

/// An instance and all its descendants.
#[derive(Debug, Clone)]
pub struct InstanceTree {
    /// The instance at the top of the tree.
    pub root_id: String,
    /// Root first.
    pub all_ids: Vec<String>,
}

impl InstanceTree {
    /// Whether there are no descendants.
    #[must_use]
    pub fn is_root_only(&self) -> bool {
        self.all_ids.len() == 1
    }

    /// Number of instances.
    #[must_use]
    pub fn size(&self) -> usize {
        self.all_ids.len()
    }
}

/// A message that the store or the runtime dead-lettered: it did not decode, or it was tried too often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its number.
    pub id: u64,
    /// `orchestrator` or `worker`.
    pub queue: String,
    /// Instance it was addressed to, if known.
    pub instance_id: Option<String>,
    /// The message as it was stored.
    pub payload: String,
    /// The reason why it was dead-lettered.
    pub reason: String,
    /// Time at which it was dead-lettered, in milliseconds since the Unix epoch.
    pub dead_lettered_at_ms: u64,
}

/// The older administrative trait. Nothing uses it; it stays so that code naming it compiles.
#[async_trait]
pub trait ManagementProvider: Send + Sync {
    /// All instances.
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        Ok(Vec::new())
    }

    /// Instances with this status.
    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        let _ = status;
        Ok(Vec::new())
    }

    /// Executions of an instance.
    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        let _ = instance;
        Ok(vec![1])
    }

    /// History of one execution.
    async fn read_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        let _ = (instance, execution_id);
        Err(not_supported("read_execution"))
    }

    /// The highest execution id.
    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        let _ = instance;
        Ok(1)
    }

    /// One instance.
    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        let _ = instance;
        Err(not_supported("get_instance_info"))
    }

    /// One execution.
    async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ProviderError> {
        let _ = (instance, execution_id);
        Err(not_supported("get_execution_info"))
    }

    /// Totals over the store.
    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        Ok(SystemMetrics::default())
    }

    /// What waits in the queues.
    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        Ok(QueueDepths::default())
    }
}

fn not_supported(operation: &str) -> ProviderError {
    ProviderError::permanent(operation, "not supported")
}
