//! An instance goes on in the other store from where it was, whatever it was waiting for.

use std::time::Duration;

use duroxide_core::EventKind;
use duroxide_core::provider::TagFilter;

use super::moved;
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, hold_to, items, kinds};

/// That an instance asks for a child with an id of its own.
fn asks_for(child: &str) -> EventKind {
    EventKind::SubOrchestrationScheduled {
        name: "ChildOrch".to_owned(),
        instance: child.to_owned(),
        input: "{}".to_owned(),
    }
}

/// Queued activities are claimed by tag and session, with their attempts, and their results reach the instance.
pub async fn restored_activities_are_run<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .work(items::activity("busy", 2))
        .work(items::activity("busy", 3))
        .work(items::tagged_activity("busy", 4, "gpu"))
        .work(items::session_activity("busy", 5, "s"));
    bench.create_with("busy", first).await;
    let work = bench.work().await;
    bench.give_back(&work, None, false).await;
    let later = bench.work().await;
    assert_eq!(later.id(), 2);
    bench.give_back(&later, Some(bench.lock), true).await;

    let other = moved(&bench, &["busy"]).await;
    let work = other.work().await;
    assert_eq!(
        (work.id(), work.attempt),
        (3, 1),
        "the first one is delayed"
    );
    let tagged = other.find_tagged(&TagFilter::tags(["gpu"])).await;
    assert_eq!(tagged.expect("the tag came along").id(), 4);
    assert_eq!(other.work_as("an owner").await.id(), 5);
    other.no_work("the first one is delayed").await;
    other.outlive(bench.lock).await;
    let delayed = other.work().await;
    assert_eq!((delayed.id(), delayed.attempt), (2, 2));
    other.finish(&delayed).await;
    let turn = other.turn_of("busy").await;
    assert_eq!(turn.item.messages, [items::activity_done("busy", 2)]);
    assert_eq!(turn.item.history.len(), 1);
}

/// A timer that is not due waits for its time in the other store too.
pub async fn a_restored_timer_fires_when_it_is_due<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let due = bench.now_ms() + u64::try_from(bench.lock.as_millis()).unwrap_or(u64::MAX);
    let timer = items::timer("sleeper", 2, due);
    bench
        .create_with("sleeper", Commit::first().message(timer.clone()))
        .await;
    let other = moved(&bench, &["sleeper"]).await;
    other.idle("the timer is not due").await;
    other.outlive(bench.lock).await;
    assert_eq!(other.turn_of("sleeper").await.item.messages, [timer]);
}

/// Messages come in the order in which they were sent, with the attempts they had.
pub async fn restored_messages_keep_order_and_attempts<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("queue").await;
    let sent: Vec<_> = (0..5)
        .map(|n| items::queue_message("queue", &format!("message {n}")))
        .chain([items::signal("queue", "go")])
        .collect();
    for item in &sent {
        bench.send(item.clone()).await;
    }
    for _ in 0..2 {
        let turn = bench.turn_of("queue").await;
        bench.abandon(&turn, None).await;
    }
    let other = moved(&bench, &["queue"]).await;
    let turn = other.turn_of("queue").await;
    assert_eq!(turn.item.messages, sent);
    assert_eq!(turn.attempt, 3);
}

/// An instance that rests does not rest where it is restored, and nothing overtakes what rested.
pub async fn what_rests_comes_first_where_it_is_restored<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("queue").await;
    let sent = ["0", "1"].map(|data| items::queue_message("queue", data));
    bench.send(sent[0].clone()).await;
    let turn = bench.turn_of("queue").await;
    let hour = Duration::from_secs(3_600);
    let rested = bench.store.rest_orchestration_item(&turn.token, hour, true);
    assert!(rested.await.expect("a valid lease"), "the store can");
    bench.idle("it rests").await;
    let other = moved(&bench, &["queue"]).await;
    other.send(sent[1].clone()).await;
    let turn = other.turn_of("queue").await;
    assert_eq!(turn.item.messages, sent);
}

/// Queue messages that are held back come in their order: the hold ends, and the next turn may begin another one.
pub async fn held_back_queue_messages_come_along<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("actor").await;
    let turn = bench.turn_of("actor").await;
    let held = hold_to(&*bench.store, &turn, Commit::first()).await;
    assert!(held.expect("a valid lease"), "the store can");
    let sent = ["0", "1", "2"].map(|data| items::queue_message("actor", data));
    for item in &sent {
        bench.send(item.clone()).await;
    }
    bench.idle("they are held back").await;
    let other = moved(&bench, &["actor"]).await;
    assert_eq!(other.turn_of("actor").await.item.messages, sent);
}

