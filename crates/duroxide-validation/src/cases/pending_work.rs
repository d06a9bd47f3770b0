//! What lies in the queues for one instance: what an operator needs to see why it does not move.

use duroxide_core::provider::PendingWork;

use crate::ProviderFactory;
use crate::fixture::{Bench, NAME, VERSION, items};

async fn pending<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: &str) -> PendingWork {
    let told = bench.admin().pending_work(id).await;
    told.expect("an answer").expect("the store can tell")
}

/// Messages and activities of the instance and of no other, with the handler that a start asks for.
pub async fn messages_and_activities_of_an_instance_are_told<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.start("other").await;
    bench.start("new").await;
    let told = pending(&bench, "new").await;
    let [start] = &told.messages[..] else {
        panic!("one message: {told:?}");
    };
    assert_eq!(start.kind, "StartOrchestration");
    let handler = (NAME.to_owned(), Some(VERSION.to_owned()));
    assert_eq!(start.begins, Some(handler));
    assert_eq!(start.attempts, 0);
    assert!(start.visible_at_ms <= told.now_ms, "it is ready");
    assert_eq!(told.turn_leased_until_ms, None);
    assert_eq!(told.activities, []);

    bench.schedule(items::activity("new", 7)).await;
    let later = bench.lock * 4;
    bench
        .send_after(items::signal("new", "go"), Some(later))
        .await;
    let told = pending(&bench, "new").await;
    let kinds: Vec<_> = told.messages.iter().map(|m| m.kind.as_str()).collect();
    assert_eq!(kinds, ["StartOrchestration", "ExternalRaised"]);
    assert!(
        told.messages[1].visible_at_ms > told.now_ms,
        "it is not due"
    );
    assert_eq!(told.messages[1].begins, None);
    let [activity] = &told.activities[..] else {
        panic!("one activity: {told:?}");
    };
    assert_eq!((activity.execution_id, activity.activity_id), (1, 7));
    assert_eq!((activity.leased_until_ms, activity.attempts), (None, 0));
}

/// The store reports a lease while it holds, and an attempt stays counted.
pub async fn leases_and_attempts_are_told<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.start("held").await;
    bench.schedule(items::activity("held", 1)).await;
    let turn = bench.turn_of("held").await;
    let work = bench.work().await;
    let told = pending(&bench, "held").await;
    let until = told.turn_leased_until_ms.expect("a node holds it");
    assert!(until > told.now_ms);
    let until = told.activities[0].leased_until_ms.expect("a worker does");
    assert!(until > told.now_ms);
    assert_eq!(told.activities[0].attempts, 1);

    bench.abandon(&turn, None).await;
    bench.give_back(&work, None, false).await;
    let told = pending(&bench, "held").await;
    assert_eq!(told.turn_leased_until_ms, None, "given back");
    assert_eq!(told.messages[0].attempts, 1);
    assert_eq!(told.activities[0].leased_until_ms, None);
    assert_eq!(told.activities[0].attempts, 1);
    bench.turn_of("held").await;
    bench.outlive(bench.lock).await;
    let told = pending(&bench, "held").await;
    assert_eq!(told.turn_leased_until_ms, None, "the lease ran out");
}

/// An unknown instance is no error.
pub async fn nothing_lies_in_the_queues_for_a_stranger<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let told = pending(&bench, "nobody").await;
    assert_eq!((told.messages, told.activities), (Vec::new(), Vec::new()));
    assert_eq!(told.turn_leased_until_ms, None);
}
