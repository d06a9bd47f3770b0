//! An id that is deleted and started again is another instance: nothing of its earlier life reaches the later one.

use std::sync::Arc;

use duroxide_core::provider::{
    CachedHistories, CachedHistory, ClaimedTurn, Incarnation, InstanceQuery, Requeue, TurnClaim,
    TurnHistory,
};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Turn, items, kinds};

/// A dispatcher that holds this of every history.
struct Held(CachedHistory);

impl CachedHistories for Held {
    fn cached(&self, _instance: &str) -> Option<CachedHistory> {
        Some(self.0)
    }
}

async fn claim_holding<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    incarnation: Incarnation,
) -> ClaimedTurn {
    let held = CachedHistory {
        incarnation,
        execution_id: 1,
        last_event_id: 2,
    };
    let claim = TurnClaim {
        cached: Some(Arc::new(Held(held))),
        ..bench.ask()
    };
    let claimed = bench.claim_turns(claim).await.pop();
    claimed.expect("an instance is ready to be claimed")
}

fn two_events() -> Commit {
    Commit::first().and(kinds::activity_scheduled("A"))
}

/// Claims a new instance through the claim door and commits its first turn; returns the life that the claim told.
async fn born<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    instance: &str,
    first: Commit,
) -> Incarnation {
    bench.start(instance).await;
    let turn = bench.claimed(instance).await;
    bench.commit(&Turn::from(&turn), first).await;
    turn.incarnation.expect("the store tells lives")
}

async fn delete<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, instance: &str) {
    let deleted = bench.admin().delete_instance(instance, true).await;
    deleted.expect("an instance can be deleted by force");
}

/// A history of an earlier life is loaded, though execution and last event are the same.
pub async fn a_history_of_an_earlier_life_is_loaded<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = born(&bench, "twice", two_events()).await;
    delete(&bench, "twice").await;
    let second = born(&bench, "twice", two_events()).await;

    bench.send(items::signal("twice", "go")).await;
    let turn = claim_holding(&bench, first).await;
    assert_eq!(turn.history, TurnHistory::Loaded);
    assert_eq!(turn.item.history.len(), 2);
    bench.abandon_uncounted(&Turn::from(&turn)).await;

    let turn = claim_holding(&bench, second).await;
    match turn.history {
        TurnHistory::Loaded => assert_eq!(turn.item.history.len(), 2),
        TurnHistory::Unchanged(held) => {
            assert_eq!(held.incarnation, second, "what was confirmed");
            assert_eq!((held.execution_id, held.last_event_id), (1, 2));
        }
    }
}

/// The life that a claim of a new instance tells is the one that its commit stores.
pub async fn the_life_told_by_a_claim_is_the_one_stored<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let told = born(&bench, "told", Commit::first()).await;
    assert_eq!(
        bench.incarnation_of("told").await,
        Some(told),
        "the next turn"
    );
    let second = Commit::to(1).event(2, kinds::activity_scheduled("A"));
    bench.advance("told", second).await;
    assert_eq!(
        bench.incarnation_of("told").await,
        Some(told),
        "a later turn"
    );
    let continued = Commit::to(1)
        .event(3, kinds::continued("next"))
        .status("ContinuedAsNew", Some("next"));
    bench.advance("told", continued).await;
    bench.next_execution("told", Commit::first_of(2)).await;
    let next = bench.incarnation_of("told").await;
    assert_eq!(next, Some(told), "the next execution");
}

/// A claim of a new instance that came to nothing leaves nothing of its life behind.
pub async fn each_claim_of_a_new_instance_draws_a_life<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("unborn").await;
    let first = bench.claimed("unborn").await;
    bench.outlive(bench.lock).await;
    let second = bench.claimed("unborn").await;
    assert_ne!(first.incarnation, second.incarnation, "two claims");
    bench.commit(&Turn::from(&second), Commit::first()).await;
    assert_eq!(bench.incarnation_of("unborn").await, second.incarnation);
}

/// Two lives of one id, and two instances, have different incarnations.
pub async fn two_lives_of_an_id_differ<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = born(&bench, "twice", Commit::first()).await;
    let other = born(&bench, "other", Commit::first()).await;
    delete(&bench, "twice").await;
    let second = born(&bench, "twice", Commit::first()).await;
    assert_ne!(first, second);
    assert_ne!(first, other);
}

