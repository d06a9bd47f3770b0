//! The stored format: what is written, byte for byte, and what is understood.

use std::collections::BTreeSet;
use std::path::Path;

use duroxide_core::provider::InstanceSnapshot;
use duroxide_core::{AppErrorKind, ErrorDetails, Event, EventKind, PoisonMessageType, WorkItem};
use serde_json::Value;

/// Every kind of event, as it is stored.
const KINDS: [&str; 32] = [
    r#""type":"OrchestrationStarted","name":"n","version":"1.0.0","input":"x","parent_instance":null,"parent_id":null"#,
    r#""type":"OrchestrationStarted","name":"n","version":"1.0.0","input":"x","parent_instance":"p","parent_id":2,"parent_execution_id":1,"carry_forward_events":[["q","d"],["r","e"]],"initial_custom_status":"c""#,
    r#""type":"OrchestrationCompleted","output":"o""#,
    r#""type":"OrchestrationFailed","details":{"Application":{"kind":"OrchestrationFailed","message":"bad","retryable":false}}"#,
    r#""type":"OrchestrationFailed","details":{"Application":{"kind":{"Cancelled":{"reason":"r"}},"message":"","retryable":false}}"#,
    r#""type":"OrchestrationFailed","details":{"Configuration":{"kind":"Nondeterminism","resource":"","message":"m"}}"#,
    r#""type":"OrchestrationContinuedAsNew","input":"x""#,
    r#""type":"OrchestrationCancelRequested","reason":"r""#,
    r#""type":"OrchestrationChained","name":"n","instance":"i","input":"x""#,
    r#""type":"ActivityScheduled","name":"n","input":"x""#,
    r#""type":"ActivityScheduled","name":"n","input":"x","session_id":"se","tag":"gpu""#,
    r#""type":"ActivityCompleted","result":"r""#,
    r#""type":"ActivityFailed","details":{"Application":{"kind":"ActivityFailed","message":"m","retryable":false}}"#,
    r#""type":"ActivityCancelRequested","reason":"dropped_future""#,
    r#""type":"TimerCreated","fire_at_ms":5"#,
    r#""type":"TimerFired","fire_at_ms":5"#,
    r#""type":"ExternalSubscribed","name":"n""#,
    r#""type":"ExternalEvent","name":"n","data":"d""#,
    r#""type":"ExternalSubscribedCancelled","reason":"r""#,
    r#""type":"ExternalSubscribedPersistent","name":"n""#,
    r#""type":"ExternalEventPersistent","name":"n","data":"d""#,
    r#""type":"ExternalSubscribedPersistentCancelled","reason":"r""#,
    r#""type":"SubOrchestrationScheduled","name":"n","instance":"sub::2","input":"x""#,
    r#""type":"SubOrchestrationCompleted","result":"r""#,
    r#""type":"SubOrchestrationFailed","details":{"Infrastructure":{"operation":"op","message":"m","retryable":true}}"#,
    r#""type":"SubOrchestrationCancelRequested","reason":"r""#,
    r#""type":"CustomStatusUpdated","status":"s""#,
    r#""type":"CustomStatusUpdated","status":null"#,
    r#""type":"KeyValueSet","key":"k","value":"v","last_updated_at_ms":5"#,
    r#""type":"KeyValueCleared","key":"k""#,
    r#""type":"KeyValuesCleared""#,
    r#""type":"ActivityFailed","details":{"Poison":{"attempt_count":11,"max_attempts":10,"message_type":{"Activity":{"instance":"i","execution_id":1,"activity_name":"a","activity_id":2}},"message":"m"}}"#,
];

fn stored(source: &str, kind: &str) -> String {
    format!(
        r#"{{"event_id":7,"source_event_id":{source},"instance_id":"i","execution_id":1,"timestamp_ms":1700000000000,"duroxide_version":"0.1.32",{kind}}}"#
    )
}

#[test]
fn every_event_is_written_as_it_was_read() {
    let mut names = BTreeSet::new();
    for kind in KINDS {
        for source in ["null", "3"] {
            let text = stored(source, kind);
            let event: Event =
                serde_json::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(serde_json::to_string(&event).unwrap(), text);
            let json: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(json["type"], event.kind.wire_name());
            names.insert(event.kind.wire_name());
        }
    }
    assert_eq!(names.len(), 26, "every kind has a sample");
}

