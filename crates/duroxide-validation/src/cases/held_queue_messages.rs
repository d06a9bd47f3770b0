//! Queue messages that are held back: the code has some that it did not read and waits for none.

use duroxide_core::WorkItem;
use duroxide_core::provider::{CLAIM_QUEUE_MESSAGES_MAX, Pausing, Restoring};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Rounds, Turn, hold_to, items, kinds};

async fn hold<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, turn: &Turn, commit: Commit) {
    let held = hold_to(&*bench.store, turn, commit).await;
    assert!(
        held.expect("a turn under a valid lease commits"),
        "the store can"
    );
}

/// A running instance that holds its queue messages back.
async fn holding<F: ProviderFactory + ?Sized>(factory: &F) -> Bench<'_, F> {
    let bench = Bench::open(factory).await;
    bench.start("actor").await;
    let turn = bench.turn_of("actor").await;
    hold(&bench, &turn, Commit::first()).await;
    bench
}

async fn queue_messages<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    numbers: impl Iterator<Item = usize>,
) {
    for number in numbers {
        let queue_message = items::queue_message("actor", &number.to_string());
        bench.send(queue_message).await;
    }
}

/// The first turn that the next claims find; each of them may only come a step further.
async fn soon<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> Turn {
    for _ in 0..100 {
        if let Some(turn) = bench.claim().await {
            return turn;
        }
    }
    panic!("an instance is ready to be claimed");
}

/// Takes turns until nothing is left. The numbers on the queue messages, in the order in which they came.
async fn numbers_to_come<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> Vec<usize> {
    let mut seen = Vec::new();
    let mut rounds = Rounds::default();
    while let Some(turn) = bench.claim().await {
        rounds.next();
        seen.extend(turn.item.messages.iter().filter_map(number));
        bench.commit(&turn, Commit::to(1)).await;
    }
    seen
}

fn number(item: &WorkItem) -> Option<usize> {
    match item {
        WorkItem::QueueMessage { data, .. } => data.parse().ok(),
        _ => None,
    }
}

/// They are not claimed and do not make their instance claimable; the next commit that does not ask for it ends that.
pub async fn queue_messages_are_held_back_until_the_next_commit<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = holding(factory).await;
    queue_messages(&bench, 1..3).await;
    bench.idle("they are held back").await;
    bench.send(items::activity_done("actor", 2)).await;
    queue_messages(&bench, 3..4).await;
    let turn = soon(&bench).await;
    assert_eq!(turn.item.messages, [items::activity_done("actor", 2)]);
    hold(&bench, &turn, Commit::to(1)).await;
    bench.idle("they are held back still").await;
    bench.send(items::activity_done("actor", 3)).await;
    let turn = soon(&bench).await;
    bench.commit(&turn, Commit::to(1)).await;
    let turn = bench.turn_of("actor").await;
    let expected = ["1", "2", "3"].map(|data| items::queue_message("actor", data));
    assert_eq!(turn.item.messages, expected);
    assert_eq!(turn.attempt, 1, "none was tried before");
}

/// Those that a claim left are held back too.
pub async fn queue_messages_that_were_queued_before_are_held_back<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("actor").await;
    let count = 3 * CLAIM_QUEUE_MESSAGES_MAX;
    queue_messages(&bench, 0..count).await;
    let turn = bench.turn_of("actor").await;
    let first: Vec<_> = turn.item.messages.iter().filter_map(number).collect();
    hold(&bench, &turn, Commit::to(1)).await;
    bench.idle("the others are held back").await;
    bench.send(items::signal("actor", "go")).await;
    let turn = soon(&bench).await;
    assert_eq!(turn.item.messages, [items::signal("actor", "go")]);
    bench.commit(&turn, Commit::to(1)).await;
    let all = [first, numbers_to_come(&bench).await].concat();
    assert_eq!(all, (0..count).collect::<Vec<_>>());
}

