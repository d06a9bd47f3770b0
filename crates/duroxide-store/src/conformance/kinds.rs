//! Cases: kinds, leads, alarms, bounds, and a clock that is set back.

use super::{Desk, GROUPS, Harness, LEASE_MS, SINGLES, pass_ms, texts};
use crate::atomic::{Operation, Query};
use crate::lease::{After, Owner};
use crate::message::{Claim, Claimed, Followers, Labels, NewMessage, Role, Visible};

fn of_kind(group: &str, text: &str, kind: &str) -> NewMessage {
    NewMessage {
        kind: Some(kind.to_owned()),
        ..NewMessage::new(group, text)
    }
}

fn lead(group: &str, text: &str, kind: &str) -> NewMessage {
    NewMessage {
        role: Role::Lead,
        ..of_kind(group, text, kind)
    }
}

fn successor(group: &str, text: &str, kind: &str, followers: Followers) -> NewMessage {
    NewMessage {
        role: Role::Successor(followers),
        ..of_kind(group, text, kind)
    }
}

fn follower(group: &str, text: &str) -> NewMessage {
    NewMessage {
        role: Role::Follower,
        ..NewMessage::new(group, text)
    }
}

fn alarm(group: &str, text: &str) -> NewMessage {
    NewMessage {
        role: Role::Alarm,
        ..NewMessage::new(group, text)
    }
}

async fn claim_kinds(desk: &Desk, kinds: &[&str]) -> Vec<Claimed> {
    let claim = Claim {
        max: 9,
        kinds: Labels::of(kinds.iter().copied()),
        ..desk.ask()
    };
    desk.claim_with(claim).await
}

async fn set_kind(desk: &Desk, group: &str, kind: Option<&str>) {
    desk.apply(Operation::SetLabel {
        queue: GROUPS,
        group: group.to_owned(),
        label: None,
        kind: kind.map(str::to_owned),
    })
    .await;
}

/// A group has its own kind, else that of its oldest lead, else none; what is passed over is not counted.
pub async fn a_group_goes_by_its_kind(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "early").await;
    assert!(claim_kinds(&desk, &["x"]).await.is_empty(), "it has none");
    desk.put_message(lead("a", "lead", "x")).await;
    desk.put_message(lead("a", "other", "y")).await;
    assert!(claim_kinds(&desk, &["y"]).await.is_empty());
    set_kind(&desk, "a", Some("z")).await;
    assert!(claim_kinds(&desk, &["x", "y"]).await.is_empty());
    set_kind(&desk, "a", None).await;
    let claimed = claim_kinds(&desk, &["x"]).await;
    assert_eq!(texts(&claimed[0]), ["early", "lead", "other"]);
    assert_eq!(claimed[0].messages[0].attempts, 1);
}

/// With its last lead a group loses the kind that the lead gave it.
pub async fn a_kind_goes_with_its_lead(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put_message(lead("a", "lead", "x")).await;
    let claimed = desk.take().await;
    desk.put("a", "plain").await;
    desk.complete(&claimed.token).await.expect("complete");
    assert!(claim_kinds(&desk, &["x"]).await.is_empty());
    assert_eq!(texts(&desk.take().await), ["plain"]);
}

/// Single messages are selected by label and kind together.
pub async fn a_message_is_selected_by_its_kind(harness: &impl Harness) {
    let desk = Desk::new(harness, SINGLES);
    for (text, kind) in [("1", "x"), ("2", "y"), ("3", "x")] {
        desk.put_message(of_kind("a", text, kind)).await;
    }
    desk.put_message(NewMessage {
        label: Some("red".to_owned()),
        ..of_kind("a", "4", "x")
    })
    .await;
    let claim = Claim {
        max: 9,
        labels: Labels::only_none(),
        kinds: Labels::of(["x"]),
        ..desk.ask()
    };
    let found = desk.claim_with(claim).await;
    assert_eq!(found.iter().flat_map(texts).collect::<Vec<_>>(), ["1", "3"]);
    assert!(claim_kinds(&desk, &["z"]).await.is_empty());
    assert_eq!(claim_kinds(&desk, &["x", "y"]).await.len(), 2);
}

