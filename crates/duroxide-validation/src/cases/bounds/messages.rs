//! A claim takes a prefix of the messages; the rest comes with the next turns, in order.

use duroxide_core::WorkItem;
use duroxide_core::provider::{CLAIM_BYTES_MAX, CLAIM_MESSAGES_MAX, ClaimedTurn, TurnClaim};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Rounds, Turn, items};

const MEGABYTE: usize = 1024 * 1024;

async fn claim_up_to<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    messages_max: usize,
) -> ClaimedTurn {
    let claim = TurnClaim {
        messages_max,
        ..bench.ask()
    };
    let claimed = bench.claim_turns(claim).await.pop();
    claimed.expect("an instance is ready to be claimed")
}

fn ids(messages: &[WorkItem]) -> Vec<u64> {
    messages.iter().map(items::id_of).collect()
}

/// A running instance to which this many results were sent in one commit.
async fn flooded<F: ProviderFactory + ?Sized>(factory: &F, count: u64) -> Bench<'_, F> {
    let bench = Bench::open(factory).await;
    let mut first = Commit::first();
    for id in 1..=count {
        first = first.message(items::activity_done("flooded", id));
    }
    bench.create_with("flooded", first).await;
    bench
}

/// Each turn takes as many messages as asked for, oldest first; none is lost, none comes twice.
pub async fn a_claim_takes_no_more_messages_than_asked<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = flooded(factory, 7).await;
    for expected in [vec![1, 2, 3], vec![4, 5, 6], vec![7]] {
        let turn = claim_up_to(&bench, 3).await;
        assert_eq!(ids(&turn.item.messages), expected);
        bench.commit(&Turn::from(&turn), Commit::to(1)).await;
    }
    bench.idle("everything was taken").await;
}

/// What a claim leaves was not tried; what it took and gave back was.
pub async fn what_a_bounded_claim_leaves_was_not_tried<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = flooded(factory, 4).await;
    let turn = claim_up_to(&bench, 2).await;
    bench.abandon(&Turn::from(&turn), None).await;
    let turn = claim_up_to(&bench, 3).await;
    assert_eq!(ids(&turn.item.messages), [1, 2, 3]);
    assert_eq!(turn.message_attempts, [2, 2, 1]);
}

/// What comes during a bounded claim comes after what the claim left.
pub async fn newcomers_stand_behind_what_a_claim_left<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = flooded(factory, 4).await;
    let turn = claim_up_to(&bench, 2).await;
    bench.send(items::activity_done("flooded", 5)).await;
    bench.commit(&Turn::from(&turn), Commit::to(1)).await;
    let turn = claim_up_to(&bench, 10).await;
    assert_eq!(ids(&turn.item.messages), [3, 4, 5]);
}

/// A bound of zero is a bound of one: a claim always takes something.
pub async fn a_claim_takes_at_least_one_message<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = flooded(factory, 2).await;
    let turn = claim_up_to(&bench, 0).await;
    assert_eq!(ids(&turn.item.messages), [1]);
}

/// The start comes with the claim though older messages fill it.
pub async fn a_start_comes_with_a_full_claim<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for name in ["a", "b", "c", "d"] {
        bench.send(items::signal("early", name)).await;
    }
    bench.start("early").await;
    bench.send(items::signal("early", "e")).await;
    let turn = claim_up_to(&bench, 2).await;
    let messages = &turn.item.messages;
    assert!(messages.contains(&items::start("early")), "{messages:?}");
    assert!(messages.len() <= 3, "{messages:?}");
    let mut seen = signals(messages);
    bench.commit(&Turn::from(&turn), Commit::first()).await;
    let mut rounds = Rounds::default();
    while let Some(turn) = bench.claim().await {
        rounds.next();
        seen.extend(signals(&turn.item.messages));
        bench.commit(&turn, Commit::to(1)).await;
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
}

/// The message that begins the next execution comes with the claim though older messages fill it.
pub async fn a_continue_as_new_comes_with_a_full_claim<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("moving", Commit::first().continued("next"))
        .await;
    for name in ["a", "b", "c", "d"] {
        bench.send(items::signal("moving", name)).await;
    }
    bench.send(items::next_execution("moving")).await;
    let turn = claim_up_to(&bench, 2).await;
    let messages = &turn.item.messages;
    assert!(
        messages.contains(&items::next_execution("moving")),
        "{messages:?}"
    );
    assert!(messages.len() <= 3, "{messages:?}");
}

/// The message that begins the next execution comes with the claim though an older start waits too.
pub async fn a_continue_as_new_goes_before_an_older_start<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("moving", Commit::first().continued("next"))
        .await;
    bench.start("moving").await;
    for name in ["a", "b", "c", "d"] {
        bench.send(items::signal("moving", name)).await;
    }
    let next = items::next_execution("moving");
    bench.send(next.clone()).await;
    let turn = claim_up_to(&bench, 2).await;
    let messages = &turn.item.messages;
    assert!(messages.contains(&next), "{messages:?}");
    assert!(messages.len() <= 3, "{messages:?}");
}

