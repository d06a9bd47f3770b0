//! Cases: queues that deliver single messages.

use super::{Desk, Harness, LEASE_MS, SINGLES, is_lost, pass_ms, texts};
use crate::atomic::{Operation, Query};
use crate::lease::After;
use crate::message::{Claim, Labels, NewMessage, Visible};

/// Also several of one group at the same time.
pub async fn single_messages_come_in_order_one_lease_each(harness: &impl Harness) {
    let desk = Desk::new(harness, SINGLES);
    for (group, text) in [("a", "1"), ("b", "2"), ("a", "3")] {
        desk.put(group, text).await;
    }
    let mut tokens = Vec::new();
    for expected in ["1", "2", "3"] {
        let claimed = desk.take().await;
        assert_eq!(texts(&claimed), [expected]);
        tokens.push(claimed.token);
    }
    assert!(desk.claim().await.is_none());
    desk.complete(&tokens[1]).await.expect("complete");
    assert!(is_lost(&desk.complete(&tokens[1]).await), "only once");
    pass_ms(harness, LEASE_MS).await;
    assert_eq!(
        texts(&desk.take().await),
        ["1"],
        "order survives a lease that runs out"
    );
    assert_eq!(texts(&desk.take().await), ["3"]);
}

/// Fewer if there are fewer.
pub async fn several_messages_are_claimed_in_one_step(harness: &impl Harness) {
    let desk = Desk::new(harness, SINGLES);
    for text in ["1", "2", "3"] {
        desk.put("a", text).await;
    }
    let two = Claim {
        max: 2,
        ..desk.ask()
    };
    let claimed = desk.claim_with(two.clone()).await;
    let found: Vec<_> = claimed.iter().flat_map(texts).collect();
    assert_eq!(found, ["1", "2"]);
    assert_eq!(desk.claim_with(two.clone()).await.len(), 1);
    assert!(desk.claim_with(two).await.is_empty());
}

/// Skipped messages keep their place; several accepted labels are served in one order.
pub async fn a_message_is_selected_by_its_label(harness: &impl Harness) {
    let desk = Desk::new(harness, SINGLES);
    for (text, label) in [("1", None), ("2", Some("x")), ("3", Some("y")), ("4", None)] {
        desk.put_message(NewMessage {
            label: label.map(str::to_owned),
            ..NewMessage::new("a", text)
        })
        .await;
    }
    let only = |labels: &[Option<&str>]| {
        let named = Labels::of(labels.iter().copied().flatten());
        Claim {
            max: 9,
            labels: if labels.contains(&None) {
                named.or_none()
            } else {
                named
            },
            ..desk.ask()
        }
    };
    assert!(desk.claim_with(only(&[])).await.is_empty());
    let y = desk.claim_with(only(&[Some("y"), Some("z")])).await;
    assert_eq!(y.iter().flat_map(texts).collect::<Vec<_>>(), ["3"]);
    let rest = desk.claim_with(only(&[None, Some("x")])).await;
    let found: Vec<_> = rest.iter().flat_map(texts).collect();
    assert_eq!(found, ["1", "2", "4"]);
    let released = desk.store.release(&y[0].token, After::Now, false).await;
    released.expect("release");
    assert!(desk.claim_with(only(&[None])).await.is_empty());
    assert_eq!(desk.claim_with(only(&[Some("y")])).await.len(), 1);
}

/// That is how its holder learns that the result is not wanted.
pub async fn a_message_deleted_by_key_cannot_be_completed(harness: &impl Harness) {
    let desk = Desk::new(harness, SINGLES);
    for (group, key) in [("a", "k"), ("a", "kk"), ("b", "k")] {
        desk.put_message(NewMessage {
            key: Some(key.to_owned()),
            ..NewMessage::new(group, format!("{group}{key}"))
        })
        .await;
    }
    let claimed = desk.take().await;
    let delete = |group: &str| Operation::DeleteKeyed {
        queue: SINGLES,
        group: group.to_owned(),
        key: "k".to_owned(),
    };
    assert_eq!(desk.apply(delete("a")).await, 1);
    assert_eq!(desk.apply(delete("a")).await, 0);
    assert!(is_lost(&desk.complete(&claimed.token).await));
    assert!(is_lost(&desk.store.renew(&claimed.token, LEASE_MS).await));
    assert_eq!(desk.store.lease(&claimed.token).await.expect("query"), None);
    let release = desk.store.release(&claimed.token, After::Now, true).await;
    assert!(is_lost(&release));
    assert_eq!(texts(&desk.take().await), ["akk"]);
    assert_eq!(texts(&desk.take().await), ["bk"]);
}