/// An alarm opens its group to any kind once it is old enough, and not to other labels.
pub async fn an_old_alarm_opens_its_group(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put_message(lead("a", "lead", "x")).await;
    desk.put_message(alarm("a", "alarm")).await;
    let claim = Claim {
        kinds: Labels::of(["y"]),
        any_kind_after_ms: Some(1_000),
        ..desk.ask()
    };
    assert!(desk.claim_with(claim.clone()).await.is_empty());
    pass_ms(harness, 1_000).await;
    let other_label = Claim {
        labels: Labels::of(["red"]),
        ..claim.clone()
    };
    assert!(desk.claim_with(other_label).await.is_empty());
    let claimed = desk.claim_with(claim.clone()).await;
    assert_eq!(texts(&claimed[0]), ["lead", "alarm"]);
    assert!(desk.claim_with(claim.clone()).await.is_empty(), "leased");
    desk.complete(&claimed[0].token).await.expect("complete");
    desk.put_message(lead("a", "next", "x")).await;
    assert!(desk.claim_with(claim).await.is_empty(), "the alarm is gone");
}

/// An urgent alarm opens its group as soon as it is visible, and is part of the claim whatever is older.
pub async fn an_urgent_alarm_opens_its_group_at_once(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    set_kind(&desk, "a", Some("rare")).await;
    for text in ["1", "2"] {
        desk.put_message(NewMessage::new("a", text)).await;
    }
    desk.put_message(alarm("a", "alarm")).await;
    let claim = Claim {
        kinds: Labels::of(["usual"]),
        any_kind_after_ms: Some(u64::MAX),
        messages_max: 1,
        ..desk.ask()
    };
    assert_eq!(desk.claim_with(claim.clone()).await, []);
    let urgent = NewMessage {
        role: Role::UrgentAlarm,
        ..alarm("a", "urgent")
    };
    desk.put_message(urgent).await;
    let closed = Claim {
        any_kind_after_ms: None,
        ..claim.clone()
    };
    assert_eq!(desk.claim_with(closed).await, []);
    let claimed = desk.claim_with(claim).await;
    assert_eq!(texts(&claimed[0]), ["1", "urgent"]);
}

/// A claim takes a prefix within its bounds, and the oldest lead in addition.
pub async fn a_claim_keeps_its_bounds(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    for text in ["1", "2", "3"] {
        desk.put("a", text).await;
    }
    desk.put_message(lead("a", "lead", "x")).await;
    let two = Claim {
        messages_max: 2,
        ..desk.ask()
    };
    let first = desk.claim_with(two.clone()).await.remove(0);
    assert_eq!(texts(&first), ["1", "2", "lead"]);
    desk.complete(&first.token).await.expect("complete");
    desk.put("a", "4 is long").await;
    let few_bytes = Claim {
        bytes_max: 3,
        ..desk.ask()
    };
    for expected in ["3", "4 is long"] {
        let next = desk.claim_with(few_bytes.clone()).await.remove(0);
        assert_eq!(texts(&next), [expected]);
        desk.complete(&next.token).await.expect("complete");
    }
}

/// A claim of several groups ends once they brought enough together, be it messages or bytes; the others come with the
/// next one, untried. The first comes whatever it holds.
pub async fn a_claim_of_several_groups_keeps_its_bounds(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    for group in ["a", "b", "c", "d"] {
        for text in ["1", "2"] {
            desk.put(group, text).await;
        }
    }
    let all = || Claim {
        max: 8,
        ..desk.ask()
    };
    let few = Claim {
        messages_in_all_max: 3,
        ..all()
    };
    let short = Claim {
        bytes_in_all_max: 3,
        ..all()
    };
    let one = Claim {
        messages_in_all_max: 0,
        ..all()
    };
    for (claim, expected) in [
        (&few, vec!["a", "b"]),
        (&one, vec!["c"]),
        (&short, vec!["d"]),
    ] {
        let claimed = desk.claim_with(claim.clone()).await;
        let groups: Vec<&str> = claimed.iter().map(|one| one.group.as_str()).collect();
        assert_eq!(groups, expected);
        for one in &claimed {
            assert_eq!(texts(one), ["1", "2"]);
            assert!(one.messages.iter().all(|message| message.attempts == 1));
        }
    }
    for group in ["e", "f", "g"] {
        for text in ["1", "2"] {
            desk.put(group, text).await;
        }
    }
    assert_eq!(desk.claim_with(short).await.len(), 2);
    assert_eq!(desk.claim_with(few).await.len(), 1);
}

