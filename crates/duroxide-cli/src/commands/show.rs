//! One instance: what it is, how its time was spent, its key-values.

use std::collections::BTreeMap;

use duroxide_core::provider::{ExecutionInfo, InstanceInfo};
use duroxide_core::{Event, EventKind, StartExtras};
use duroxide_runtime::client::Client;
use serde_json::json;

use super::words;
use crate::args::KvArgs;
use crate::failure::Failure;
use crate::filter;
use crate::instance;
use crate::output::{Output, Rows, ago, shorten, span, time};

/// How wide the bars of a timeline are, in characters.
const BAR: usize = 24;
/// How much of a payload is shown.
const PAYLOAD: usize = 200;
/// How much of an event's words a timeline shows.
const WORDS: usize = 60;

pub(crate) async fn run(client: &Client, output: &Output, id: &str) -> Result<(), Failure> {
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
    timeline(output, &history)
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

/// One line per thing that took time or happened, with a bar for its share of the whole.
fn timeline(output: &Output, history: &[Event]) -> Result<(), Failure> {
    let (Some(first), Some(last)) = (history.first(), history.last()) else {
        return Ok(());
    };
    let begin = first.timestamp_ms;
    let whole = last.timestamp_ms.saturating_sub(begin).max(1);
    let answers: BTreeMap<u64, &Event> = history
        .iter()
        .filter_map(|event| event.source_event_id.map(|source| (source, event)))
        .collect();
    let mut rows = Rows::new(&["EVENT", "AT", "TOOK", "TIMELINE", "WHAT"]);
    for event in history {
        if event.source_event_id.is_some() {
            continue;
        }
        let at = event.timestamp_ms.saturating_sub(begin);
        let answer = answers.get(&event.event_id);
        let end = match (answer, takes_time(event)) {
            (Some(answer), _) => answer.timestamp_ms.saturating_sub(begin),
            (None, true) => whole,
            (None, false) => at,
        };
        let took = match (answer, takes_time(event)) {
            (Some(_), _) => span(end.saturating_sub(at)),
            (None, true) => "open".to_owned(),
            (None, false) => String::new(),
        };
        let mut what = words::of(event);
        if let Some(answer) = answer {
            what = format!("{}; {}", shorten(&what, WORDS), words::of(answer));
        }
        rows.push([
            event.event_id.to_string(),
            format!("+{}", span(at)),
            took,
            bar(at, end, whole),
            shorten(&what, 2 * WORDS),
        ]);
    }
    output.table(rows)
}

fn takes_time(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::ActivityScheduled { .. }
            | EventKind::TimerCreated { .. }
            | EventKind::SubOrchestrationScheduled { .. }
    )
}

/// From `at` to `end` of the whole.
fn bar(at: u64, end: u64, whole: u64) -> String {
    let place = |ms: u64| {
        let share = u128::from(ms) * BAR as u128 / u128::from(whole);
        usize::try_from(share).unwrap_or(BAR).min(BAR)
    };
    let begin = place(at).min(BAR - 1);
    let end = place(end).max(begin + 1);
    let (before, after) = (begin, BAR - end);
    format!(
        "{}{}{}",
        "·".repeat(before),
        "█".repeat(end - begin),
        "·".repeat(after)
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_which_part_of_the_whole_it_is() {
        assert_eq!(bar(0, 100, 100), "█".repeat(BAR));
        assert_eq!(
            bar(50, 100, 100),
            format!("{}{}", "·".repeat(12), "█".repeat(12))
        );
        assert_eq!(bar(100, 100, 100).chars().filter(|c| *c == '█').count(), 1);
    }
}