/// The same rules as for groups.
pub async fn a_single_lease_lapses_is_renewed_and_released(harness: &impl Harness) {
    let desk = Desk::new(harness, SINGLES);
    desk.put_message(NewMessage {
        visible: Visible::AfterMs(1_000),
        ..NewMessage::new("a", "1")
    })
    .await;
    assert!(desk.claim().await.is_none());
    pass_ms(harness, 1_000).await;
    let claimed = desk.take().await;
    pass_ms(harness, LEASE_MS - 500).await;
    let renewed = desk.store.renew(&claimed.token, LEASE_MS).await;
    renewed.expect("a valid lease can be renewed");
    pass_ms(harness, LEASE_MS - 500).await;
    assert!(desk.claim().await.is_none());
    pass_ms(harness, 500).await;
    assert!(is_lost(&desk.store.renew(&claimed.token, LEASE_MS).await));
    assert!(is_lost(&desk.complete(&claimed.token).await));
    let released = desk
        .store
        .release(&claimed.token, After::DelayMs(3_000), true)
        .await;
    released.expect("a lease that has run out and was not taken over can be released");
    assert!(desk.claim().await.is_none());
    pass_ms(harness, 3_000).await;
    let again = desk.take().await;
    assert_eq!(again.messages[0].attempts, 1);
    pass_ms(harness, LEASE_MS).await;
    assert_eq!(desk.take().await.messages[0].attempts, 2);
    assert!(is_lost(
        &desk.store.release(&again.token, After::Now, true).await
    ));
}

/// Leased or not.
pub async fn deleting_a_group_of_single_messages_removes_all_of_them(harness: &impl Harness) {
    let desk = Desk::new(harness, SINGLES);
    for (group, text) in [("a", "1"), ("a", "2"), ("ab", "3")] {
        desk.put(group, text).await;
    }
    let claimed = desk.take().await;
    let group = "a".to_owned();
    let queue = SINGLES;
    assert_eq!(desk.apply(Operation::DeleteGroup { queue, group }).await, 2);
    assert!(is_lost(&desk.complete(&claimed.token).await));
    assert_eq!(texts(&desk.take().await), ["3"]);
    assert!(desk.claim().await.is_none());
}

/// A message that is gone stays away, and a leased one stays with its holder.
pub async fn a_message_can_be_shown_before_its_time(harness: &impl Harness) {
    let desk = Desk::new(harness, SINGLES);
    for text in ["1", "2", "3"] {
        desk.put_message(NewMessage {
            key: Some(text.to_owned()),
            visible: Visible::AfterMs(60_000),
            ..NewMessage::new("a", text)
        })
        .await;
    }
    desk.put("a", "4").await;
    let leased = desk.take().await;
    assert_eq!(texts(&leased), ["4"]);
    let page = Query::Messages {
        queue: SINGLES,
        group: None,
        after: 0,
        limit: 9,
    };
    let page = desk.store.query_one(page).await.expect("a page");
    let page = page.into_messages().expect("messages");
    let ids: Vec<_> = page.iter().map(|message| message.id).collect();
    let gone = Operation::DeleteKeyed {
        queue: SINGLES,
        group: "a".to_owned(),
        key: "2".to_owned(),
    };
    assert_eq!(desk.apply(gone).await, 1);
    let show = Operation::ShowMessages {
        queue: SINGLES,
        ids,
    };
    assert_eq!(desk.apply(show.clone()).await, 2, "those that were to come");
    assert_eq!(desk.apply(show).await, 0, "only once");
    for expected in ["1", "3"] {
        let claimed = desk.take().await;
        assert_eq!(texts(&claimed), [expected], "in their order");
        assert_eq!(claimed.messages[0].attempts, 1);
    }
    assert!(desk.claim().await.is_none());
    desk.complete(&leased.token).await.expect("still leased");
}