/// A successor goes before older leads: it gives the kind, and comes with a full claim.
pub async fn a_successor_goes_before_leads(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put_message(lead("a", "lead", "x")).await;
    for text in ["1", "2", "3"] {
        desk.put("a", text).await;
    }
    desk.put_message(successor("a", "next", "y", Followers::Come))
        .await;
    assert!(claim_kinds(&desk, &["x"]).await.is_empty());
    let two = Claim {
        messages_max: 2,
        kinds: Labels::of(["y"]),
        ..desk.ask()
    };
    let claimed = desk.claim_with(two).await.remove(0);
    assert_eq!(texts(&claimed), ["lead", "1", "next"]);
    desk.complete(&claimed.token).await.expect("complete");
    assert_eq!(texts(&desk.take().await), ["2", "3"]);
}

/// A successor that keeps followers back comes without them; then they come in order.
pub async fn followers_stay_behind_a_successor(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    for text in ["1", "2"] {
        desk.put_message(follower("a", text)).await;
    }
    desk.put("a", "plain").await;
    desk.put_message(successor("a", "next", "x", Followers::Stay))
        .await;
    desk.put_message(follower("a", "3")).await;
    let claimed = desk.take().await;
    assert_eq!(texts(&claimed), ["plain", "next"]);
    desk.complete(&claimed.token).await.expect("complete");
    desk.put_message(successor("a", "last", "x", Followers::Come))
        .await;
    let claimed = desk.take().await;
    assert_eq!(texts(&claimed), ["1", "2", "3", "last"]);
    assert_eq!(claimed.messages[0].attempts, 1, "none was tried before");
}

/// A claim says whether a lead is still to come, and a rest ends when it becomes visible.
pub async fn a_rest_ends_when_a_message_becomes_visible(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "early").await;
    desk.put_message(NewMessage {
        visible: Visible::AfterMs(1_000),
        ..lead("a", "lead", "x")
    })
    .await;
    let claimed = desk.take().await;
    assert!(claimed.lead_to_come);
    let rest = desk
        .store
        .release(&claimed.token, After::QuietMs(60_000), true);
    rest.await.expect("release");
    assert!(desk.claim().await.is_none(), "it rests");
    pass_ms(harness, 1_000).await;
    let claimed = desk.take().await;
    assert_eq!(texts(&claimed), ["early", "lead"]);
    assert!(!claimed.lead_to_come);
}

/// What arrived during the lease is not put to rest with what was claimed.
pub async fn a_group_does_not_rest_behind_an_arrival(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "1").await;
    let claimed = desk.take().await;
    desk.put("a", "2").await;
    let rest = desk
        .store
        .release(&claimed.token, After::QuietMs(5_000), true);
    rest.await.expect("release");
    assert_eq!(texts(&desk.take().await), ["1", "2"]);
}

/// A lease of no length lasts for the claim that takes it.
pub async fn no_claim_takes_the_same_twice(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue);
        desk.put("a", "1").await;
        let claim = Claim {
            max: 5,
            lease_ms: 0,
            ..desk.ask()
        };
        assert_eq!(desk.claim_with(claim).await.len(), 1);
        desk.apply(Operation::DeleteGroup {
            queue: desk.queue.clone(),
            group: "a".to_owned(),
        })
        .await;
    }
}

