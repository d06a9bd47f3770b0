//! One line of an export. In: what a store holds of an instance. Out: a line that people and `jq` can read, and that
//! `import` makes a snapshot of again. Events and messages stand in it as JSON and not as text; what is no JSON stands
//! in it as it is.

use duroxide_core::provider::{InstanceSnapshot, InstanceStatus, InstanceSummary};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;

/// The version of the lines. Those of format 1 had no queues.
pub(crate) const FORMAT: u32 = 2;

/// A line as it is written.
#[derive(Debug, Serialize)]
pub(crate) struct Written {
    format: u32,
    instance_id: String,
    #[serde(flatten)]
    summary: Option<Value>,
    executions: Vec<Value>,
    key_values: Map<String, Value>,
    snapshot: Value,
    digest: String,
    /// Nodes ran while it was exported.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    beside_nodes: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A line as it is read.
#[derive(Debug, Deserialize)]
struct Read {
    format: u32,
    #[serde(default)]
    instance_id: Option<String>,
    #[serde(default)]
    executions: Vec<Value>,
    snapshot: Option<Value>,
    digest: Option<String>,
    #[serde(default)]
    beside_nodes: bool,
}

/// What a line says.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) snapshot: InstanceSnapshot,
    /// Nodes ran while it was exported.
    pub(crate) beside_nodes: bool,
}

/// The fields of `list`, as the snapshot has them; `None` for an instance that has not begun.
fn summary_of(snapshot: &InstanceSnapshot) -> Option<InstanceSummary> {
    let record = snapshot.record.as_ref()?;
    let current = snapshot.current();
    let version = record.version.as_deref().unwrap_or("unknown");
    let mut summary = InstanceSummary::new(&snapshot.instance_id, &record.name, version);
    let status = current.and_then(|it| it.status.as_deref());
    summary.status = InstanceStatus::of_stored(status.unwrap_or("Unknown"));
    summary.custom_status.clone_from(&record.custom_status);
    summary.execution_id = record.execution_id;
    summary.created_at_ms = record.created_at_ms;
    summary.updated_at_ms = record.updated_at_ms;
    summary.ended_at_ms = current.and_then(|it| it.ended_at_ms);
    summary.paused_at_ms = record.paused_at_ms;
    summary.parent.clone_from(&record.parent);
    summary.labels.clone_from(&record.labels);
    summary.memo = snapshot.memo();
    summary.event_count = current.map_or(0, |it| it.events.len() as u64);
    Some(summary)
}

impl Written {
    /// `error` says what of it cannot be read.
    pub(crate) fn of(
        snapshot: &InstanceSnapshot,
        beside_nodes: bool,
        error: Option<String>,
    ) -> Result<Self, Failure> {
        let mut plain = readable(snapshot)?;
        let mut executions = Vec::new();
        // Histories stand where tools look for them, and only there.
        for execution in list(&mut plain, "executions") {
            let events = execution.get_mut("events").map(Value::take);
            let mut shown = execution.clone();
            if let Some(shown) = shown.as_object_mut() {
                shown.remove("events");
                shown.insert("history".to_owned(), history(events));
            }
            if let Some(execution) = execution.as_object_mut() {
                execution.remove("events");
            }
            executions.push(shown);
        }
        let summary = summary_of(snapshot);
        let mut summary = summary.map(serde_json::to_value).transpose()?;
        if let Some(summary) = summary.as_mut().and_then(Value::as_object_mut) {
            summary.remove("instance_id");
        }
        Ok(Self {
            format: FORMAT,
            instance_id: snapshot.instance_id.clone(),
            summary,
            executions,
            key_values: values(snapshot),
            snapshot: plain,
            digest: digest(snapshot)?,
            beside_nodes,
            error,
        })
    }
}

fn list<'v>(value: &'v mut Value, name: &str) -> impl Iterator<Item = &'v mut Value> {
    let list = value.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

/// The events themselves; what is none keeps its number beside it.
fn history(events: Option<Value>) -> Value {
    let Some(Value::Array(events)) = events else {
        return Value::Array(Vec::new());
    };
    let event = |record: Value| match record.get("json") {
        Some(event @ Value::Object(_)) if event.get("event_id") == record.get("id") => {
            event.clone()
        }
        _ => json!({ "unreadable": record }),
    };
    Value::Array(events.into_iter().map(event).collect())
}

/// Key-values as the instance's readers see them.
fn values(snapshot: &InstanceSnapshot) -> Map<String, Value> {
    let mut values = Map::new();
    for one in snapshot
        .key_values
        .iter()
        .chain(&snapshot.key_value_changes)
    {
        match &one.value {
            Some(value) => values.insert(one.key.clone(), Value::String(value.clone())),
            None => values.remove(&one.key),
        };
    }
    values
}

