//! Every method of the client, with the published types.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::{
    Client, ClientError, DeleteInstanceResult, Event, ExecutionInfo, InstanceFilter, InstanceInfo,
    InstanceTree, OrchestrationStatus, PruneOptions, PruneResult, QueueDepths, SystemMetrics,
    SystemStats,
};

/// Never runs.
async fn calls_everything(client: Client) -> Result<(), ClientError> {
    let soon = Duration::from_secs(1);
    client.start_orchestration("i", "o", "in").await?;
    client
        .start_orchestration_versioned("i", "o", "1.0.0", "in")
        .await?;
    client.start_orchestration_typed("i", "o", 1).await?;
    client
        .start_orchestration_versioned_typed("i", "o", "1.0.0", 1)
        .await?;
    client.raise_event("i", "e", "data").await?;
    client.raise_event_typed("i", "e", &1).await?;
    client.enqueue_event("i", "q", "data").await?;
    client.enqueue_event_typed("i", "q", &1).await?;
    #[allow(deprecated, reason = "the older name must stay")]
    client.raise_event_persistent("i", "q", "data").await?;
    client.cancel_instance("i", "reason").await?;

    let _: OrchestrationStatus = client.get_orchestration_status("i").await?;
    match client.wait_for_orchestration("i", soon).await? {
        OrchestrationStatus::NotFound => {}
        OrchestrationStatus::Running {
            custom_status: None,
            custom_status_version: 0,
        } => {}
        OrchestrationStatus::Running { .. } => {}
        OrchestrationStatus::Completed {
            output,
            custom_status: _,
            custom_status_version: _,
        } => drop(output),
        OrchestrationStatus::Failed {
            details,
            custom_status: _,
            custom_status_version: _,
        } => drop(details),
    }
    let _: Result<u32, String> = client.wait_for_orchestration_typed("i", soon).await?;
    let _: OrchestrationStatus = client.wait_for_status_change("i", 1, soon, soon).await?;

    let _: Option<String> = client.get_kv_value("i", "k").await?;
    let _: Option<u32> = client.get_kv_value_typed("i", "k").await?;
    let _: HashMap<String, String> = client.get_kv_all_values("i").await?;
    let _: String = client.wait_for_kv_value("i", "k", soon).await?;
    let _: u32 = client.wait_for_kv_value_typed("i", "k", soon).await?;

    let _: bool = client.has_management_capability();
    let _: Vec<String> = client.list_all_instances().await?;
    let _: Vec<String> = client.list_instances_by_status("Running").await?;
    let _: InstanceInfo = client.get_instance_info("i").await?;
    let _: ExecutionInfo = client.get_execution_info("i", 1).await?;
    let _: Vec<u64> = client.list_executions("i").await?;
    let _: Vec<Event> = client.read_execution_history("i", 1).await?;
    let _: SystemMetrics = client.get_system_metrics().await?;
    let _: QueueDepths = client.get_queue_depths().await?;
    let _: InstanceTree = client.get_instance_tree("i").await?;
    let _: Option<SystemStats> = client.get_orchestration_stats("i").await?;
    let _: DeleteInstanceResult = client.delete_instance("i", false).await?;
    let _: DeleteInstanceResult = client
        .delete_instance_bulk(InstanceFilter::default())
        .await?;
    let _: PruneResult = client
        .prune_executions("i", PruneOptions::default())
        .await?;
    let _: PruneResult = client
        .prune_executions_bulk(InstanceFilter::default(), PruneOptions::default())
        .await?;
    Ok(())
}

#[tokio::test]
async fn client_calls_can_be_spawned() {
    fn is_send<T: Send>(_: &T) {}
    let store: Arc<dyn Provider> = Arc::new(duroxide::providers::memory::MemoryProvider::new());
    let client = Client::new(store);
    is_send(&calls_everything(client.clone()));
    assert!(client.has_management_capability());
}