/// An owner takes a bounded number of keys that it does not hold yet.
pub async fn an_owner_takes_a_bounded_number_of_new_keys(harness: &impl Harness) {
    let desk = Desk::new(harness, SINGLES);
    for (text, key) in [("1", "k"), ("2", "l"), ("3", "k"), ("4", "m")] {
        desk.put_message(NewMessage {
            affinity: Some(key.to_owned()),
            ..NewMessage::new("a", text)
        })
        .await;
    }
    desk.put("a", "5").await;
    let by = |id: &str, new_keys_max| Claim {
        max: 9,
        owner: Some(Owner {
            id: id.to_owned(),
            lease_ms: LEASE_MS,
            new_keys_max,
        }),
        ..desk.ask()
    };
    let found = |claimed: Vec<Claimed>| claimed.iter().flat_map(texts).collect::<Vec<_>>();
    assert_eq!(found(desk.claim_with(by("anna", 1)).await), ["1", "3", "5"]);
    assert_eq!(found(desk.claim_with(by("bert", 1)).await), ["2"]);
    assert!(desk.claim_with(by("carl", 0)).await.is_empty());
    assert_eq!(found(desk.claim_with(by("anna", 9)).await), ["4"]);
}

/// Ready and not leased, each group once, longest wait first.
pub async fn a_backlog_tells_what_is_ready_by_kind(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue.clone());
        let count = |n: u64| if queue == GROUPS { 1 } else { n };
        desk.put_message(lead("a", "1", "x")).await;
        pass_ms(harness, 10).await;
        desk.put_message(lead("b", "2", "y")).await;
        desk.put_message(lead("b", "3", "y")).await;
        let ask = || {
            desk.store.query_one(Query::Backlog {
                queue: queue.clone(),
                limit: 9,
                count_max: 9,
            })
        };
        let backlog = ask().await.and_then(|answer| answer.into_backlog());
        let backlog = backlog.expect("an answer");
        let told: Vec<_> = backlog
            .iter()
            .map(|one| (one.kind.as_deref(), one.count))
            .collect();
        assert_eq!(told, [(Some("x"), 1), (Some("y"), count(2))]);
        assert!(backlog[0].since_ms < backlog[1].since_ms);
        desk.take().await;
        let left = ask().await.and_then(|answer| answer.into_backlog());
        assert_eq!(left.expect("an answer").len(), 1, "the first is leased");
    }
}

/// What was visible can be claimed after the clock was set back.
pub async fn a_clock_set_back_hides_nothing(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue);
        desk.put("a", "1").await;
        desk.put("b", "2").await;
        let claimed = desk.take().await;
        let released = desk.store.release(&claimed.token, After::Now, true).await;
        released.expect("release");
        if !harness
            .set_back(std::time::Duration::from_secs(3_600))
            .await
        {
            return;
        }
        assert_eq!(texts(&desk.take().await), ["1"]);
        assert_eq!(texts(&desk.take().await), ["2"]);
    }
}

/// A lease ends after its length though the clock was set back meanwhile.
pub async fn a_clock_set_back_lengthens_no_lease(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue);
        desk.put("a", "1").await;
        desk.take().await;
        let hour = std::time::Duration::from_secs(3_600);
        if !harness.set_back(hour).await {
            return;
        }
        assert!(desk.claim_with(desk.ask()).await.is_empty(), "leased");
        pass_ms(harness, LEASE_MS).await;
        assert_eq!(texts(&desk.take().await), ["1"]);
    }
}

/// A time that a caller computed with the clock after it was set back is as far away as the caller meant.
pub async fn a_time_told_after_a_step_back_is_not_early(harness: &impl Harness) {
    let desk = Desk::new(harness, GROUPS);
    desk.put("a", "before").await;
    let shown_ms = desk.store.now_ms();
    let hour = std::time::Duration::from_secs(3_600);
    if !harness.set_back(hour).await {
        return;
    }
    desk.take().await;
    let in_a_minute = shown_ms - 3_600_000 + 60_000;
    let message = NewMessage {
        visible: Visible::At(in_a_minute),
        ..NewMessage::new("b", "in a minute")
    };
    desk.put_message(message).await;
    assert!(desk.claim_with(desk.ask()).await.is_empty(), "not due");
    pass_ms(harness, 61_000).await;
    let mut found = desk
        .claim_with(Claim {
            max: 2,
            ..desk.ask()
        })
        .await;
    found.retain(|claimed| claimed.group == "b");
    assert_eq!(found.len(), 1, "it is due");
}