/// The snapshot of a line.
pub(crate) fn read(line: &str) -> Result<Line, String> {
    let read: Read = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let id = read.instance_id.unwrap_or_default();
    match read.format {
        FORMAT => {}
        1 => {
            return Err(format!(
                "`{}` was exported in format 1, which has no queues; export it again with this version",
                id.escape_debug()
            ));
        }
        other => {
            return Err(format!(
                "format {other} is not known here; use a newer version"
            ));
        }
    }
    let mut plain = read.snapshot.ok_or("it has no snapshot")?;
    let mut histories = read.executions.into_iter();
    for execution in list(&mut plain, "executions") {
        let mut history = histories.next().unwrap_or_default();
        if history.get("execution_id") != execution.get("execution_id") {
            return Err("its executions and their histories do not fit".to_owned());
        }
        let events: Vec<Value> = list(&mut history, "history").map(|it| record(it)).collect();
        if let Some(execution) = execution.as_object_mut() {
            execution.insert("events".to_owned(), Value::Array(events));
        }
    }
    each_text(&mut plain, |text| match text {
        Value::String(_) => {}
        parsed => *parsed = Value::String(parsed.to_string()),
    });
    let snapshot: InstanceSnapshot =
        serde_json::from_value(plain).map_err(|error| error.to_string())?;
    let found = digest(&snapshot).map_err(|error| error.to_string())?;
    if read.digest.as_ref() != Some(&found) {
        return Err(format!(
            "`{}` does not have the digest that stands beside it",
            id.escape_debug()
        ));
    }
    snapshot.check()?;
    Ok(Line {
        snapshot,
        beside_nodes: read.beside_nodes,
    })
}

fn record(event: &Value) -> Value {
    match event.get("unreadable") {
        Some(record) => record.clone(),
        None => json!({ "id": event.get("event_id"), "json": event }),
    }
}

/// A snapshot with its texts parsed, as far as they are JSON objects.
fn readable(snapshot: &InstanceSnapshot) -> Result<Value, Failure> {
    let mut plain = serde_json::to_value(snapshot)?;
    each_text(&mut plain, |text| {
        let parsed = text
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok());
        if let Some(object @ Value::Object(_)) = parsed {
            *text = object;
        }
    });
    Ok(plain)
}

/// The places in a snapshot that hold JSON as text.
fn each_text(plain: &mut Value, mut change: impl FnMut(&mut Value)) {
    for execution in list(plain, "executions") {
        list(execution, "events")
            .filter_map(|it| it.get_mut("json"))
            .for_each(&mut change);
    }
    for queue in ["messages", "activities"] {
        list(plain, queue)
            .filter_map(|it| it.get_mut("json"))
            .for_each(&mut change);
    }
}

/// What tells two snapshots apart. Texts that are JSON count by what they say: the order of their fields does not
/// matter. Of an unreadable message, two things do not count, because not every store keeps them: what waits for it,
/// and a NUL.
pub(crate) fn digest(snapshot: &InstanceSnapshot) -> Result<String, Failure> {
    let mut plain = readable(snapshot)?;
    list(&mut plain, "messages")
        .filter_map(|it| it.get_mut("awaiting")?.as_object_mut())
        .for_each(|awaiting| drop(awaiting.remove("parent")));
    let text = plain.to_string().replace("\\u0000", "\u{fffd}");
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{hex}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide_core::provider::{Awaiting, EventRecord, ExecutionRecord, QueuedMessage};

    fn snapshot() -> InstanceSnapshot {
        let event = |id, json: &str| EventRecord {
            id,
            json: json.to_owned(),
        };
        InstanceSnapshot {
            executions: vec![ExecutionRecord {
                execution_id: 1,
                status: Some("Running".to_owned()),
                events: vec![
                    event(1, r#"{"event_id":1,"b":2,"a":18446744073709551615}"#),
                    event(2, "torn {"),
                ],
                ..ExecutionRecord::default()
            }],
            messages: vec![QueuedMessage {
                json: r#"{"Unknown":{"z":1,"a":"x"}}"#.to_owned(),
                ..QueuedMessage::default()
            }],
            ..InstanceSnapshot::of("an id")
        }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let before = snapshot();
        let line = serde_json::to_string(&Written::of(&before, true, None).unwrap()).unwrap();
        let read = read(&line).unwrap();
        assert!(read.beside_nodes);
        let after = read.snapshot;
        assert_eq!(digest(&after).unwrap(), digest(&before).unwrap());
        assert_eq!(
            after.executions[0].events[1],
            before.executions[0].events[1]
        );
        let number = &after.executions[0].events[0].json;
        assert!(number.contains("18446744073709551615"), "{number}");
    }

    #[test]
    fn what_some_stores_cannot_keep_of_an_unreadable_message_does_not_count() {
        let of = |json: &str, parent: Option<&str>| InstanceSnapshot {
            messages: vec![QueuedMessage {
                json: json.to_owned(),
                awaiting: Some(Awaiting {
                    kind: "StartOrchestration".to_owned(),
                    parent: parent.map(str::to_owned),
                    ..Awaiting::default()
                }),
                ..QueuedMessage::default()
            }],
            ..InstanceSnapshot::of("child")
        };
        let digested = digest(&of("torn \0 {", Some("parent"))).unwrap();
        assert_eq!(digested, digest(&of("torn \u{fffd} {", None)).unwrap());
        assert_ne!(digested, digest(&of("torn  {", None)).unwrap());
    }

    #[test]
    fn a_line_that_was_changed_is_refused() {
        let line = serde_json::to_string(&Written::of(&snapshot(), false, None).unwrap()).unwrap();
        for (old, new) in [
            ("an id", "another"),
            ("\"b\":2", "\"b\":3"),
            ("\"format\":2", "\"format\":3"),
        ] {
            assert!(line.contains(old), "{line}");
            read(&line.replace(old, new)).unwrap_err();
        }
        let old = read(r#"{"format":1,"instance_id":"x"}"#).unwrap_err();
        assert!(old.contains("export it again"), "{old}");
    }
}
