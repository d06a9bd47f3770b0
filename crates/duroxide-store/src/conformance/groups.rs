//! Cases: queues that deliver groups.

use super::{Desk, GROUPS, Harness, LEASE_MS, is_lost, pass_ms, texts};
use crate::atomic::{Batch, Guard, Operation, Query};
use crate::error::StoreError;
use crate::lease::{After, LeaseToken};
use crate::message::{Claim, Depth, Labels, NewMessage, Visible};

/// In the order of enqueueing, each with its first attempt.
pub async fn all_visible_messages_of_a_group_come_under_one_lease(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    for (group, text) in [("a", "1"), ("b", "2"), ("a", "3"), ("a", "4")] {
        desk.put(group, text).await;
    }
    let a = desk.take().await;
    let b = desk.take().await;
    assert_eq!((a.group.as_str(), b.group.as_str()), ("a", "b"));
    assert_eq!(texts(&a), ["1", "3", "4"]);
    assert_eq!(texts(&b), ["2"]);
    assert!(a.messages.iter().all(|message| message.attempts == 1));
    assert_ne!(a.token, b.token);
    desk.complete(&a.token).await.expect("complete");
    assert!(is_lost(&desk.complete(&a.token).await), "only once");
    desk.complete(&b.token).await.expect("complete");
    assert!(desk.claim().await.is_none());
}

/// Not even for messages that came later.
pub async fn a_leased_group_is_not_handed_out_again(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "1").await;
    let first = desk.take().await;
    desk.put("a", "2").await;
    assert!(desk.claim().await.is_none());
    pass_ms(harness, LEASE_MS - 500).await;
    assert!(desk.claim().await.is_none());
    desk.complete(&first.token).await.expect("complete");
    assert_eq!(texts(&desk.take().await), ["2"]);
}

/// Completing removes exactly what was claimed.
pub async fn a_message_that_comes_late_waits_for_the_next_claim(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "1").await;
    let first = desk.take().await;
    for text in ["2", "3"] {
        desk.put("a", text).await;
    }
    desk.complete(&first.token).await.expect("complete");
    assert_eq!(texts(&desk.take().await), ["2", "3"]);
}

/// A due time in the past is due at once and keeps the place in the line.
pub async fn a_delayed_message_appears_at_its_time(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    let now_ms = desk.store.now_ms();
    for (text, visible) in [
        ("later", Visible::At(now_ms + 3_000)),
        ("past", Visible::At(1)),
        ("soon", Visible::AfterMs(1_000)),
        ("now", Visible::Now),
    ] {
        let message = NewMessage::new("a", text);
        desk.put_message(NewMessage { visible, ..message }).await;
    }
    let first = desk.take().await;
    assert_eq!(texts(&first), ["past", "now"]);
    desk.complete(&first.token).await.expect("complete");
    assert!(desk.claim().await.is_none());
    pass_ms(harness, 1_000).await;
    let second = desk.take().await;
    assert_eq!(texts(&second), ["soon"]);
    desk.complete(&second.token).await.expect("complete");
    pass_ms(harness, 2_000).await;
    assert_eq!(texts(&desk.take().await), ["later"]);
}

/// The group that waits longest is next, so none starves.
pub async fn groups_come_in_the_order_in_which_they_became_eligible(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "1").await;
    pass_ms(harness, 10).await;
    desk.put("b", "2").await;
    let a = desk.take().await;
    assert_eq!(a.group, "a");
    pass_ms(harness, 10).await;
    desk.put("a", "3").await;
    desk.complete(&a.token).await.expect("complete");
    assert_eq!(desk.take().await.group, "b");
    assert_eq!(desk.take().await.group, "a");
}

/// Each with a lease of its own; fewer if there are fewer.
pub async fn several_groups_are_claimed_in_one_step(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    for group in ["a", "b", "c"] {
        desk.put(group, group).await;
        desk.put(group, "more").await;
    }
    let two = Claim {
        max: 2,
        ..desk.ask()
    };
    let claimed = desk.claim_with(two.clone()).await;
    let groups: Vec<_> = claimed.iter().map(|one| one.group.as_str()).collect();
    assert_eq!(groups, ["a", "b"]);
    assert_ne!(claimed[0].token, claimed[1].token);
    desk.complete(&claimed[0].token).await.expect("complete");
    assert_eq!(desk.claim_with(two.clone()).await.len(), 1);
    assert!(desk.claim_with(two).await.is_empty());
    let none = Claim {
        max: 0,
        ..desk.ask()
    };
    assert!(desk.claim_with(none).await.is_empty());
}

