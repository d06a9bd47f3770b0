//! Totals of a store.

use duroxide_core::provider::{CountBy, HandlerKind, InstanceQuery, ReadyWork};
use duroxide_runtime::client::Client;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{Output, Rows, ago};

/// How many handlers with ready work are shown.
const HANDLERS: u32 = 20;

pub(crate) async fn run(client: &Client, output: &Output) -> Result<(), Failure> {
    let all = InstanceQuery::new();
    let by_status = client.count_instances(&all, CountBy::Status).await?;
    let metrics = client.get_system_metrics().await?;
    let depths = client.get_queue_depths().await?;
    let ready = client.list_ready_work(HANDLERS).await?.unwrap_or_default();
    let letters = client.count_dead_letters().await?;
    let closed = client.closed_because().await?;
    if output.json {
        let ready: Vec<_> = ready.iter().map(ready_as_json).collect();
        return output.document(&json!({
            "instances": metrics.total_instances,
            "by_status": by_status,
            "executions": metrics.total_executions,
            "events": metrics.total_events,
            "orchestrator_queue": depths.orchestrator_queue,
            "worker_queue": depths.worker_queue,
            "timers": depths.timer_queue,
            "dead_letters": letters,
            "ready": ready,
            "closed": closed,
        }));
    }
    output.line(format!("instances     {}", metrics.total_instances))?;
    for one in by_status {
        output.line(format!("  {:<11} {}", one.key.to_lowercase(), one.count))?;
    }
    output.line(format!("executions    {}", metrics.total_executions))?;
    output.line(format!("events        {}", metrics.total_events))?;
    output.line(format!("messages      {}", depths.orchestrator_queue))?;
    output.line(format!("activities    {}", depths.worker_queue))?;
    output.line(format!("timers        {}", depths.timer_queue))?;
    output.line(format!("dead letters  {letters}"))?;
    if let Some(reason) = closed {
        output.line(format!("closed        {reason}"))?;
    }
    if ready.is_empty() {
        return Ok(());
    }
    output.raw("\nready and not claimed\n")?;
    let mut rows = Rows::new(&["COUNT", "KIND", "NAME", "VERSION", "OLDEST"]);
    for work in ready {
        rows.push([
            work.count.to_string(),
            kind(&work).to_owned(),
            work.name,
            work.version.unwrap_or_default(),
            ago(work.ready_since_ms),
        ]);
    }
    output.table(rows)
}

/// Ready work of one handler as data.
pub(super) fn ready_as_json(work: &ReadyWork) -> serde_json::Value {
    json!({ "kind": kind(work), "name": work.name, "version": work.version,
            "count": work.count, "ready_since_ms": work.ready_since_ms })
}

fn kind(work: &ReadyWork) -> &'static str {
    match work.kind {
        HandlerKind::Orchestration => "orchestration",
        HandlerKind::Activity => "activity",
    }
}
