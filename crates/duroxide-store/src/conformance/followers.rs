//! Cases: followers that are held back, and how many of them one claim takes.

use super::{Desk, GROUPS, Harness, LEASE_MS, pass_ms, texts};
use crate::atomic::{Batch, Operation};
use crate::lease::{After, LeaseToken};
use crate::message::{Claim, NewMessage, Role, Visible};

fn follower(group: &str, text: &str) -> NewMessage {
    NewMessage {
        role: Role::Follower,
        ..NewMessage::new(group, text)
    }
}

async fn hold(desk: &Desk, token: &LeaseToken) {
    let batch = Batch::of([
        Operation::Complete {
            lease: token.clone(),
        },
        Operation::HoldFollowers {
            queue: GROUPS,
            group: "a".to_owned(),
        },
    ]);
    desk.store.commit(batch).await.expect("commit");
}

/// No claim takes a follower that is held back, and none makes its group ready; others pass. Completing the next claim
/// ends it.
pub async fn followers_are_held_back(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "first").await;
    let claimed = desk.take().await;
    desk.put_message(follower("a", "1")).await;
    hold(&desk, &claimed.token).await;
    desk.put_message(NewMessage {
        visible: Visible::AfterMs(500),
        ..follower("a", "3")
    })
    .await;
    desk.put_message(follower("a", "2")).await;
    assert!(desk.claim().await.is_none(), "they are held back");
    pass_ms(harness, 1_000).await;
    assert!(desk.claim().await.is_none(), "whenever they are due");
    desk.put("a", "plain").await;
    let claimed = desk.take().await;
    assert_eq!(texts(&claimed), ["plain"]);
    let released = desk.store.release(&claimed.token, After::Now, true).await;
    released.expect("release");
    assert_eq!(
        texts(&desk.take().await),
        ["plain"],
        "a release ends nothing"
    );
    pass_ms(harness, LEASE_MS).await;
    let claimed = desk.take().await;
    assert_eq!(texts(&claimed), ["plain"], "nor does the end of a lease");
    hold(&desk, &claimed.token).await;
    assert!(desk.claim().await.is_none(), "they are held back still");
    desk.put("a", "last").await;
    let claimed = desk.take().await;
    desk.complete(&claimed.token).await.expect("complete");
    let claimed = desk.take().await;
    assert_eq!(
        texts(&claimed),
        ["1", "3", "2"],
        "in the order of enqueueing"
    );
    assert!(claimed.messages.iter().all(|message| message.attempts == 1));
}

/// A group that is deleted holds nothing back when it comes again.
pub async fn a_deleted_group_holds_nothing_back(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "first").await;
    let claimed = desk.take().await;
    hold(&desk, &claimed.token).await;
    desk.put_message(follower("a", "1")).await;
    assert!(desk.claim().await.is_none(), "it is held back");
    desk.apply(Operation::DeleteGroup {
        queue: GROUPS,
        group: "a".to_owned(),
    })
    .await;
    desk.put_message(follower("a", "2")).await;
    assert_eq!(texts(&desk.take().await), ["2"]);
}

/// A claim ends before the follower after the last one that it may take.
pub async fn a_claim_takes_a_bounded_number_of_followers(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "plain").await;
    for text in ["1", "2", "3"] {
        desk.put_message(follower("a", text)).await;
    }
    desk.put("a", "other").await;
    for expected in [["plain", "1", "2"].as_slice(), &["3", "other"]] {
        let two = Claim {
            followers_max: 2,
            ..desk.ask()
        };
        let claimed = desk.claim_with(two).await.remove(0);
        assert_eq!(texts(&claimed), expected);
        desk.complete(&claimed.token).await.expect("complete");
    }
}