/// An activity names the life that scheduled it.
pub async fn an_activity_names_the_life_that_scheduled_it<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let with_work = || Commit::first().work(items::activity("busy", 2));
    let first = born(&bench, "busy", with_work()).await;
    let claimed = bench.claim_work(bench.ask_work(1)).await;
    assert_eq!(claimed[0].incarnation, Some(first));
    delete(&bench, "busy").await;
    let second = born(&bench, "busy", with_work()).await;
    let claimed = bench.claim_work(bench.ask_work(1)).await;
    assert_eq!(claimed[0].incarnation, Some(second));
}

/// A parent starts a child, is deleted before the child's first turn, and is started again; the child then ends.
///
/// A store may also have consumed the start of the child together with its parent.
///
/// Returns whether there was a child.
async fn outlived_by_its_child<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> bool {
    let first = two_events().message(items::child_start("child", "ChildOrch", "parent"));
    bench.create_with("parent", first).await;
    delete(bench, "parent").await;
    let child = bench.claim().await;
    bench.create_with("parent", two_events()).await;
    let was_there = child.is_some();
    if let Some(child) = child {
        let ended = Commit::first()
            .child_of("parent")
            .completed("late")
            .message(items::child_done("parent", 2));
        bench.commit(&child, ended).await;
    }
    was_there
}

/// The result of a child that an earlier life started is not delivered, through either door.
pub async fn a_childs_result_for_an_earlier_life_is_not_delivered<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    outlived_by_its_child(&bench).await;
    bench.send(items::signal("parent", "go")).await;
    let turn = bench.turn_of("parent").await;
    assert_eq!(turn.item.messages, [items::signal("parent", "go")]);

    let bench = Bench::open(factory).await;
    outlived_by_its_child(&bench).await;
    let claimed = bench.claim_turns(bench.ask()).await;
    assert!(claimed.is_empty(), "it is for nobody: {claimed:?}");
    bench.send(items::signal("parent", "go")).await;
    let turn = bench.claimed("parent").await;
    assert_eq!(turn.item.messages, [items::signal("parent", "go")]);
}

/// A result for an earlier life is kept as a dead letter.
pub async fn a_childs_result_for_an_earlier_life_is_kept<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let was_there = outlived_by_its_child(&bench).await;
    bench.idle("there is nothing for the parent").await;
    if !was_there {
        return;
    }
    let letters = bench.admin().list_dead_letters(10).await;
    let letters = letters.expect("a listing");
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert!(!letters[0].reason.is_empty(), "the reason is told");
}

/// A result for an earlier life does not come out of the dead letters: the later life's operations have the same
/// numbers.
pub async fn a_childs_result_for_an_earlier_life_is_not_requeued<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    outlived_by_its_child(&bench).await;
    bench.idle("there is nothing for the parent").await;
    let letters = bench.admin().list_dead_letters(10).await;
    for letter in letters.expect("a listing") {
        let answer = bench.admin().requeue_dead_letter(letter.id).await;
        let refused = matches!(answer, Ok(Some(Requeue::Refused { .. })));
        assert!(refused, "{answer:?}");
    }
    bench.idle("nothing was delivered").await;
}

/// The result of a child reaches the life that started it, also when both have continued as new.
pub async fn a_childs_result_reaches_its_parent<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = two_events().message(items::child_start("child", "ChildOrch", "parent"));
    bench.create_with("parent", first).await;
    let first = Commit::first().child_of("parent").continued("next");
    bench.advance("child", first).await;
    let done = Commit::first_of(2).completed("done");
    let done = done.message(items::child_done("parent", 2));
    bench.next_execution("child", done).await;
    let turn = bench.turn_of("parent").await;
    assert_eq!(turn.item.messages, [items::child_done("parent", 2)]);
    bench.abandon_uncounted(&turn).await;
    let turn = bench.claimed("parent").await;
    assert_eq!(turn.item.messages, [items::child_done("parent", 2)]);
}

/// A child whose parent was deleted is found among the roots, as bulk deletion takes it, also if the parent's id lives
/// again.
pub async fn a_child_whose_parent_was_deleted_is_a_root<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    if !outlived_by_its_child(&bench).await {
        return;
    }
    let roots = InstanceQuery::new().with_roots_only();
    let page = bench.admin().query_instances(&roots).await;
    let found = page.expect("a query is answered").items;
    let child = found.iter().find(|one| one.instance_id == "child");
    let child = child.expect("it has no parent any more");
    assert_eq!(child.parent, None);
}