/// Whatever is no queue message is handed out as always.
pub async fn everything_else_passes<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = holding(factory).await;
    for passes in [
        items::activity_done("actor", 2),
        items::child_done("actor", 3),
        items::signal("actor", "go"),
        items::timer("actor", 4, 0),
        items::cancel("actor"),
        items::terminate("actor"),
    ] {
        queue_messages(&bench, 1..3).await;
        bench.send(passes.clone()).await;
        let turn = soon(&bench).await;
        assert_eq!(turn.item.messages, [passes]);
        hold(&bench, &turn, Commit::to(1)).await;
    }
    bench.idle("the queue messages are held back").await;
}

/// A timer that a holding turn sets fires.
pub async fn a_timer_of_a_holding_instance_fires<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("actor").await;
    let turn = bench.turn_of("actor").await;
    let at = bench.now_ms() + u64::try_from(bench.brief().as_millis()).unwrap_or(0);
    let timer = items::timer("actor", 2, at);
    hold(&bench, &turn, Commit::first().message(timer.clone())).await;
    queue_messages(&bench, 1..3).await;
    bench.idle("it is not due").await;
    bench.outlive(bench.brief()).await;
    assert_eq!(soon(&bench).await.item.messages, [timer]);
}

/// However many queue messages were sent before it.
pub async fn a_result_passes_a_crowd_of_queue_messages<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let count = 2_500;
    let mut first = Commit::first();
    for number in 0..count {
        first = first.message(items::queue_message("actor", &number.to_string()));
    }
    bench.start("actor").await;
    let turn = bench.turn_of("actor").await;
    hold(&bench, &turn, first).await;
    bench.send(items::activity_done("actor", 2)).await;
    let turn = soon(&bench).await;
    assert_eq!(turn.item.messages, [items::activity_done("actor", 2)]);
    bench.commit(&turn, Commit::to(1)).await;
    let all = numbers_to_come(&bench).await;
    assert!(all == (0..count).collect::<Vec<_>>(), "{all:?}");
}

/// Those that come while others come back stand behind them.
pub async fn later_queue_messages_stay_behind_held_ones<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = holding(factory).await;
    let count = 3 * CLAIM_QUEUE_MESSAGES_MAX;
    queue_messages(&bench, 0..count).await;
    bench.idle("they are held back").await;
    queue_messages(&bench, count..count + 2).await;
    bench.nudge("actor", Commit::to(1)).await;
    let mut seen = Vec::new();
    let mut sent = count + 2;
    let mut rounds = Rounds::default();
    while let Some(turn) = bench.claim().await {
        rounds.next();
        seen.extend(turn.item.messages.iter().filter_map(number));
        if sent < count + 6 {
            queue_messages(&bench, sent..sent + 1).await;
            sent += 1;
        }
        bench.commit(&turn, Commit::to(1)).await;
    }
    assert_eq!(seen, (0..count + 6).collect::<Vec<_>>());
}

/// A hold that begins anew while queue messages come back keeps their order.
pub async fn a_second_hold_keeps_the_order<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = holding(factory).await;
    let count = 3 * CLAIM_QUEUE_MESSAGES_MAX;
    queue_messages(&bench, 0..count).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        bench.send(items::signal("actor", "go")).await;
        let turn = soon(&bench).await;
        bench.commit(&turn, Commit::to(1)).await;
        let turn = soon(&bench).await;
        seen.extend(turn.item.messages.iter().filter_map(number));
        hold(&bench, &turn, Commit::to(1)).await;
        bench.idle("the others are held back again").await;
    }
    bench.nudge("actor", Commit::to(1)).await;
    seen.extend(numbers_to_come(&bench).await);
    assert_eq!(seen, (0..count).collect::<Vec<_>>());
}

/// No claim takes more of them than the contract says: code may read one per execution and carry the others.
pub async fn a_claim_takes_a_bounded_number_of_queue_messages<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("actor").await;
    let count = CLAIM_QUEUE_MESSAGES_MAX + 5;
    queue_messages(&bench, 0..count).await;
    bench.send(items::signal("actor", "go")).await;
    let turn = bench.turn_of("actor").await;
    let first: Vec<_> = turn.item.messages.iter().filter_map(number).collect();
    assert!(first.len() <= CLAIM_QUEUE_MESSAGES_MAX, "{}", first.len());
    bench.commit(&turn, Commit::to(1)).await;
    let all = [first, numbers_to_come(&bench).await].concat();
    assert_eq!(all, (0..count).collect::<Vec<_>>());
}

