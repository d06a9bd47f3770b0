//! One instance: what it is, how its time was spent, its key-values.

use std::collections::BTreeMap;

use duroxide_core::provider::{ExecutionInfo, InstanceInfo};
use duroxide_core::{Event, StartExtras};
use duroxide_runtime::client::Client;
use serde_json::json;

use super::timeline;
use crate::args::{KvArgs, ShowArgs};
use crate::failure::Failure;
use crate::filter;
use crate::instance;
use crate::output::{Output, Rows, ago, shorten, span, time};

/// How much of a payload is shown.
const PAYLOAD: usize = 200;

pub(crate) async fn run(client: &Client, output: &Output, args: ShowArgs) -> Result<(), Failure> {
    let id = args.id.as_str();
    instance::begun(client, id).await?;
    let info = client.get_instance_info(id).await?;
    let summary = filter::one(client, id).await?;
    let execution = info.current_execution_id;
    let current = client.get_execution_info(id, execution).await?;
    let history = client.read_execution_history(id, execution).await?;
    let children = client.get_instance_tree(id).await?.size() - 1;
    let labels = client.labels(id).await?;
    let began = history.first().map(|first| &first.kind);
    let extras = began.map(StartExtras::recorded_in).unwrap_or_default();
    if output.json {
        let mut document = as_json(&info, &current, children, &history);
        document["labels"] = json!(labels);
        document["custom_status"] = json!(summary.custom_status);
        document["paused_at_ms"] = json!(summary.paused_at_ms);
        document["memo"] = memo(extras.memo.as_deref());
        document["deadline_ms"] = json!(extras.deadline_ms);
        document["traceparent"] = json!(extras.trace.map(|trace| trace.traceparent()));
        return output.document(&document);
    }
    let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
    let labels = labels.map(|pair| ("label", pair));
    let paused = |at: u64| format!("{} ({} ago)", time(at), ago(at));
    let given = [
        summary.paused_at_ms.map(|at| ("paused", paused(at))),
        summary
            .custom_status
            .map(|says| ("says", shorten(&says, PAYLOAD))),
        extras.memo.map(|memo| ("memo", shorten(&memo, PAYLOAD))),
        extras.deadline_ms.map(|at| ("time until", time(at))),
        extras.trace.map(|trace| ("trace", trace.traceparent())),
    ];
    let given = given.into_iter().flatten();
    let facts = facts(&info, &current, children).into_iter();
    for (name, value) in facts.chain(given).chain(labels) {
        output.line(format!("{name:<10} {value}"))?;
    }
    output.raw("\n")?;
    let depth = if args.no_children { 0 } else { args.depth };
    timeline::draw(client, output, (id, history), depth).await
}

/// A memo as a value of its own.
pub(crate) fn memo(json: Option<&str>) -> serde_json::Value {
    let value = json.and_then(|json| serde_json::from_str(json).ok());
    value.unwrap_or_default()
}

fn facts(
    info: &InstanceInfo,
    current: &ExecutionInfo,
    children: usize,
) -> Vec<(&'static str, String)> {
    let at = |ms: u64| format!("{} ({} ago)", time(ms), ago(ms));
    let mut facts = vec![
        ("instance", info.instance_id.clone()),
        (
            "handler",
            format!("{} {}", info.orchestration_name, info.orchestration_version),
        ),
        ("status", info.status.clone()),
        (
            "execution",
            format!("{}, {} events", current.execution_id, current.event_count),
        ),
        ("created", at(info.created_at)),
        ("updated", at(info.updated_at)),
    ];
    if let Some(ended) = current.completed_at {
        let took = span(ended.saturating_sub(current.started_at));
        facts.push(("ended", format!("{}, execution took {took}", time(ended))));
    }
    if let Some(parent) = &info.parent_instance_id {
        facts.push(("parent", parent.clone()));
    }
    if children > 0 {
        facts.push(("children", children.to_string()));
    }
    if let Some(result) = &info.output {
        facts.push(("result", shorten(result, PAYLOAD)));
    }
    facts
}

fn as_json(
    info: &InstanceInfo,
    current: &ExecutionInfo,
    children: usize,
    history: &[Event],
) -> serde_json::Value {
    json!({
        "instance_id": info.instance_id,
        "name": info.orchestration_name,
        "version": info.orchestration_version,
        "status": info.status,
        "execution_id": current.execution_id,
        "event_count": current.event_count,
        "created_at_ms": info.created_at,
        "updated_at_ms": info.updated_at,
        "ended_at_ms": current.completed_at,
        "parent": info.parent_instance_id,
        "descendants": children,
        "output": info.output,
        "history": history,
    })
}

pub(crate) async fn kv(client: &Client, output: &Output, args: KvArgs) -> Result<(), Failure> {
    if let Some(key) = args.key {
        let value = client.get_kv_value(&args.id, &key).await?;
        return match (value, output.json) {
            (None, _) => Err(Failure::NotFound(format!("{} has no key {key}", args.id))),
            (Some(value), true) => output.document(&value),
            (Some(value), false) => output.payload(&value),
        };
    }
    client.get_instance_info(&args.id).await?;
    let values: BTreeMap<_, _> = client
        .get_kv_all_values(&args.id)
        .await?
        .into_iter()
        .collect();
    if output.json {
        return output.document(&values);
    }
    let mut rows = Rows::new(&["KEY", "VALUE"]);
    for (key, value) in values {
        rows.push([key, shorten(&value, PAYLOAD)]);
    }
    output.table(rows)
}
