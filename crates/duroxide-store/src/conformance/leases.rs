//! Cases: what a group lease allows, and for how long.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Desk, GROUPS, Harness, LEASE_MS, SINGLES, is_lost, pass_ms, texts};
use crate::atomic::Query;
use crate::lease::After;
use crate::message::Claim;

/// Old and new ones together, in order, with their attempts.
pub async fn a_lapsed_lease_hands_its_messages_to_the_next_claim(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "1").await;
    let lapsed = desk.take().await;
    desk.put("a", "2").await;
    pass_ms(harness, LEASE_MS).await;
    let next = desk.take().await;
    assert_ne!(lapsed.token, next.token);
    assert_eq!(texts(&next), ["1", "2"]);
    let attempts: Vec<u32> = next.messages.iter().map(|m| m.attempts).collect();
    assert_eq!(attempts, [2, 1]);
    desk.complete(&next.token).await.expect("complete");
    assert!(desk.claim().await.is_none());
}

/// And not even that once it was taken over.
pub async fn a_lapsed_lease_can_only_be_released(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "1").await;
    let first = desk.take().await;
    pass_ms(harness, LEASE_MS).await;
    assert!(is_lost(&desk.complete(&first.token).await));
    assert!(is_lost(&desk.store.renew(&first.token, LEASE_MS).await));
    let release = |token| desk.store.release(token, After::Now, true);
    release(&first.token).await.expect("release");
    assert!(is_lost(&release(&first.token).await), "only once");
    let second = desk.take().await;
    assert_eq!(second.messages[0].attempts, 1);
    pass_ms(harness, LEASE_MS).await;
    let third = desk.take().await;
    assert!(is_lost(&release(&second.token).await));
    assert!(is_lost(&desk.complete(&second.token).await));
    desk.complete(&third.token).await.expect("complete");
}

/// A short renewal shortens, one that has run out stays so.
pub async fn renewal_counts_from_now_and_never_revives(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "1").await;
    let claimed = desk.take().await;
    for _ in 0..3 {
        pass_ms(harness, LEASE_MS - 500).await;
        let renewed = desk.store.renew(&claimed.token, LEASE_MS).await;
        renewed.expect("a valid lease can be renewed");
        assert!(desk.claim().await.is_none());
    }
    let renewed = desk.store.renew(&claimed.token, 100).await;
    renewed.expect("a valid lease can be renewed");
    pass_ms(harness, 100).await;
    assert!(is_lost(&desk.store.renew(&claimed.token, LEASE_MS).await));
    assert_eq!(texts(&desk.take().await), ["1"]);
}

/// A message that came during the lease keeps its own time.
pub async fn a_delayed_release_touches_only_what_was_claimed(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "1").await;
    let claimed = desk.take().await;
    desk.put("a", "2").await;
    let released = desk
        .store
        .release(&claimed.token, After::DelayMs(5_000), false)
        .await;
    released.expect("release");
    let late = desk.take().await;
    assert_eq!(texts(&late), ["2"]);
    let released = desk.store.release(&late.token, After::Now, false).await;
    released.expect("release");
    pass_ms(harness, 5_000).await;
    let both = desk.take().await;
    assert_eq!(texts(&both), ["1", "2"], "order survives a delay");
    let attempts: Vec<u32> = both.messages.iter().map(|m| m.attempts).collect();
    assert_eq!(attempts, [2, 2]);
}

/// The count never falls below zero, and later messages are not touched.
pub async fn a_forgiven_claim_does_not_count(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "1").await;
    for (forgive, expected) in [(true, 1), (true, 1), (false, 1), (false, 2), (true, 3)] {
        let claimed = desk.take().await;
        assert_eq!(claimed.messages[0].attempts, expected);
        let released = desk
            .store
            .release(&claimed.token, After::Now, forgive)
            .await;
        released.expect("release");
    }
    assert_eq!(desk.take().await.messages[0].attempts, 3);
}

/// Forty callers at once: each group goes to exactly one.
pub async fn many_claimers_never_share_a_group(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    for n in 0..20 {
        desk.put(&format!("g{n}"), "x").await;
    }
    let claimers = (0..40).map(|_| {
        let store = Arc::clone(&desk.store);
        let claim = Claim::one(GROUPS, 60_000);
        tokio::spawn(async move { store.claim(claim).await })
    });
    let mut groups = BTreeSet::new();
    let mut empty = 0;
    for claimer in claimers.collect::<Vec<_>>() {
        let claimed = claimer.await.expect("a claimer ends well");
        match claimed.expect("claim").pop() {
            Some(one) => assert!(groups.insert(one.group), "a group was handed out twice"),
            None => empty += 1,
        }
    }
    assert_eq!((groups.len(), empty), (20, 20));
}

/// What is leased is told with its lease, by group, as long as the lease is valid.
pub async fn leases_of_a_group_are_told_while_they_are_valid(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue.clone());
        desk.put("a", "1").await;
        desk.put("b", "2").await;
        let of = |group: &str| Query::Leases {
            queue: queue.clone(),
            group: group.to_owned(),
        };
        let told = async |group: &str| {
            let answer = desk.store.query_one(of(group)).await.expect("an answer");
            answer.into_leases().expect("leases")
        };
        assert_eq!(told("a").await, []);
        let claimed = desk.take().await;
        let [lease] = &told("a").await[..] else {
            panic!("one lease");
        };
        let expected = Query::Lease {
            token: claimed.token.clone(),
        };
        let expected = desk.store.query_one(expected).await.expect("an answer");
        assert_eq!(
            expected.into_lease().expect("a lease").as_ref(),
            Some(lease)
        );
        assert_eq!(told("b").await, []);
        pass_ms(harness, LEASE_MS).await;
        assert_eq!(told("a").await, [], "it has run out");
    }
}
