//! Commands that change something.

use std::time::Duration;

use duroxide::{Client, OrchestrationStatus};

use crate::support::{Kind, Store, start};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_reaches_the_instances() {
    for kind in [Kind::Sqlite, Kind::Redb] {
        let store = Store::filled(kind).await;
        let sent = store.tells(&["signal", "ask", "approved", "--data", "yes"]);
        assert_eq!(sent, "signal approved was sent to ask\n");
        let started = store.tells(&["start", "order", "second", "--input", "{}"]);
        assert_eq!(started, "second will start as order\n");
        let again = store.tells(&["start", "order", "paid", "--if-absent"]);
        assert_eq!(again, "paid exists; nothing was sent\n");
        let cancelled = store.tells(&["cancel", "family", "--reason", "enough"]);
        assert_eq!(cancelled, "family was asked to cancel\n");
        let terminated = store.tells(&["terminate", "nap", "--yes"]);
        assert_eq!(terminated, "nap was asked to terminate\n");

        let provider = store.open().await;
        let runtime = start(provider.clone()).await;
        let client = Client::new(provider);
        let minute = Duration::from_secs(60);
        for id in ["ask", "second", "family", "nap"] {
            client.wait_for_orchestration(id, minute).await.unwrap();
        }
        let asked = client.get_orchestration_status("ask").await.unwrap();
        assert!(matches!(asked, OrchestrationStatus::Completed { output, .. } if output == "yes"));
        let nap = client.get_orchestration_status("nap").await.unwrap();
        assert!(matches!(nap, OrchestrationStatus::Failed { .. }), "{nap:?}");
        runtime.shutdown(None).await;
        drop(client);

        assert_eq!(store.tells(&["wait", "second"]), "charged\n");
        let failed = store.run(&["wait", "nap"]);
        assert_eq!(failed.code, 5, "{failed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verbs_that_take_away_want_to_be_told_twice() {
    let store = Store::filled(Kind::Sqlite).await;
    for arguments in [
        &["terminate", "nap"][..],
        &["delete", "paid"],
        &["prune", "--keep", "1"],
        &["cancel", "--name", "approval"],
    ] {
        let refused = store.run(arguments);
        assert_eq!(refused.code, 6, "{arguments:?}: {refused:?}");
        assert!(refused.err.contains("nothing was changed"), "{refused:?}");
    }
    let dry = store.tells(&["cancel", "--name", "approval", "--dry-run"]);
    assert!(
        dry.ends_with("2 instances would be asked to cancel\n"),
        "{dry}"
    );
    let dry = store.tells(&["delete", "--status", "completed", "--dry-run"]);
    assert!(
        dry.ends_with("1 instances would be deleted with their children\n"),
        "{dry}"
    );
    let none = store.run(&["delete", "--yes"]);
    assert_eq!(
        none.code, 2,
        "a filter that names nothing means nothing: {none:?}"
    );
    assert_eq!(
        store.json(&["stats"])["instances"],
        6,
        "nothing was changed"
    );

    let deleted = store.tells(&["delete", "--status", "completed", "--yes"]);
    assert_eq!(deleted, "1 instances with 4 events were deleted\n");
    let running = store.run(&["delete", "family", "--yes"]);
    assert_eq!(running.code, 1, "{running:?}");
    let forced = store.tells(&["delete", "family", "--force", "--yes"]);
    assert!(forced.starts_with("2 instances with "), "{forced}");
    assert_eq!(store.json(&["stats"])["instances"], 3);
}
