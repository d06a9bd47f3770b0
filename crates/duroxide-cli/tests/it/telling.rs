//! What an operator is told who does not know the library: options that can be typed, files by their names, and what
//! becomes of what was asked for.

use crate::moving::run;
use crate::support::{Kind, Store};

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_before_the_store_is_touched() {
    let store = Store::filled(Kind::Sqlite).await;
    for (arguments, told) in [
        (&["list", "--limit", "0"][..], "'--limit <LIMIT>'"),
        (&["dead-letters", "list", "--limit", "0"], "--limit"),
        (&["prune", "--keep", "0", "--dry-run"], "--keep"),
        (&["start", "", "new"], "<NAME>"),
        (&["start", "order", ""], "<ID>"),
        (
            &["start", "order", "new", "--version", "newest"],
            "like 1.2.0",
        ),
        (&["signal", "ask", ""], "<NAME>"),
        (
            &["retention", "--name", "order"],
            "--ended-for, --keep or --keep-executions",
        ),
    ] {
        let answer = store.run(arguments);
        assert_eq!(answer.code, 2, "{arguments:?}: {answer:?}");
        assert!(answer.err.contains(told), "{arguments:?}: {answer:?}");
    }
    let as_json = store.run(&["list", "--limit", "0", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&as_json.err).unwrap();
    assert_eq!((as_json.code, &told["exit_code"]), (2, &2.into()), "{told}");
    let none = store.run(&["why", "new"]);
    assert_eq!(none.code, 3, "nothing was started: {none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_what_can_be_typed() {
    let store = Store::filled(Kind::Sqlite).await;
    let running = store.run(&["delete", "ask", "--yes"]);
    assert_eq!(running.code, 1, "{running:?}");
    assert!(running.err.contains("--force"), "{running:?}");
    assert!(!running.err.contains("force=true"), "{running:?}");

    let missing = store.run(&["import", "nowhere.jsonl"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.err.contains("nowhere.jsonl"), "{missing:?}");

    store.run(&["export", "paid", "-o", "paid.jsonl"]);
    let again = store.run(&["export", "paid", "-o", "paid.jsonl"]);
    assert_eq!(again.code, 6, "{again:?}");
    assert!(again.err.contains("--yes"), "{again:?}");
    assert!(
        !again.err.contains("--dry-run"),
        "export has none: {again:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_to_an_instance_that_has_ended_or_in_place_of_another() {
    let store = Store::filled(Kind::Sqlite).await;
    for arguments in [
        &["signal", "paid", "approved"][..],
        &["enqueue", "refused", "inbox"],
        &["restart", "refused", "--as", "paid"],
        &["restart", "refused", "--as", "unknown"],
    ] {
        let answer = store.run(arguments);
        assert_eq!(answer.code, 1, "{arguments:?}: {answer:?}");
        assert!(answer.err.contains("nothing was sent"), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn show_tells_a_pause_the_custom_status_and_whole_ids_of_children() {
    let store = Store::filled(Kind::Sqlite).await;
    store.tells(&["pause", "ask"]);
    let shown = store.tells(&["show", "ask"]);
    assert!(shown.contains("paused     20"), "{shown}");
    assert!(shown.contains("says       asks the boss"), "{shown}");
    let shown = store.json(&["show", "ask"]);
    assert_eq!(shown["custom_status"], "asks the boss");
    assert!(shown["paused_at_ms"].is_u64(), "{shown}");
    let family = store.tells(&["show", "family"]);
    assert!(family.contains("family::sub::2"), "{family}");
    for command in ["show", "history", "tree"] {
        let unborn = store.run(&[command, "unknown"]);
        assert_eq!(unborn.code, 3, "{unborn:?}");
        assert!(unborn.err.contains("duroxide why unknown"), "{unborn:?}");
    }
    let dry = store.tells(&["delete", "refused", "--dry-run"]);
    assert!(dry.contains(" 4 "), "it has four events: {dry}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_node_is_explained_also_for_what_has_ended() {
    let store = Store::filled(Kind::Sqlite).await;
    store.tells(&["retry", "refused"]);
    let why = store.tells(&["why", "refused"]);
    assert!(why.contains("1 message is ready"), "{why}");
    assert!(why.contains("no node has taken it in"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_moved_away_says_so() {
    let store = Store::filled(Kind::Sqlite).await;
    let target = store.path().with_file_name("moved.redb");
    let target = format!("redb:{}", target.display());
    let moved = run(&["move", &store.address(), &target, "--yes"]);
    assert_eq!(moved.code, 0, "{moved:?}");
    let why = store.tells(&["why", "ask"]);
    assert!(why.contains("the store is closed"), "{why}");
    assert!(why.contains("moved.redb"), "{why}");
    let stats = store.tells(&["stats"]);
    assert!(stats.contains("closed        moved to"), "{stats}");
    assert!(store.json(&["stats"])["closed"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_may_be_larger_than_a_page_of_the_store() {
    let store = Store::empty(Kind::Sqlite).await;
    store.sql(
        "INSERT INTO instances (instance_id, orchestration_name, orchestration_version, created_at, updated_at)
         WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1100)
         SELECT 'many-' || n, 'order', '1.0.0', n, n FROM n",
    );
    let found = |arguments: &[&str]| {
        let page = store.json(&[&["list"], arguments].concat());
        let items = page["items"].as_array().map_or(0, Vec::len);
        (items, page["next"].is_string())
    };
    assert_eq!(found(&["--limit", "1050"]), (1_050, true));
    assert_eq!(found(&["--limit", "2000"]), (1_100, false));
    assert_eq!(found(&["--all", "--limit", "1"]), (1_100, false));
}