/// A child and its parent still know each other, whichever is restored first: the result reaches the life that waits.
pub async fn a_restored_child_reports_to_its_parent<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let start = items::child_start("child", "ChildOrch", "parent");
    bench
        .create_with("parent", Commit::first().message(start))
        .await;
    bench
        .advance("child", Commit::first().child_of("parent"))
        .await;
    let other = moved(&bench, &["child", "parent"]).await;
    let children = other.admin().list_children("parent").await;
    assert_eq!(children.expect("a list"), ["child"]);
    let parent = other.admin().get_parent_id("child").await;
    assert_eq!(parent.expect("an answer").as_deref(), Some("parent"));
    let done = items::child_done("parent", 2);
    let end = Commit::to(1)
        .event(2, kinds::completed("42"))
        .status("Completed", Some("42"));
    other.nudge("child", end.message(done.clone())).await;
    assert_eq!(other.turn_of("parent").await.item.messages, [done]);
}

/// A child that has not begun is one of its restored parent: it begins, and goes with the parent.
pub async fn an_unborn_child_comes_along<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let start = items::child_start("unborn", "ChildOrch", "parent");
    bench
        .create_with(
            "parent",
            Commit::first().and(asks_for("unborn")).message(start),
        )
        .await;
    let other = moved(&bench, &["unborn", "parent"]).await;
    let deleted = other.admin().delete_instance("parent", true).await;
    deleted.expect("a root can be deleted");
    other
        .idle("a child does not begin without its parent")
        .await;

    let other = moved(&bench, &["parent", "unborn"]).await;
    let first = Commit::first().child_of("parent").completed("1");
    other
        .advance("unborn", first.message(items::child_done("parent", 2)))
        .await;
    other.turn_of("parent").await;
}

/// Between two executions: the next one begins in the other store.
pub async fn a_restored_instance_begins_its_next_execution<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("count", "1"))
        .continued("next");
    let carrying = items::carrying_execution("eternal", &["unread"]);
    bench
        .create_with("eternal", first.message(carrying.clone()))
        .await;
    bench.send(items::queue_message("eternal", "later")).await;
    let other = moved(&bench, &["eternal"]).await;
    let turn = other.turn_of("eternal").await;
    assert_eq!(
        turn.item.messages,
        [carrying],
        "what was carried is read before what is queued"
    );
    let values = &turn.item.kv_snapshot;
    assert_eq!(
        values.get("count").map(|entry| entry.value.as_str()),
        Some("1")
    );
    other.commit(&turn, Commit::first_of(2)).await;
    let turn = other.turn_of("eternal").await;
    assert_eq!(
        turn.item.messages,
        [items::queue_message("eternal", "later")]
    );
    assert_eq!(turn.item.execution_id, 2);
}

/// A paused instance stays paused, and goes on when it is resumed there.
pub async fn a_restored_pause_holds<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("paused", Commit::first().work(items::activity("paused", 2)))
        .await;
    bench
        .admin()
        .pause_instance("paused")
        .await
        .expect("a pause");
    bench.send(items::signal("paused", "go")).await;
    bench.idle("it is paused").await;
    bench.no_work("it is paused").await;
    let since = bench
        .admin()
        .paused_since("paused")
        .await
        .expect("an answer");
    let other = moved(&bench, &["paused"]).await;
    other.idle("it is paused").await;
    other.no_work("it is paused").await;
    assert_eq!(
        other
            .admin()
            .paused_since("paused")
            .await
            .expect("an answer"),
        since
    );
    other
        .admin()
        .resume_instance("paused")
        .await
        .expect("an end");
    assert_eq!(
        other.turn_of("paused").await.item.messages,
        [items::signal("paused", "go")]
    );
    assert_eq!(other.work().await.id(), 2);
}

/// A start that is not due begins in the other store when it is, with what was sent to it before.
pub async fn a_restored_start_begins_when_it_is_due<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .send_after(items::start("later"), Some(bench.lock))
        .await;
    let other = moved(&bench, &["later"]).await;
    other.idle("the start is not due").await;
    other.outlive(bench.lock + Duration::from_millis(1)).await;
    other.send(items::signal("later", "early")).await;
    let turn = other.turn_of("later").await;
    assert_eq!(
        items::kinds_of(&turn.item.messages),
        ["StartOrchestration", "ExternalRaised"]
    );
    other.commit(&turn, Commit::first().completed("1")).await;
    let history = other.read("later").await;
    assert_eq!(history.len(), 2);
}

/// A request to cancel comes along, and one to terminate is handed out at once.
pub async fn a_restored_request_to_cancel_is_carried_out<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("stopped").await;
    bench.create("killed").await;
    bench.send(items::cancel("stopped")).await;
    bench.send(items::terminate("killed")).await;
    let other = moved(&bench, &["stopped", "killed"]).await;
    for _ in 0..2 {
        let turn = other.turn().await;
        let sent = match turn.item.instance.as_str() {
            "stopped" => items::cancel("stopped"),
            _ => items::terminate("killed"),
        };
        assert_eq!(turn.item.messages, [sent]);
    }
}
