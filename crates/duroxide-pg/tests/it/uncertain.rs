//! Calls that were sent and never answered: what they asked for may have happened, and the error says so.

use std::time::Duration;

use duroxide_core::provider::Provider;
use duroxide_pg::PostgresOptions;

use crate::meetings::start;
use crate::support::{Schema, connect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_sent_and_not_answered_may_have_taken_effect_and_says_so() {
    let schema = Schema::new();
    let store = schema
        .open_with(PostgresOptions {
            response_timeout: Duration::from_millis(500),
            ..PostgresOptions::default()
        })
        .await;
    let mut client = connect().await;
    let holder = client.transaction().await.unwrap();
    let lock = format!(
        "LOCK TABLE {}.orchestrator_queue IN EXCLUSIVE MODE",
        schema.0
    );
    holder.batch_execute(&lock).await.unwrap();
    let enqueued = store.enqueue_for_orchestrator(start("i"), None).await;
    let error = enqueued.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(error.message.contains("may have taken effect"), "{error}");
    holder.rollback().await.unwrap();
}
