//! Closing a store beside transactions that stay open.

use std::time::{Duration, Instant};

use duroxide_core::provider::{Closing, Provider, ProviderAdmin};

use crate::support::{Schema, connect, start_within};

/// It fails while it waits only for a moment, names who is in the way, and others are not held up after that.
#[tokio::test]
async fn a_close_that_has_to_wait_fails_soon_and_never_happens_later() {
    let schema = Schema::new();
    let store = schema.open().await;
    let mut client = connect().await;
    let tx = client.transaction().await.unwrap();
    start_within(&tx, &schema, "order").await;
    let began = Instant::now();
    let refused = store.close_store(None, Some("for a while")).await;
    let refused = refused.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(10), "{refused}");
    assert!(refused.is_retryable(), "{refused}");
    assert!(refused.message.contains("nothing was closed"), "{refused}");
    assert!(refused.message.contains("arrivals"), "{refused}");
    tx.commit().await.unwrap();
    // Whatever the server still had to do for the close, it would be done before this is answered.
    schema.shell("BEGIN; LOCK TABLE {s}.closing, {s}.arrivals IN ACCESS EXCLUSIVE MODE; COMMIT");
    assert_eq!(store.closed_because().await.unwrap(), None);
    let claimed = store
        .fetch_orchestration_item(Duration::from_secs(5), Duration::from_secs(20), None)
        .await;
    let (item, ..) = claimed.unwrap().expect("it is open");
    assert_eq!(item.instance, "order");
    let closed = store.close_store(None, Some("for a while")).await;
    assert_eq!(closed.unwrap(), Some(Closing::Done));
    let late = schema.shell_fails("SELECT {s}.start_orchestration('late', 'Order', '{}')");
    assert!(late.contains("for a while"), "{late}");
    let opened = store.close_store(Some("for a while"), None).await;
    assert_eq!(opened.unwrap(), Some(Closing::Done));
    schema.shell("SELECT {s}.start_orchestration('late', 'Order', '{}')");
}

/// Opening takes no lock that a reader would have to give way to.
#[tokio::test]
async fn a_store_is_opened_beside_a_transaction_that_reads() {
    let schema = Schema::new();
    let store = schema.open().await;
    store.close_store(None, Some("closed")).await.unwrap();
    let mut client = connect().await;
    let tx = client.transaction().await.unwrap();
    let look = format!(
        "SELECT * FROM {0}.history, {0}.arrivals, {0}.inboxes",
        schema.0
    );
    tx.query(&look, &[]).await.unwrap();
    let opened = store.close_store(Some("closed"), None).await;
    assert_eq!(opened.unwrap(), Some(Closing::Done));
    tx.commit().await.unwrap();
}
