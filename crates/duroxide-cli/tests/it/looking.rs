//! Commands that change nothing.

use std::sync::Arc;

use duroxide::testing::replay;
use duroxide_core::FnOrchestration;

use crate::support::{Kind, Store, sleeper, start};

const KINDS: [Kind; 2] = [Kind::Sqlite, Kind::Redb];

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_listed_and_filtered() {
    for kind in KINDS {
        let store = Store::filled(kind).await;
        let listed = store.shows(&["list", "--roots", "--sort", "created", "--oldest-first"]);
        let lines: Vec<&str> = listed.lines().collect();
        assert_eq!(
            lines[0],
            "ID NAME VERSION STATUS RUN EVENTS CREATED UPDATED LABELS SAYS"
        );
        let ids = |text: &str| {
            let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
            let mut ids: Vec<_> = text.lines().skip(1).map(first).collect();
            ids.sort();
            ids
        };
        assert_eq!(
            ids(&listed),
            ["ask", "family", "nap", "paid", "refused"],
            "{kind:?}"
        );
        assert!(
            lines.contains(&"paid order 1.0.0 Completed 1 4 T T"),
            "{listed}"
        );
        assert!(
            lines.contains(&"ask approval 1.0.0 Running 1 3 T T asks the boss"),
            "{listed}"
        );
        let failed = store.shows(&["list", "--status", "failed"]);
        assert_eq!(ids(&failed), ["refused"]);
        let children = store.shows(&["list", "--parent", "family"]);
        assert_eq!(ids(&children), ["family::sub::2"]);
        let recent = store.shows(&["list", "--created-since", "1h", "--name", "approval"]);
        assert_eq!(ids(&recent), ["ask", "family::sub::2"]);
        let page = store.json(&["list", "--limit", "4"]);
        assert_eq!(page["items"].as_array().unwrap().len(), 4);
        let next = page["next"].as_str().unwrap();
        let rest = store.json(&["list", "--limit", "4", "--after", next]);
        assert_eq!(rest["items"].as_array().unwrap().len(), 2);
        assert_eq!(rest["next"], serde_json::Value::Null);
        let counted = store.shows(&["count"]);
        assert_eq!(
            counted,
            "COUNT STATUS\n    4 Running\n    1 Completed\n    1 Failed\n"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_shown_with_its_timeline() {
    let store = Store::filled(Kind::Sqlite).await;
    let shown = store.shows(&["show", "paid"]);
    assert_eq!(
        shown.split("\n\n").next().unwrap(),
        "instance paid\nhandler order 1.0.0\nstatus Completed\nexecution 1, 4 events\n\
         created T T ago)\nupdated T T ago)\nended T execution took T\nresult charged"
    );
    assert!(
        shown.contains("scheduled activity charge with {}; activity of event 2 gave charged"),
        "{shown}"
    );
    let history = store.shows(&["history", "paid"]);
    assert_eq!(
        history,
        "    1 T order 1.0.0 began with {}\n    2 T scheduled activity charge with {}\n    \
         3 T activity of event 2 gave charged\n    4 T completed with charged\n"
    );
    let stored = store.tells(&["history", "paid", "--json"]);
    let first: serde_json::Value = serde_json::from_str(stored.lines().next().unwrap()).unwrap();
    assert_eq!(first["type"], "OrchestrationStarted");
    assert_eq!(store.tells(&["kv", "nap", "colour"]), "blue\n");
    assert_eq!(store.shows(&["kv", "nap"]), "KEY VALUE\ncolour blue\n");
    assert_eq!(
        store.tells(&["tree", "family"]),
        "family  parent 1.0.0  Running\n└─ family::sub::2  approval 1.0.0  Running  asks the boss\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_is_told_down_to_the_last_child() {
    let store = Store::filled(Kind::Sqlite).await;
    let why = store.shows(&["why", "family"]);
    let why = why.replace("just now", "T ago");
    assert_eq!(
        why,
        "family (parent 1.0.0) runs; its last event was T ago\n  waits for child family::sub::2 (approval, event 2), \
         scheduled T ago\n    family::sub::2 (approval 1.0.0) runs; its last event was T ago\n      \
         waits for signal approved (event 3), since T ago\n"
    );
    let nap = store.tells(&["explain", "nap"]);
    assert!(
        nap.contains("waits for a timer (event 4), due in 23h 59m"),
        "{nap}"
    );
    let unknown = store.tells(&["explain", "unknown"]);
    assert!(
        unknown.starts_with("unknown (not-deployed) has not begun"),
        "{unknown}"
    );
    assert!(
        unknown.contains(
            "no handler registered for orchestration not-deployed: no node is up; 1 ready"
        ),
        "{unknown}"
    );
    let refused = store.tells(&["explain", "refused"]);
    assert_eq!(
        refused,
        "refused (broken 1.0.0) failed: no \\u{1b}[31mfunds\n"
    );
    let data = store.json(&["explain", "ask"]);
    assert_eq!(data["waits"][0]["for"], "signal");
    assert_eq!(data["waits"][0]["name"], "approved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_engine_has_no_problems() {
    for kind in KINDS {
        let store = Store::filled(kind).await;
        let checked = store.tells(&["check"]);
        assert!(
            checked.starts_with("6 instances, 6 executions, "),
            "{checked}"
        );
        assert!(checked.ends_with(" events, 0 problems\n"), "{checked}");
        let stats = store.shows(&["stats"]);
        assert!(
            stats.starts_with("instances 6\n  running 4\n  completed 1\n  failed 1\n"),
            "{stats}"
        );
        assert!(stats.contains("1 orchestration not-deployed T"), "{stats}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_exported_line_by_line() {
    let store = Store::filled(Kind::Sqlite).await;
    let lines = store.tells(&["export"]);
    assert_eq!(lines.lines().count(), 7, "one has not begun");
    let family = store.tells(&["export", "family"]);
    let ids: Vec<_> = family
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["instance_id"].clone())
        .collect();
    assert_eq!(ids.len(), 2, "with its child: {ids:?}");
    let nap: serde_json::Value = serde_json::from_str(&store.tells(&["export", "nap"])).unwrap();
    assert_eq!(nap["format"], 2);
    assert_eq!(nap["key_values"]["colour"], "blue");
    assert_eq!(
        nap["executions"][0]["history"][0]["type"],
        "OrchestrationStarted"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_instance_replays_against_its_code() {
    let store = Store::filled(Kind::Sqlite).await;
    let line = store.tells(&["export", "nap"]);
    let replayed = replay(&line, Arc::new(FnOrchestration(sleeper))).unwrap();
    assert_eq!(replayed.executions, 1);
    assert!(replayed.events > 1, "{replayed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_fits_the_terminal() {
    let store = Store::filled(Kind::Sqlite).await;
    let output = crate::support::binary()
        .args(["--store", &store.address(), "list"])
        .env("COLUMNS", "70")
        .output()
        .unwrap();
    let text = crate::support::answer(output).out;
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(70), "{widest:?}\n{text}");
    let plain = store.tells(&["list"]);
    assert!(!plain.contains('\u{1b}'), "no colours into a pipe");
    let coloured = store.tells(&["list", "--color", "always"]);
    assert!(coloured.contains("\u{1b}["), "colours if asked for");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_listed_with_their_code() {
    let store = Store::filled(Kind::Sqlite).await;
    assert_eq!(store.json(&["nodes"]), serde_json::json!([]));
    let runtime = start(store.open().await).await;
    let client = runtime.client();
    let mut wait = tokio::time::interval(std::time::Duration::from_millis(10));
    while client.nodes().await.unwrap().unwrap().is_empty() {
        wait.tick().await;
    }
    let listed = store.json(&["nodes"]);
    assert_eq!(listed[0]["is_gone"], false);
    assert_eq!(listed[0]["node"]["pid"], std::process::id());
    let shown = store.tells(&["nodes", "--handlers"]);
    assert!(
        shown.contains(" up ") && shown.contains("approval"),
        "{shown}"
    );
    runtime.shutdown(None).await;
    assert_eq!(store.json(&["nodes"]), serde_json::json!([]));
}
