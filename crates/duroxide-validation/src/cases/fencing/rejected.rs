//! What is rejected changes nothing.

use duroxide_core::Event;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Rounds, items, kinds};

/// Event id 0 means "no position" and is never stored.
pub async fn an_event_without_a_position_is_rejected<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("zero").await;
    let turn = bench.turn_of("zero").await;
    let commit = Commit::to(1).event(0, kinds::started());
    let error = bench.try_commit(&turn, commit).await;
    assert!(!error.expect_err("id 0").is_retryable());
    assert_eq!(bench.read("zero").await, Vec::new());

    let event = Event::with_event_id(0, "zero", 1, None, kinds::started());
    let appended = bench
        .store
        .append_with_execution("zero", 1, vec![event])
        .await;
    assert!(!appended.expect_err("id 0").is_retryable());
    bench.commit(&turn, Commit::first()).await;
}

/// An append never overwrites, and is all or nothing.
pub async fn an_append_never_overwrites<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("kept").await;
    let before = bench.read("kept").await;
    let event = |id| Event::with_event_id(id, "kept", 1, None, kinds::completed("new"));
    let clash = bench
        .store
        .append_with_execution("kept", 1, vec![event(5), event(1)])
        .await;
    assert!(clash.is_err(), "event 1 exists");
    assert_eq!(bench.read("kept").await, before);

    let fine = bench
        .store
        .append_with_execution("kept", 1, vec![event(5)])
        .await;
    fine.expect("a new event can be appended");
    assert_eq!(bench.read("kept").await.len(), 2);
}

/// One token commits once, also without a race.
pub async fn a_second_commit_is_rejected<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("once").await;
    let turn = bench.turn_of("once").await;
    bench.commit(&turn, Commit::first()).await;
    let again = Commit::to(1)
        .event(2, kinds::completed("again"))
        .work(items::activity("once", 2))
        .message(items::signal("once", "again"));
    assert!(bench.try_commit(&turn, again).await.is_err());
    assert_eq!(bench.read("once").await.len(), 1);
    bench.no_work("a refused commit schedules nothing").await;
    bench.idle("a refused commit sends nothing").await;
}

/// What was given back cannot be committed, nor given back again.
pub async fn an_abandoned_turn_is_over<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("back").await;
    let turn = bench.turn_of("back").await;
    bench.abandon(&turn, None).await;
    assert!(bench.try_commit(&turn, Commit::first()).await.is_err());
    let error = bench.try_abandon(&turn, None, false).await;
    assert!(!error.expect_err("it was given back").is_retryable());
    assert_eq!(bench.turn_of("back").await.attempt, 2);
}

/// What was given back cannot be acked, renewed, nor given back again.
pub async fn an_abandoned_activity_is_over<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.schedule(items::activity("back", 1)).await;
    let work = bench.work().await;
    bench.give_back(&work, None, false).await;
    assert!(bench.try_finish(&work, None).await.is_err());
    assert!(bench.renew_work(&work, bench.lock).await.is_err());
    assert!(
        bench
            .store
            .abandon_work_item(&work.token, None, false)
            .await
            .is_err()
    );
    assert_eq!(bench.work().await.attempt, 2);
}

/// A worker can only report a result; anything else is rejected and the activity stays claimed.
pub async fn a_completion_must_be_a_result<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("typed").await;
    bench.schedule(items::activity("typed", 2)).await;
    let work = bench.work().await;
    for wrong in [
        items::signal("typed", "x"),
        items::start("typed"),
        work.item.clone(),
    ] {
        let error = bench.try_finish(&work, Some(wrong)).await;
        assert!(!error.expect_err("not a result").is_retryable());
    }
    bench.idle("nothing was delivered").await;
    bench.no_work("the activity stays claimed").await;
    bench.finish(&work).await;
}

/// Activities do not belong on the orchestrator queue.
pub async fn an_activity_is_no_orchestrator_message<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("typed").await;
    let wrong = items::activity("typed", 2);
    let error = bench.store.enqueue_for_orchestrator(wrong, None).await;
    assert!(!error.expect_err("wrong queue").is_retryable());
    bench.idle("nothing was enqueued").await;
}

/// The worker queue takes activities only, from every caller.
pub async fn the_worker_queue_takes_activities_only<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("typed").await;
    for wrong in [
        items::signal("typed", "x"),
        items::start("typed"),
        items::activity_done("typed", 2),
    ] {
        let error = bench.store.enqueue_for_worker(wrong.clone()).await;
        assert!(!error.expect_err("wrong queue").is_retryable());
        bench.send(items::signal("typed", "go")).await;
        let turn = bench.turn_of("typed").await;
        let error = bench.try_commit(&turn, Commit::to(1).work(wrong)).await;
        assert!(!error.expect_err("wrong queue").is_retryable());
        bench.commit(&turn, Commit::to(1)).await;
    }
    bench.no_work("nothing was enqueued").await;
}

/// A commit schedules a thousand activities, and they are handed out in order.
pub async fn a_commit_may_schedule_a_thousand_activities<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let ids = 2..=1_001;
    let mut wide = Commit::first();
    for id in ids.clone() {
        wide = wide.work(items::activity("wide", id));
    }
    bench.create_with("wide", wide).await;
    let mut claimed = Vec::new();
    let mut rounds = Rounds::default();
    while let Some(work) = bench.find_work_for(bench.lock * 100).await {
        rounds.next();
        claimed.push(work.id());
    }
    assert_eq!(claimed, ids.collect::<Vec<u64>>());
}

/// A failed commit cancels nothing, sets no status, no key and no custom status.
pub async fn a_failed_commit_has_no_side_effect<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first().work(items::activity("whole", 2));
    bench.create_with("whole", first).await;
    bench.send(items::signal("whole", "go")).await;
    let turn = bench.turn_of("whole").await;
    let clash = Commit::to(1)
        .event(2, kinds::kv_set("k", "v"))
        .and(kinds::custom_status(Some("busy")))
        .event(1, kinds::started())
        .cancel("whole", 2)
        .pinned("99.0.0")
        .status("Failed", Some("never"));
    assert!(bench.try_commit(&turn, clash).await.is_err());

    assert_eq!(bench.store.get_kv_value("whole", "k").await, Ok(None));
    assert_eq!(bench.store.get_custom_status("whole", 0).await, Ok(None));
    assert_eq!(bench.work().await.id(), 2, "it was not cancelled");
    if let Some(admin) = bench.store.as_management_capability() {
        let info = admin.get_instance_info("whole").await.expect("details");
        assert_eq!((info.status.as_str(), info.output), ("Running", None));
    }
    bench.commit(&turn, Commit::to(1)).await;
}