/// A skipped group is not leased and no attempt is counted.
pub async fn a_group_is_skipped_by_its_label(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    for group in ["red", "plain", "blue"] {
        desk.put(group, group).await;
    }
    set_label(&desk, "red", Some("red")).await;
    set_label(&desk, "blue", Some("blue")).await;
    let only = |label: Option<&'static str>| Claim {
        max: 9,
        labels: label.map_or_else(Labels::only_none, |label| Labels::of([label])),
        ..desk.ask()
    };
    let nothing = Claim {
        labels: Labels::of::<String>([]),
        ..desk.ask()
    };
    assert!(desk.claim_with(nothing).await.is_empty());
    let blue = desk.claim_with(only(Some("blue"))).await;
    assert_eq!(blue.len(), 1);
    assert_eq!(texts(&blue[0]), ["blue"]);
    let plain = desk.claim_with(only(None)).await;
    assert_eq!(texts(&plain[0]), ["plain"]);
    set_label(&desk, "red", None).await;
    let red = desk.claim_with(only(None)).await;
    assert_eq!(texts(&red[0]), ["red"]);
    assert_eq!(red[0].messages[0].attempts, 1);
}

async fn set_label(desk: &Desk, group: &str, label: Option<&str>) {
    desk.apply(Operation::SetLabel {
        queue: GROUPS,
        group: group.to_owned(),
        label: label.map(str::to_owned),
        kind: None,
    })
    .await;
}

/// It can also be set before the first message.
pub async fn a_label_outlives_the_messages_of_its_group(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    set_label(&desk, "a", Some("red")).await;
    let unlabelled = || Claim {
        labels: Labels::only_none(),
        ..desk.ask()
    };
    desk.put("a", "1").await;
    assert!(desk.claim_with(unlabelled()).await.is_empty());
    let first = desk.take().await;
    desk.complete(&first.token).await.expect("complete");
    desk.put("a", "2").await;
    assert!(desk.claim_with(unlabelled()).await.is_empty());
    let group = "a".to_owned();
    let queue = GROUPS;
    assert_eq!(desk.apply(Operation::DeleteGroup { queue, group }).await, 1);
    desk.put("a", "3").await;
    assert_eq!(desk.claim_with(unlabelled()).await.len(), 1);
}

/// The entry named like the group, read in the step of the claim.
pub async fn an_entry_is_handed_out_with_its_group(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    let entry = desk.store.put("about", "a", b"known".to_vec()).await;
    entry.expect("put");
    desk.put("a", "1").await;
    desk.put("b", "2").await;
    let both = Claim {
        max: 2,
        attach: Some("about".to_owned()),
        ..desk.ask()
    };
    let claimed = desk.claim_with(both).await;
    assert_eq!(claimed[0].attached.as_deref(), Some(b"known".as_slice()));
    assert_eq!(claimed[1].attached, None);
}

/// Rest keeps the messages' own times and attempts.
pub async fn a_resting_group_wakes_by_itself_or_for_an_arrival(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "1").await;
    let rest = async || {
        let claimed = desk.take().await;
        let released = desk
            .store
            .release(&claimed.token, After::QuietMs(5_000), true)
            .await;
        released.expect("release");
        texts(&claimed)
    };
    assert_eq!(rest().await, ["1"]);
    pass_ms(harness, 1_000).await;
    assert!(desk.claim().await.is_none());
    desk.put("a", "2").await;
    assert_eq!(rest().await, ["1", "2"]);
    assert!(desk.claim().await.is_none());
    pass_ms(harness, 5_000).await;
    let claimed = desk.take().await;
    assert_eq!(texts(&claimed), ["1", "2"]);
    assert!(claimed.messages.iter().all(|m| m.attempts == 1));
}

/// What a claim leaves because of its bounds does not keep the group from resting.
pub async fn a_group_rests_though_a_claim_left_some(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    for text in ["1", "2", "3"] {
        desk.put("a", text).await;
    }
    let two = Claim {
        messages_max: 2,
        ..desk.ask()
    };
    let rest = async || {
        let claimed = desk.claim_with(two.clone()).await.remove(0);
        let released = desk
            .store
            .release(&claimed.token, After::QuietMs(5_000), true);
        released.await.expect("release");
    };
    rest().await;
    assert!(desk.claim().await.is_none());
    desk.put("a", "4").await;
    assert!(desk.claim().await.is_some(), "it was woken");
    pass_ms(harness, LEASE_MS).await;
    rest().await;
    assert!(desk.claim().await.is_none());
    pass_ms(harness, 5_000).await;
    assert_eq!(texts(&desk.take().await), ["1", "2", "3", "4"]);
}

