//! Cases: claims that wait, and watches.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{Desk, GROUPS, Harness, LEASE_MS, SINGLES, pass_ms};
use crate::atomic::Batch;
use crate::message::{Claim, NewMessage, Queue, Visible};

/// A wait that ends only by being woken, as far as a case is concerned.
const FOR_LONG: Duration = Duration::from_secs(600);

/// Waits for a claim while something happens, and a little. The claim is polled first, so it waits by then.
pub(super) async fn is_woken_by(
    harness: &impl Harness,
    desk: &Desk,
    happens: impl Future<Output = ()>,
) {
    let claim = Claim {
        wait: FOR_LONG,
        ..desk.ask()
    };
    let too_late = async {
        happens.await;
        sleep(harness.patience()).await;
    };
    tokio::select! {
        biased;
        claimed = desk.claim_with(claim) => assert_eq!(claimed.len(), 1),
        () = too_late => panic!("not woken in time"),
    }
}

/// Zero means one try.
pub async fn a_claim_without_patience_returns_at_once(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue);
        let tried = timeout(harness.patience(), desk.claim()).await;
        assert!(tried.expect("no wait").is_none());
    }
}

/// Whatever the commit was that made something claimable.
pub async fn a_waiting_claim_is_woken_by_a_commit(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue);
        is_woken_by(harness, &desk, desk.put("a", "1")).await;
    }
    let desk = Desk::new(harness, Queue::grouped("others"));
    desk.put("a", "1").await;
    let first = desk.take().await;
    desk.put("a", "2").await;
    let completes = async { desk.complete(&first.token).await.expect("complete") };
    is_woken_by(harness, &desk, completes).await;
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
        assert!(desk.claim().await.is_none(), "it is not due");
        is_woken_by(harness, &desk, pass_ms(harness, 300)).await;
    }
}

/// No commit happens then either.
pub async fn a_waiting_claim_is_woken_by_a_lapsing_lease(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue);
        desk.put("a", "1").await;
        desk.take().await;
        is_woken_by(harness, &desk, pass_ms(harness, LEASE_MS)).await;
    }
}

/// With nothing, and not much later.
pub async fn a_waiting_claim_gives_up_after_its_time(harness: &impl Harness) {
    const PATIENT_FOR: Duration = Duration::from_millis(80);
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue);
        let begun = Instant::now();
        let claim = Claim {
            wait: PATIENT_FOR,
            ..desk.ask()
        };
        assert!(desk.claim_with(claim).await.is_empty());
        assert!(begun.elapsed() >= PATIENT_FOR);
        assert!(begun.elapsed() < PATIENT_FOR + harness.patience());
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
    let early = timeout(Duration::ZERO, watch.changed()).await;
    assert!(early.is_err(), "another topic is not noticed");
    commit("news").await;
    let noticed = timeout(harness.patience(), watch.changed()).await;
    noticed.expect("noticed");
    drop(watch);
    commit("news").await;
}