#[test]
fn fields_that_older_engines_did_not_write_may_be_missing() {
    let bare = |kind: &str| {
        let text = format!(
            r#"{{"event_id":7,"instance_id":"i","execution_id":1,"timestamp_ms":1,"duroxide_version":"0.1.32",{kind}}}"#
        );
        serde_json::from_str::<Event>(&text).unwrap_or_else(|e| panic!("{text}: {e}"))
    };
    let started = bare(r#""type":"OrchestrationStarted","name":"n","version":"1","input":"x""#);
    assert_eq!(started.source_event_id, None);
    let set = bare(r#""type":"KeyValueSet","key":"k","value":"v""#);
    assert!(matches!(
        set.kind,
        EventKind::KeyValueSet {
            last_updated_at_ms: 0,
            ..
        }
    ));
    let status = bare(r#""type":"CustomStatusUpdated""#);
    assert_eq!(status.kind, EventKind::CustomStatusUpdated { status: None });
}

#[test]
fn unknown_keys_are_ignored_and_unknown_types_are_not() {
    let known = stored(
        "null",
        r#""type":"KeyValuesCleared","since":"0.9","more":{"a":[1]}"#,
    );
    let event: Event = serde_json::from_str(&known).unwrap();
    assert_eq!(event.kind, EventKind::KeyValuesCleared);
    let unknown = stored("null", r#""type":"SomethingElse""#);
    assert!(serde_json::from_str::<Event>(&unknown).is_err());
}

/// Every work item, as it is stored.
const ITEMS: [&str; 16] = [
    r#"{"StartOrchestration":{"instance":"i","orchestration":"o","input":"x","version":null,"parent_instance":null,"parent_id":null,"execution_id":1}}"#,
    r#"{"StartOrchestration":{"instance":"i","orchestration":"o","input":"x","version":"1.0.0","parent_instance":"p","parent_id":2,"parent_execution_id":3,"execution_id":1}}"#,
    r#"{"ActivityExecute":{"instance":"i","execution_id":1,"id":2,"name":"n","input":"x"}}"#,
    r#"{"ActivityExecute":{"instance":"i","execution_id":1,"id":2,"name":"n","input":"x","session_id":"se","tag":"gpu"}}"#,
    r#"{"ActivityCompleted":{"instance":"i","execution_id":1,"id":2,"result":"r"}}"#,
    r#"{"ActivityFailed":{"instance":"i","execution_id":1,"id":2,"details":{"Application":{"kind":"ActivityFailed","message":"m","retryable":false}}}}"#,
    r#"{"TimerFired":{"instance":"i","execution_id":1,"id":2,"fire_at_ms":5}}"#,
    r#"{"ExternalRaised":{"instance":"i","name":"n","data":"d"}}"#,
    r#"{"SubOrchCompleted":{"parent_instance":"p","parent_execution_id":1,"parent_id":2,"result":"r"}}"#,
    r#"{"SubOrchFailed":{"parent_instance":"p","parent_execution_id":1,"parent_id":2,"details":{"Application":{"kind":"Panicked","message":"m","retryable":false}}}}"#,
    r#"{"CancelInstance":{"instance":"i","reason":"r"}}"#,
    r#"{"ContinueAsNew":{"instance":"i","orchestration":"o","input":"x","version":null,"carry_forward_events":[]}}"#,
    r#"{"ContinueAsNew":{"instance":"i","orchestration":"o","input":"x","version":"1.0.0","parent_instance":"p","parent_id":2,"parent_execution_id":1,"carry_forward_events":[["q","d"]],"initial_custom_status":"c"}}"#,
    r#"{"QueueMessage":{"instance":"i","name":"n","data":"d"}}"#,
    r#"{"ActivityFailed":{"instance":"i","execution_id":1,"id":2,"details":{"Poison":{"attempt_count":4,"max_attempts":3,"message_type":{"Orchestration":{"instance":"i","execution_id":1}},"message":"{}"}}}}"#,
    r#"{"ActivityFailed":{"instance":"i","execution_id":1,"id":2,"details":{"Configuration":{"kind":"Nondeterminism","resource":"res","message":null}}}}"#,
];

#[test]
fn every_work_item_is_written_as_it_was_read() {
    let mut names = BTreeSet::new();
    for text in ITEMS {
        let item: WorkItem = serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(serde_json::to_string(&item).unwrap(), text);
        assert!(text.starts_with(&format!("{{\"{}\"", item.kind_name())));
        names.insert(item.kind_name());
    }
    assert_eq!(names.len(), 11, "every item has a sample");
}

#[test]
fn every_option_of_a_work_item_may_be_missing() {
    let texts = [
        r#"{"StartOrchestration":{"instance":"i","orchestration":"o","input":"x","execution_id":1}}"#,
        r#"{"ContinueAsNew":{"instance":"i","orchestration":"o","input":"x"}}"#,
    ];
    for text in texts {
        serde_json::from_str::<WorkItem>(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    assert!(serde_json::from_str::<WorkItem>(r#"{"Unknown":{"instance":"i"}}"#).is_err());
}

#[test]
fn failures_are_stored_and_shown_as_documented() {
    let poison = |message_type, message: &str| ErrorDetails::Poison {
        attempt_count: 4,
        max_attempts: 3,
        message_type,
        message: message.into(),
    };
    let instance = || "i".to_owned();
    let cases = [
        (
            ErrorDetails::Infrastructure {
                operation: "op".into(),
                message: "m".into(),
                retryable: true,
            },
            r#"{"Infrastructure":{"operation":"op","message":"m","retryable":true}}"#,
            "infrastructure:op: m",
        ),
        (
            ErrorDetails::nondeterminism("m"),
            r#"{"Configuration":{"kind":"Nondeterminism","resource":"","message":"m"}}"#,
            "nondeterministic: m",
        ),
        (
            ErrorDetails::Application {
                kind: AppErrorKind::Cancelled { reason: "r".into() },
                message: "m".into(),
                retryable: false,
            },
            r#"{"Application":{"kind":{"Cancelled":{"reason":"r"}},"message":"m","retryable":false}}"#,
            "canceled: r",
        ),
        (
            ErrorDetails::panicked("m"),
            r#"{"Application":{"kind":"Panicked","message":"m","retryable":false}}"#,
            "orchestration panicked: m",
        ),
        (
            ErrorDetails::activity_failed("m"),
            r#"{"Application":{"kind":"ActivityFailed","message":"m","retryable":false}}"#,
            "m",
        ),
        (
            poison(
                PoisonMessageType::Orchestration {
                    instance: instance(),
                    execution_id: 1,
                },
                "{}",
            ),
            r#"{"Poison":{"attempt_count":4,"max_attempts":3,"message_type":{"Orchestration":{"instance":"i","execution_id":1}},"message":"{}"}}"#,
            "poison: orchestration i exceeded 4 attempts (max 3)",
        ),
        (
            poison(
                PoisonMessageType::Activity {
                    instance: instance(),
                    execution_id: 1,
                    activity_name: "a".into(),
                    activity_id: 2,
                },
                "m",
            ),
            r#"{"Poison":{"attempt_count":4,"max_attempts":3,"message_type":{"Activity":{"instance":"i","execution_id":1,"activity_name":"a","activity_id":2}},"message":"m"}}"#,
            "poison: activity a#2 exceeded 4 attempts (max 3)",
        ),
        (
            poison(
                PoisonMessageType::FailedDeserialization {
                    instance: instance(),
                    execution_id: 1,
                    error: "e".into(),
                },
                "m",
            ),
            r#"{"Poison":{"attempt_count":4,"max_attempts":3,"message_type":{"FailedDeserialization":{"instance":"i","execution_id":1,"error":"e"}},"message":"m"}}"#,
            "poison: orchestration i history deserialization failed after 4 attempts (max 3): e",
        ),
    ];
    for (details, text, shown) in cases {
        assert_eq!(serde_json::to_string(&details).unwrap(), text);
        assert_eq!(serde_json::from_str::<ErrorDetails>(text).unwrap(), details);
        assert_eq!(details.display_message(), shown);
    }
}

/// The histories of the published engine, by file name.
fn recorded_histories() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        (path.display().to_string(), text)
    };
    files.into_iter().map(read).collect()
}

fn count_events(json: &Value) -> usize {
    match json {
        Value::Object(fields) if fields.contains_key("event_id") => 1,
        Value::Object(fields) => fields.values().map(count_events).sum(),
        Value::Array(items) => items.iter().map(count_events).sum(),
        _ => 0,
    }
}

#[test]
fn histories_of_the_published_engine_are_written_as_they_were_read() {
    let histories = recorded_histories();
    assert_eq!(histories.len(), 28);
    for (file, text) in histories {
        let mut events = 0;
        for line in text
            .lines()
            .map(str::trim)
            .filter(|l| l.starts_with(r#"{"event_id""#))
        {
            let line = line.strip_suffix(',').unwrap_or(line);
            let event: Event = serde_json::from_str(line).unwrap_or_else(|e| panic!("{file}: {e}"));
            assert_eq!(serde_json::to_string(&event).unwrap(), line, "{file}");
            events += 1;
        }
        let json = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert_eq!(
            events,
            count_events(&json),
            "{file}: every event stands on a line"
        );
        assert!(events > 0, "{file}");
    }
}

/// Export files hold snapshots: each part has the name that it had when the first one was written.
#[test]
fn a_snapshot_is_written_as_it_was_read() {
    let text = concat!(
        r#"{"instance_id":"i","record":{"name":"n","execution_id":1,"life":7,"parent_life":8,"custom_status_version":0,"#,
        r#""created_at_ms":1,"updated_at_ms":2},"activities":[{"json":"{}","execution_id":1,"activity_id":2,"#,
        r#""visible_at_ms":3,"attempts":0,"life":7}],"letters":[{"queue":"worker","payload":"{}","reason":"r","#,
        r#""set_aside_at_ms":4,"life":7}]}"#
    );
    let snapshot: InstanceSnapshot = serde_json::from_str(text).unwrap();
    assert_eq!(snapshot.dead_letters[0].dead_lettered_at_ms, 4);
    assert_eq!(serde_json::to_string(&snapshot).unwrap(), text);
}
