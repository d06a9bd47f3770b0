//! Histories that the published crate recorded, and those of each feature of this one: the store keeps every event as
//! it was.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use duroxide_core::event::Event;
use duroxide_core::provider::Provider;
use serde_json::Value;

use crate::support::Schema;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "json") {
            found.push(path);
        }
    }
}

/// The executions of every instance in a file.
fn instances(case: &Value) -> HashMap<String, Vec<Vec<Event>>> {
    let executions = |all: &Value| -> Vec<Vec<Event>> {
        let all = all.as_array().cloned().unwrap_or_default();
        all.iter()
            .map(|one| serde_json::from_value(one["events"].clone()).unwrap())
            .collect()
    };
    let mut found = HashMap::new();
    found.insert("root".to_owned(), executions(&case["executions"]));
    for (child, all) in case["children"].as_object().into_iter().flatten() {
        found.insert(child.clone(), executions(all));
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_histories_come_back_as_they_were() {
    let schema = Schema::new();
    let store = schema.open().await;
    let mut all = Vec::new();
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../duroxide-core/tests/histories"
    );
    files(Path::new(folder), &mut all);
    assert!(all.len() >= 20, "{} histories", all.len());
    let mut events = 0;
    for file in all {
        let case: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        for (instance, executions) in instances(&case) {
            let id = format!("{}/{instance}", file.display());
            for (number, history) in (1..).zip(executions) {
                let stored = store.append_with_execution(&id, number, history.clone());
                stored.await.unwrap();
                let read = store.read_with_execution(&id, number).await.unwrap();
                let text = |events: &[Event]| serde_json::to_string(events).unwrap();
                assert_eq!(text(&read), text(&history), "{id} {number}");
                events += history.len();
            }
        }
    }
    assert!(events > 200, "{events} events");
}
