//! What the store says about its own state.

use std::pin::pin;
use std::time::Duration;

use duroxide_core::provider::Provider;

use crate::support::{admin, shell, start, url};

#[tokio::test]
async fn commits_log_checkpoints_and_space_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("told.db");
    let store = duroxide_sqlite::SqliteProvider::new(&url(&path), None)
        .await
        .unwrap();
    let before = admin(&store).readings().await.unwrap();
    for n in 0..20 {
        let item = start(&format!("i{n}"));
        store.enqueue_for_orchestrator(item, None).await.unwrap();
    }
    let after = admin(&store).readings().await.unwrap();
    let grown = |of: fn(&duroxide_core::provider::StoreReadings) -> Option<u64>| {
        of(&after).unwrap() - of(&before).unwrap()
    };
    assert!(grown(|it| it.commits) >= 1, "{after:?}");
    assert!(grown(|it| it.commit_requests) >= 20, "{after:?}");
    assert!(after.commit_time > before.commit_time, "{after:?}");
    assert!(after.commit_time_max.unwrap() <= after.commit_time.unwrap());
    assert!(after.log_bytes.unwrap() > 0 && after.file_bytes.unwrap() > 0);
    assert_eq!(
        (after.writer_queue, after.checkpoint_failures),
        (Some(0), Some(0))
    );
    assert_eq!(after.checkpoint_age, None, "there was none yet");
    store.checkpoint().await.unwrap();
    let copied = admin(&store).readings().await.unwrap();
    assert!(
        copied.checkpoint_age.is_some() && copied.log_bytes < after.log_bytes,
        "{copied:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_locks_of_others_and_free_pages_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("told.db");
    let store = duroxide_sqlite::SqliteProvider::new(&url(&path), None)
        .await
        .unwrap();
    let other = shell(&path);
    let waits = async {
        loop {
            other
                .execute_batch(
                    "BEGIN IMMEDIATE; CREATE TABLE waste AS SELECT zeroblob(100000) AS b",
                )
                .unwrap();
            let mut sent = pin!(store.enqueue_for_orchestrator(start("waits"), None));
            // The writer has it from now on, and needs the lock.
            assert!(futures::poll!(&mut sent).is_pending());
            tokio::task::yield_now().await;
            other.execute_batch("DROP TABLE waste; COMMIT").unwrap();
            sent.await.unwrap();
            let told = admin(&store).readings().await.unwrap();
            if told.busy_waits.unwrap() > 0 {
                return told;
            }
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(20), waits).await;
    let told = told.expect("the writer waits for the lock of another");
    assert!(told.free_bytes.unwrap() > 0, "{told:?}");
}