/// A child whose parent was deleted before the child's first turn can be deleted, and is no child of a later parent.
pub async fn an_unstarted_child_of_a_deleted_parent_can_be_deleted<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    outlived_by_its_child(&bench).await;
    let children = bench.admin().list_children("parent").await;
    let children = children.expect("children are listed");
    assert!(
        children.is_empty(),
        "the second life has none: {children:?}"
    );
    let known = bench.admin().list_instances().await.expect("a list");
    if known.contains(&"child".to_owned()) {
        delete(&bench, "child").await;
    }
    let left = bench.admin().list_instances().await.expect("a list");
    assert_eq!(left, ["parent"]);
    delete(&bench, "parent").await;
}

/// Several parents ask for one child, before its first turn and after it: each hears of the refusal of its own start.
pub async fn each_parent_hears_of_the_refusal_of_its_start<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    two_ask_for_one_child(&bench, "first", "second").await;
    let began = Commit::first()
        .child_of("first")
        .message(items::child_failed("second", 2));
    bench.advance("child", began).await;
    let turn = bench.turn_of("second").await;
    assert_eq!(turn.item.messages, [items::child_failed("second", 2)]);
    two_ask_for_one_child(&bench, "third", "fourth").await;
    let refused = Commit::to(1)
        .message(items::child_failed("third", 2))
        .message(items::child_failed("fourth", 2));
    bench.advance("child", refused).await;
    // Which of them is claimed first is the store's choice.
    let mut told = Vec::new();
    for _ in 0..2 {
        let turn = bench.turn().await;
        let parent = turn.item.instance.clone();
        assert_eq!(turn.item.messages, [items::child_failed(&parent, 2)]);
        told.push(parent);
    }
    told.sort();
    assert_eq!(told, ["fourth", "third"]);
}

/// Both starts are queued before the child has a turn.
async fn two_ask_for_one_child<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    one: &str,
    other: &str,
) {
    let mut turns = Vec::new();
    for parent in [one, other] {
        bench.start(parent).await;
        turns.push((parent, bench.turn_of(parent).await));
    }
    for (parent, turn) in turns {
        let first = two_events().message(items::child_start("child", "ChildOrch", parent));
        bench.commit(&turn, first).await;
    }
}

/// A turn that continues as new refuses the start of a stranger, whose child has the id already: the stranger hears of
/// it, and the instance's own parent nothing.
pub async fn a_turn_that_continues_as_new_answers_who_asked<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let asks = |parent| two_events().message(items::child_start("child", "ChildOrch", parent));
    bench.create_with("own", asks("own")).await;
    bench
        .advance("child", Commit::first().child_of("own"))
        .await;
    bench.create_with("other", asks("other")).await;
    let continued = Commit::to(1)
        .event(2, kinds::continued("next"))
        .status("ContinuedAsNew", Some("next"))
        .message(items::next_execution("child"))
        .message(items::child_failed("other", 2));
    bench.advance("child", continued).await;
    let (child, other) = both_of(&bench, "child", "other").await;
    assert_eq!(child.item.messages, [items::next_execution("child")]);
    assert_eq!(other.item.messages, [items::child_failed("other", 2)]);
    bench
        .idle("the parent of the child has nothing to hear")
        .await;
}

/// A turn that continues as new asks for a child whose id is taken: the refusal reaches the next execution of the same
/// life.
pub async fn a_refusal_reaches_the_next_execution_of_who_asked<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("taken").await;
    let asks = two_events()
        .continued("next")
        .message(items::next_execution("asker"))
        .message(items::child_start("taken", "ChildOrch", "asker"));
    bench.create_with("asker", asks).await;
    let (asker, taken) = both_of(&bench, "asker", "taken").await;
    assert_eq!(asker.item.messages, [items::next_execution("asker")]);
    bench.commit(&asker, Commit::first_of(2)).await;
    let refusal = items::child_failed("asker", 2);
    bench
        .commit(&taken, Commit::to(1).message(refusal.clone()))
        .await;
    let turn = bench.turn_of("asker").await;
    assert_eq!(turn.item.execution_id, 2, "the next execution");
    assert_eq!(turn.item.messages, [refusal]);
}

/// The turns of two instances that are ready; which is claimed first is the store's choice.
async fn both_of<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    one: &str,
    other: &str,
) -> (Turn, Turn) {
    let (first, second) = (bench.turn().await, bench.turn().await);
    let (first, second) = if first.item.instance == one {
        (first, second)
    } else {
        (second, first)
    };
    let claimed = (&*first.item.instance, &*second.item.instance);
    assert_eq!(claimed, (one, other), "both are ready");
    (first, second)
}
