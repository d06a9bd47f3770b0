//! Commands that change nothing.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{BlockedInstance, OrchestrationHandlers, TurnClaim};
use duroxide::testing::replay;
use duroxide_core::FnOrchestration;

use crate::support::{Kind, Store, sleeper, start};

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_listed_and_filtered() {
    for kind in Kind::ALL {
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
async fn instances_are_found_by_what_they_wait_for() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
        let ids = |arguments: &[&str]| {
            let listed = store.json(&[&["list", "--oldest-first"], arguments].concat());
            let items = listed["items"].as_array().unwrap().clone();
            let id = |one: &serde_json::Value| one["instance_id"].as_str().unwrap().to_owned();
            let mut ids: Vec<_> = items.iter().map(id).collect();
            ids.sort();
            ids
        };
        let approved = ["--waiting-for", "approved"];
        assert_eq!(ids(&approved), ["ask", "family::sub::2"], "{kind:?}");
        let children = ["--waiting-for", "approval", "--waiting-kind", "child"];
        assert_eq!(ids(&children), ["family"]);
        assert_eq!(ids(&["--waiting-kind", "timer"]), ["nap"]);
        let nobody: [&str; 0] = [];
        assert_eq!(ids(&["--waiting-for", "order"]), nobody);
        // Page by page, from the cursor of the page before.
        let mut met = Vec::new();
        let mut next = None::<String>;
        loop {
            let mut arguments = vec!["list", "--waiting-for", "approved", "--limit", "1"];
            if let Some(next) = &next {
                arguments.extend(["--after", next.as_str()]);
            }
            let page = store.json(&arguments);
            for one in page["items"].as_array().unwrap() {
                met.push(one["instance_id"].as_str().unwrap().to_owned());
            }
            next = page["next"].as_str().map(str::to_owned);
            if next.is_none() {
                break;
            }
        }
        met.sort();
        assert_eq!(met, ["ask", "family::sub::2"], "{kind:?}");
        let counted = store.json(&["count", "--waiting-for", "approved", "--by", "name"]);
        assert_eq!(counted[0]["key"], "approval");
        assert_eq!(counted[0]["count"], 2);
        let dry = store.tells(&["cancel", "--waiting-for", "approved", "--dry-run"]);
        assert!(
            dry.ends_with("2 instances would be asked to cancel\n"),
            "{dry}"
        );
    }
}

/// A node noted it, and no node is up any more.
#[tokio::test(flavor = "multi_thread")]
async fn blocked_instances_are_found_without_their_nodes() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
        let nobody = store.json(&["list", "--blocked"]);
        assert_eq!(nobody["items"], serde_json::json!([]));
        store.tells(&["signal", "ask", "approved", "--data", "yes"]);
        let provider = store.open().await;
        let handlers = OrchestrationHandlers::default().with("approval", "1.0.0");
        let claim = TurnClaim {
            handlers: Some(Arc::new(handlers)),
            ..TurnClaim::new(1, Duration::from_secs(60), Duration::ZERO)
        };
        let turns = provider.claim_turns(claim).await.unwrap();
        let token = &turns[0].lock_token;
        let blocked = BlockedInstance {
            instance_id: "ask".to_owned(),
            execution_id: 1,
            orchestration_name: "approval".to_owned(),
            report: "recorded a, attempted b".to_owned(),
            attempts: 2,
        };
        let noted = provider.note_blocked(token, &blocked, "harbour-1").await;
        assert!(noted.unwrap(), "{kind:?}");
        let back = provider.abandon_orchestration_item(token, None, true);
        back.await.unwrap();
        drop((turns, provider));
        let found = store.json(&["list", "--blocked"]);
        assert_eq!(found["items"].as_array().unwrap().len(), 1);
        assert_eq!(found["items"][0]["instance_id"], "ask");
        let why = store.tells(&["why", "ask"]);
        assert!(why.contains("harbour-1 cannot go on with it"), "{why}");
        assert!(why.contains("recorded a, attempted b"), "{why}");
        let dry = store.tells(&["terminate", "--blocked", "--dry-run"]);
        assert!(dry.ends_with("ask would be asked to terminate\n"), "{dry}");

        let runtime = start(store.open().await).await;
        let client = runtime.client();
        let minute = Duration::from_secs(60);
        client.wait_for_orchestration("ask", minute).await.unwrap();
        runtime.shutdown(None).await;
        drop(client);
        assert_eq!(
            store.json(&["list", "--blocked"])["items"],
            serde_json::json!([])
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_says_that_something_has_not_begun() {
    let store = Store::filled(Kind::Sqlite).await;
    // `unknown` has waited for its code since 1970.
    store.sql("UPDATE orchestrator_queue SET visible_at = 0 WHERE instance_id = 'unknown'");
    let listed = store.run(&["list"]);
    assert!(!listed.out.contains("unknown"), "{listed:?}");
    let note = "1 start or turn has been ready for ";
    assert!(listed.err.starts_with(note), "{listed:?}");
    let named = store.run(&["list", "--name", "not-deployed"]);
    let none = format!("no instance matches\n{note}");
    assert!(named.err.starts_with(&none), "{named:?}");
    for other in [["--name", "order"], ["--status", "running"]] {
        let listed = store.run(&[&["list"][..], &other].concat());
        assert_eq!(listed.err, "", "{other:?}");
    }
    let data = store.json(&["list"]);
    assert_eq!(data["not_taken"][0]["name"], "not-deployed");
    assert_eq!(data["not_taken"][0]["count"], 1);
    let filtered = store.json(&["list", "--roots"]);
    assert!(filtered["not_taken"].is_null(), "{filtered}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_shown_with_its_timeline() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
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
        let first: serde_json::Value =
            serde_json::from_str(stored.lines().next().unwrap()).unwrap();
        assert_eq!(first["type"], "OrchestrationStarted");
        assert_eq!(store.tells(&["kv", "nap", "colour"]), "blue\n");
        assert_eq!(store.shows(&["kv", "nap"]), "KEY VALUE\ncolour blue\n");
        assert_eq!(
            store.tells(&["tree", "family"]),
            "family  parent 1.0.0  Running\n└─ family::sub::2  approval 1.0.0  Running  asks the boss\n"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_is_told_down_to_the_last_child() {
    for kind in Kind::ALL {
        let store = Store::filled(kind).await;
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
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_engine_has_no_problems() {
    for kind in Kind::ALL {
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
    let plain = store.run(&["list"]).out;
    assert!(!plain.contains('\u{1b}'), "no colours into a pipe");
    let coloured = store.run(&["list", "--color", "always"]).out;
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