/// A commit that holds is a commit: it stores all of the turn, under its lease.
pub async fn a_holding_commit_is_a_commit<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("actor").await;
    let turn = bench.turn_of("actor").await;
    let commit = || {
        Commit::first()
            .event(2, kinds::activity_scheduled("A"))
            .work(items::activity("actor", 2))
            .message(items::signal("other", "hello"))
            .message(items::start("other"))
    };
    hold(&bench, &turn, commit()).await;
    assert_eq!(bench.read("actor").await.len(), 2);
    assert_eq!(bench.turn_of("other").await.item.messages.len(), 2);
    assert_eq!(bench.work().await.item, items::activity("actor", 2));
    let again = hold_to(&*bench.store, &turn, commit()).await;
    assert!(again.is_err(), "the lease has ended");
}

/// A commit whose lease is lost holds nothing back.
pub async fn a_lost_lease_holds_nothing_back<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("actor").await;
    queue_messages(&bench, 1..2).await;
    let old = bench.turn_of("actor").await;
    bench.outlive(bench.lock).await;
    let new = bench.turn_of("actor").await;
    let refused = hold_to(&*bench.store, &old, Commit::to(1)).await;
    assert!(refused.is_err(), "it was taken over");
    bench.commit(&new, Commit::to(1)).await;
    queue_messages(&bench, 2..3).await;
    assert_eq!(numbers_to_come(&bench).await, [2]);
}

/// A claim that is given back, or whose lease ran out, ends no hold.
pub async fn only_a_commit_ends_a_hold<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = holding(factory).await;
    queue_messages(&bench, 1..3).await;
    let go = items::signal("actor", "go");
    bench.send(go.clone()).await;
    let turn = soon(&bench).await;
    bench.abandon(&turn, None).await;
    let turn = soon(&bench).await;
    assert_eq!(turn.item.messages, std::slice::from_ref(&go));
    bench.outlive(bench.lock).await;
    let turn = soon(&bench).await;
    assert_eq!(turn.item.messages, [go]);
    bench.commit(&turn, Commit::to(1)).await;
    assert_eq!(numbers_to_come(&bench).await, [1, 2]);
}

/// The next execution of a holding instance begins without them, and gets them when it wants them.
pub async fn a_hold_reaches_into_the_next_execution<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = holding(factory).await;
    queue_messages(&bench, 1..3).await;
    bench.send(items::signal("actor", "go")).await;
    let turn = soon(&bench).await;
    let next = items::next_execution("actor");
    let continued = Commit::to(1).event(2, kinds::continued("next"));
    let continued = continued.status("ContinuedAsNew", Some("next"));
    hold(&bench, &turn, continued.message(next.clone())).await;
    let turn = soon(&bench).await;
    assert_eq!(turn.item.messages, [next]);
    bench.commit(&turn, Commit::first_of(2)).await;
    let turn = bench.turn_of("actor").await;
    assert_eq!(turn.item.messages.iter().filter_map(number).count(), 2);
}

/// What was held back for an instance that has ended is handed out as always, also if its last commit asked for a hold.
pub async fn an_ended_instance_holds_nothing_back<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = holding(factory).await;
    queue_messages(&bench, 1..3).await;
    bench.send(items::cancel("actor")).await;
    let turn = soon(&bench).await;
    let failed = Commit::to(1).event(2, kinds::failed("cancelled"));
    hold(&bench, &turn, failed.status("Failed", Some("cancelled"))).await;
    assert_eq!(numbers_to_come(&bench).await, [1, 2]);
}

/// An instance that is deleted and started again gets its queue messages, and none of the earlier life.
pub async fn a_later_life_holds_nothing_back<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = holding(factory).await;
    queue_messages(&bench, 1..3).await;
    bench.idle("they are held back").await;
    let deleted = bench.admin().delete_instance("actor", true).await;
    deleted.expect("an instance can be deleted by force");
    bench.start("actor").await;
    queue_messages(&bench, 3..4).await;
    let turn = soon(&bench).await;
    let kinds = items::kinds_of(&turn.item.messages);
    assert_eq!(kinds, ["StartOrchestration", "QueueMessage"]);
    bench.commit(&turn, Commit::first()).await;
    queue_messages(&bench, 4..5).await;
    assert_eq!(numbers_to_come(&bench).await, [4]);
}

