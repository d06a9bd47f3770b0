//! Cases: claims that wait, and watches.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::{Desk, GROUPS, Harness, LEASE_MS, SINGLES, pass_ms};
use crate::atomic::Batch;
use crate::message::{Claim, Claimed, NewMessage, Queue, Visible};

/// Longer than any case waits when the store wakes as it should.
const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough for a spawned claim to be waiting.
const SETTLE: Duration = Duration::from_millis(30);

fn wait(desk: &Desk, patience: Duration) -> JoinHandle<Vec<Claimed>> {
    let store = Arc::clone(&desk.store);
    let claim = Claim {
        wait: patience,
        ..desk.ask()
    };
    tokio::spawn(async move { store.claim(claim).await.expect("claim") })
}

async fn is_woken(waiting: JoinHandle<Vec<Claimed>>) {
    let woken = timeout(PATIENCE / 2, waiting).await;
    let claimed = woken.expect("woken in time").expect("a claim ends well");
    assert_eq!(claimed.len(), 1);
}

/// Zero means one try.
pub async fn a_claim_without_patience_returns_at_once(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue);
        let tried = timeout(Duration::from_secs(5), desk.claim()).await;
        assert!(tried.expect("no wait").is_none());
    }
}

/// Whatever the commit was that made something claimable.
pub async fn a_waiting_claim_is_woken_by_a_commit(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue);
        let waiting = wait(&desk, PATIENCE);
        sleep(SETTLE).await;
        desk.put("a", "1").await;
        is_woken(waiting).await;
    }
    let desk = Desk::new(harness, Queue::grouped("others"));
    desk.put("a", "1").await;
    let first = desk.take().await;
    desk.put("a", "2").await;
    let waiting = wait(&desk, PATIENCE);
    sleep(SETTLE).await;
    desk.complete(&first.token).await.expect("complete");
    is_woken(waiting).await;
}

/// No commit happens then.
pub async fn a_waiting_claim_is_woken_by_a_due_time(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue);
        desk.put_message(NewMessage {
            visible: Visible::AfterMs(300),
            ..NewMessage::new("a", "1")
        })
        .await;
        let waiting = wait(&desk, PATIENCE);
        sleep(SETTLE).await;
        assert!(!waiting.is_finished());
        pass_ms(harness, 300).await;
        is_woken(waiting).await;
    }
}

/// No commit happens then either.
pub async fn a_waiting_claim_is_woken_by_a_lapsing_lease(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue);
        desk.put("a", "1").await;
        desk.take().await;
        let waiting = wait(&desk, PATIENCE);
        sleep(SETTLE).await;
        pass_ms(harness, LEASE_MS).await;
        is_woken(waiting).await;
    }
}

/// With nothing, and not much later.
pub async fn a_waiting_claim_gives_up_after_its_time(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue);
        let begun = Instant::now();
        let nothing = wait(&desk, Duration::from_millis(80)).await;
        assert!(nothing.expect("a claim ends well").is_empty());
        assert!(begun.elapsed() >= Duration::from_millis(80));
        assert!(begun.elapsed() < PATIENCE / 2);
    }
}

/// Also a commit between the making of the watch and the wait; a store that cannot wake says so.
pub async fn a_watch_notices_commits_that_name_its_topic(harness: &impl Harness) {
    let store = harness.store();
    let Some(mut watch) = store.watch("news") else {
        return;
    };
    let commit = async |topic: &str| {
        let batch = Batch {
            topics: vec![topic.to_owned()],
            ..Batch::default()
        };
        store.commit(batch).await.expect("commit");
    };
    commit("weather").await;
    let early = timeout(SETTLE, watch.changed()).await;
    assert!(early.is_err(), "another topic is not noticed");
    commit("news").await;
    let noticed = timeout(PATIENCE, watch.changed()).await;
    noticed.expect("noticed");
    drop(watch);
    commit("news").await;
}
