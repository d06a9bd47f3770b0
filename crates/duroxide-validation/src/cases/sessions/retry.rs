//! Activities of a session that are given back.

use super::queue;
use crate::ProviderFactory;

/// An activity given back comes again to the owner, counted.
pub async fn test_abandoned_session_item_retryable(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s"]).await;
    let work = bench.work_as("anna").await;
    bench.give_back(&work, None, false).await;
    assert!(
        bench.find_as("bert").await.is_none(),
        "the session is not given back"
    );
    let again = bench.work_as("anna").await;
    assert_eq!((again.id(), again.attempt), (1, 2));
    bench.finish(&again).await;
    assert!(bench.find_as("anna").await.is_none(), "it was acked");
}

/// An activity given back uncounted has the attempt it had.
pub async fn test_abandoned_session_item_ignore_attempt(factory: &dyn ProviderFactory) {
    let bench = queue(factory, &["s"]).await;
    let work = bench.work_as("anna").await;
    bench.give_back(&work, None, true).await;
    assert_eq!(bench.work_as("anna").await.attempt, 1);
}