/// What arrives or becomes visible during a claim fails a batch that relies on nothing having done so.
pub async fn a_stirred_group_is_noticed(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    let put = |key: &str| Operation::Put {
        scope: "s".to_owned(),
        key: key.to_owned(),
        value: vec![1],
    };
    let relying = async |token: &LeaseToken, key: &str| {
        let guard = Guard::Undisturbed(token.clone());
        let batch = Batch::of([put(key)]).guarded_by(guard);
        desk.store.commit(batch).await
    };
    for text in ["1", "2"] {
        desk.put("a", text).await;
    }
    let one = Claim {
        messages_max: 1,
        ..desk.ask()
    };
    let claimed = desk.claim_with(one).await.remove(0);
    relying(&claimed.token, "calm").await.expect("calm");
    desk.put("a", "3").await;
    let stirred = relying(&claimed.token, "stirred").await;
    assert!(
        matches!(stirred, Err(StoreError::Conflict(_))),
        "{stirred:?}"
    );
    desk.complete(&claimed.token).await.expect("complete");
    let delayed = NewMessage {
        visible: Visible::AfterMs(LEASE_MS / 2),
        ..NewMessage::new("a", "4")
    };
    desk.put_message(delayed).await;
    let claimed = desk.take().await;
    relying(&claimed.token, "calm").await.expect("calm");
    pass_ms(harness, LEASE_MS / 2).await;
    let stirred = relying(&claimed.token, "stirred").await;
    assert!(
        matches!(stirred, Err(StoreError::Conflict(_))),
        "{stirred:?}"
    );
    desk.complete(&claimed.token).await.expect("complete");
    assert!(is_lost(&relying(&claimed.token, "lost").await));
}

/// Its holder cannot complete, and the group begins anew.
pub async fn deleting_a_group_ends_its_lease(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "1").await;
    desk.put("ab", "other").await;
    let claimed = desk.take().await;
    desk.put("a", "2").await;
    let group = "a".to_owned();
    let queue = GROUPS;
    assert_eq!(desk.apply(Operation::DeleteGroup { queue, group }).await, 2);
    assert!(is_lost(&desk.complete(&claimed.token).await));
    desk.put("a", "3").await;
    let other = desk.take().await;
    assert_eq!(texts(&other), ["other"]);
    assert_eq!(texts(&desk.take().await), ["3"]);
}

/// By token and by group; a message deleted meanwhile leaves a gap in the claim, not in the lease.
pub async fn a_claim_and_its_messages_can_be_looked_up(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    for (group, text) in [("a", "1"), ("a", "2"), ("b", "3")] {
        desk.put(group, text).await;
    }
    let claimed = desk.take().await;
    let ids: Vec<u64> = claimed.messages.iter().map(|message| message.id).collect();
    assert!(ids[0] < ids[1]);
    let gone = Operation::DeleteMessages {
        queue: GROUPS,
        ids: vec![ids[0], 987_654],
    };
    assert_eq!(desk.apply(gone).await, 1);
    let lease = desk.store.lease(&claimed.token).await.expect("query");
    let lease = lease.expect("the lease is known");
    assert!(lease.valid);
    assert_eq!(
        (lease.queue.as_str(), lease.group.as_str()),
        ("letters", "a")
    );
    assert_eq!(lease.claimed, ids);
    let messages = |group: Option<&str>, after, limit| Query::Messages {
        queue: GROUPS,
        group: group.map(str::to_owned),
        after,
        limit,
    };
    let look = async |query| {
        let found = desk.store.query_one(query).await;
        found.and_then(|a| a.into_messages()).expect("query")
    };
    let of_a = look(messages(Some("a"), 0, 9)).await;
    assert_eq!(of_a.len(), 1);
    assert_eq!((of_a[0].id, of_a[0].attempts), (ids[1], 1));
    assert_eq!(look(messages(None, 0, 9)).await.len(), 2);
    assert_eq!(look(messages(None, ids[1], 9)).await.len(), 1);
    assert_eq!(look(messages(None, 0, 1)).await.len(), 1);
    desk.complete(&claimed.token).await.expect("complete");
    assert!(look(messages(Some("a"), 0, 9)).await.is_empty());
    let unknown = desk.store.lease(&claimed.token).await.expect("query");
    assert_eq!(unknown, None);
}

/// By the label of the message, also for a message that waits behind another holder's lease.
pub async fn depths_tell_ready_delayed_and_leased(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "1").await;
    desk.take().await;
    desk.put("a", "2").await;
    desk.put_message(NewMessage {
        label: Some("x".to_owned()),
        visible: Visible::AfterMs(60_000),
        ..NewMessage::new("b", "3")
    })
    .await;
    let depths = desk.store.depths(&GROUPS).await.expect("query");
    let plain = Depth {
        label: None,
        ready: 1,
        delayed: 0,
        leased: 1,
    };
    let labelled = Depth {
        label: Some("x".to_owned()),
        delayed: 1,
        ..Depth::default()
    };
    assert_eq!(depths, [plain, labelled]);
    pass_ms(harness, LEASE_MS).await;
    let depths = desk.store.depths(&GROUPS).await.expect("query");
    assert_eq!((depths[0].ready, depths[0].leased), (2, 0));
}