/// Queue messages stay behind a continue-as-new that carries unread ones, so that what is carried does not grow; they
/// come with a later turn, in order and as a first attempt.
pub async fn queue_messages_stay_behind_carried_ones<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let carrying = items::carrying_execution("actor", &["1", "2"]);
    let first = Commit::first().continued("next").message(carrying.clone());
    bench.create_with("actor", first).await;
    for data in ["3", "4"] {
        bench.send(items::queue_message("actor", data)).await;
    }
    bench.send(items::signal("actor", "go")).await;
    let turn = bench.turn_of("actor").await;
    let expected = [carrying.clone(), items::signal("actor", "go")];
    assert_eq!(turn.item.messages, expected);
    let next = Commit::first_of(2).continued("next").message(carrying);
    bench.commit(&turn, next).await;

    let turn = bench.claimed("actor").await;
    assert_eq!(items::kinds_of(&turn.item.messages), ["ContinueAsNew"]);
    let empty = items::next_execution("actor");
    let next = Commit::first_of(3).continued("next").message(empty);
    bench.commit(&Turn::from(&turn), next).await;

    let turn = bench.turn_of("actor").await;
    let expected = [
        items::queue_message("actor", "3"),
        items::queue_message("actor", "4"),
        items::next_execution("actor"),
    ];
    assert_eq!(turn.item.messages, expected);
    assert_eq!(turn.attempt, 1, "none was tried before");
}

/// Queue messages come with a turn that begins no execution, whatever was carried before.
pub async fn queue_messages_come_after_carried_ones<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let carrying = items::carrying_execution("actor", &["1"]);
    let first = Commit::first().continued("next").message(carrying);
    bench.create_with("actor", first).await;
    for data in ["2", "3"] {
        bench.send(items::queue_message("actor", data)).await;
    }
    bench.advance("actor", Commit::first_of(2)).await;
    let turn = claim_up_to(&bench, 10).await;
    let expected = [
        items::queue_message("actor", "2"),
        items::queue_message("actor", "3"),
    ];
    assert_eq!(turn.item.messages, expected);
}

/// A request to cancel comes with the claim though older messages fill it: the instance may be unable to take those.
pub async fn a_request_to_cancel_comes_with_a_full_claim<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = flooded(factory, 4).await;
    bench.send(items::cancel("flooded")).await;
    let turn = claim_up_to(&bench, 2).await;
    let messages = &turn.item.messages;
    assert!(messages.contains(&items::cancel("flooded")), "{messages:?}");
    assert!(messages.len() <= 3, "{messages:?}");
    // What the claim took is taken, and what it left comes next.
    bench.commit(&Turn::from(&turn), Commit::to(1)).await;
    let turn = claim_up_to(&bench, 10).await;
    assert_eq!(ids(&turn.item.messages), [3, 4]);
}

fn signals(messages: &[WorkItem]) -> Vec<String> {
    let names = messages.iter().filter_map(|item| match item {
        WorkItem::ExternalRaised { name, .. } => Some(name.clone()),
        _ => None,
    });
    names.collect()
}

/// No claim takes more than a thousand messages, through either door and whatever it asks for.
pub async fn no_claim_takes_more_than_a_thousand_messages<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = flooded(factory, 2_100).await;
    let turn = bench.turn_of("flooded").await;
    let first = ids(&turn.item.messages);
    assert!(
        first.len() <= CLAIM_MESSAGES_MAX,
        "{} by fetch",
        first.len()
    );
    bench.commit(&turn, Commit::to(1)).await;
    let turn = claim_up_to(&bench, usize::MAX).await;
    let second = ids(&turn.item.messages);
    assert!(
        second.len() <= CLAIM_MESSAGES_MAX,
        "{} by claim",
        second.len()
    );
    bench.commit(&Turn::from(&turn), Commit::to(1)).await;

    let mut all = [first, second].concat();
    let mut rounds = Rounds::default();
    while let Some(turn) = bench.claim().await {
        rounds.next();
        all.extend(ids(&turn.item.messages));
        bench.commit(&turn, Commit::to(1)).await;
    }
    assert_eq!(all, (1..=2_100).collect::<Vec<u64>>());
}

/// No claim takes more than four megabytes of messages, through either door.
pub async fn no_claim_takes_more_than_four_megabytes<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("heavy").await;
    let text = "x".repeat(MEGABYTE);
    for _ in 0..10 {
        bench.send(items::queue_message("heavy", &text)).await;
    }
    let turn = bench.turn_of("heavy").await;
    let by_fetch = turn.item.messages.len();
    bench.commit(&turn, Commit::to(1)).await;
    let turn = claim_up_to(&bench, usize::MAX).await;
    let by_claim = turn.item.messages.len();
    bench.commit(&Turn::from(&turn), Commit::to(1)).await;
    for taken in [by_fetch, by_claim] {
        assert!(taken > 0, "a claim takes something");
        assert!(taken * MEGABYTE <= CLAIM_BYTES_MAX, "{taken} megabytes");
    }
    let rest = bench.turn_of("heavy").await;
    assert!(rest.item.messages.len() <= 10 - by_fetch - by_claim);
}

/// A message that is larger than the bound is delivered all the same.
pub async fn a_message_beyond_the_bound_is_delivered<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("heavy").await;
    let large = items::queue_message("heavy", &"x".repeat(CLAIM_BYTES_MAX + 1));
    bench.send(large.clone()).await;
    bench.send(items::signal("heavy", "next")).await;
    let turn = bench.turn_of("heavy").await;
    assert!(turn.item.messages == [large], "it comes alone");
    bench.commit(&turn, Commit::to(1)).await;
    let turn = bench.claimed("heavy").await;
    assert_eq!(turn.item.messages, [items::signal("heavy", "next")]);
}