/// A hold and what it holds back are there after the store was opened again.
pub async fn a_hold_outlives_the_process<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = holding(factory).await;
    queue_messages(&bench, 1..3).await;
    bench.idle("they are held back").await;
    let bench = bench.reopen().await;
    queue_messages(&bench, 3..4).await;
    bench.idle("they are held back still").await;
    bench.send(items::signal("actor", "go")).await;
    let turn = soon(&bench).await;
    assert_eq!(turn.item.messages, [items::signal("actor", "go")]);
    bench.commit(&turn, Commit::to(1)).await;
    assert_eq!(numbers_to_come(&bench).await, [1, 2, 3]);
}

/// An operator who resumes an instance does not make it read.
pub async fn pausing_leaves_a_hold_as_it_is<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = holding(factory).await;
    queue_messages(&bench, 1..2).await;
    let admin = bench.admin();
    let paused = admin.pause_instance("actor").await.expect("an answer");
    assert_eq!(paused, Some(Pausing::Done));
    queue_messages(&bench, 2..3).await;
    let resumed = admin.resume_instance("actor").await.expect("an answer");
    assert_eq!(resumed, Some(Pausing::Done));
    bench.idle("they are held back").await;
    bench.send(items::signal("actor", "go")).await;
    let turn = soon(&bench).await;
    assert_eq!(turn.item.messages, [items::signal("actor", "go")]);
    bench.commit(&turn, Commit::to(1)).await;
    assert_eq!(numbers_to_come(&bench).await, [1, 2]);
}

/// An operator sees what is held back among the pending messages, each since it was sent.
pub async fn held_queue_messages_are_told_as_pending<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = holding(factory).await;
    queue_messages(&bench, 1..3).await;
    bench.idle("they are held back").await;
    let pending = bench.admin().pending_work("actor").await;
    let pending = pending.expect("an answer").expect("the store can tell");
    let kinds: Vec<_> = pending.messages.iter().map(|m| m.kind.as_str()).collect();
    assert_eq!(kinds, ["QueueMessage", "QueueMessage"]);
    for message in pending.messages {
        assert!(message.visible_at_ms <= bench.now_ms(), "{message:?}");
    }
}

/// Queue messages that cannot be read do not stop those behind them, however many they are.
pub async fn unreadable_queue_messages_stop_none_behind_them<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = holding(factory).await;
    queue_messages(&bench, 0..2 * CLAIM_QUEUE_MESSAGES_MAX).await;
    bench.idle("they are held back").await;
    factory.corrupt_orchestrator_messages("actor").await;
    queue_messages(&bench, 500..501).await;
    bench.send(items::signal("actor", "go")).await;
    let turn = soon(&bench).await;
    assert_eq!(turn.item.messages, [items::signal("actor", "go")]);
    bench.commit(&turn, Commit::to(1)).await;
    let turn = soon(&bench).await;
    assert_eq!(turn.item.messages, [items::queue_message("actor", "500")]);
}

/// What is held back is part of a snapshot, and comes in its order where that is restored.
pub async fn a_snapshot_has_what_is_held_back<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = holding(factory).await;
    let count = 3 * CLAIM_QUEUE_MESSAGES_MAX;
    queue_messages(&bench, 0..count).await;
    bench.idle("they are held back").await;
    let taken = bench.admin().snapshot_instance("actor").await;
    let taken = taken.expect("an answer").expect("the store can do that");
    let other = Bench::open(factory).await;
    let restored = other.admin().restore_instance(&taken, None).await;
    assert_eq!(restored, Ok(Some(Restoring::Done)));
    let turn = soon(&other).await;
    let first: Vec<_> = turn.item.messages.iter().filter_map(number).collect();
    hold(&other, &turn, Commit::to(1)).await;
    other.idle("the others are held back").await;
    other.nudge("actor", Commit::to(1)).await;
    let all = [first, numbers_to_come(&other).await].concat();
    assert_eq!(all, (0..count).collect::<Vec<_>>());
}
