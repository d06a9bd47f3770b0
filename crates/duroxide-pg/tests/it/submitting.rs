//! Submissions beside transactions that stay open.

use std::time::Duration;

use duroxide_core::provider::{Provider, StartRule, Submission, Submitted};
use duroxide_pg::PostgresOptions;

use crate::meetings;
use crate::support::{Schema, connect};

fn start() -> Submission {
    let start = meetings::start("order");
    Submission::start(start, None, StartRule::MustBeNew, Vec::new())
}

/// The server gives up before the caller does: nothing is stored behind the back of one that was told of a failure.
#[tokio::test]
async fn a_submission_that_has_to_wait_fails_soon_and_never_happens_later() {
    let schema = Schema::new();
    let store = schema
        .open_with(PostgresOptions {
            response_timeout: Duration::from_secs(4),
            application_name: schema.0.clone(),
            ..PostgresOptions::default()
        })
        .await;
    let mut client = connect().await;
    let tx = client.transaction().await.unwrap();
    let inbox = format!(
        "INSERT INTO {}.inboxes (instance_id, lane, ready_at) VALUES ('order', '', 0)",
        schema.0
    );
    tx.execute(&inbox, &[]).await.unwrap();
    let refused = store.submit(start()).await.unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
    tx.rollback().await.unwrap();
    // What the server may still be doing for the store is over.
    let busy = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE application_name = '{}' AND state <> 'idle' AND query LIKE '%submit%'",
        schema.0
    );
    let mut look = tokio::time::interval(Duration::from_millis(10));
    while schema.shell(&busy) > 0 {
        look.tick().await;
    }
    assert_eq!(store.submit(start()).await.unwrap(), Submitted::Started);
}
