//! An instance that has ended gives way to another one.

use duroxide_core::provider::{IdState, StartRule, Submitted};
use futures::future::{join, join_all};

use super::{CALLERS, MEETINGS, begins_once, end, one_is, start, start_with, submit};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// The new life begins with its own messages; of the old one nothing is left, nor of its children.
pub async fn a_replaced_instance_leaves_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("key", "old"))
        .and(kinds::custom_status(Some("old")));
    bench.create_with("order", first).await;
    bench
        .create_child("order-child", "order", Commit::first().completed("1"))
        .await;
    bench
        .nudge(
            "order",
            Commit::to(1)
                .event(4, kinds::completed("old"))
                .status("Completed", Some("old")),
        )
        .await;
    bench.send(items::queue_message("order", "old")).await;
    bench.schedule(items::activity("order", 9)).await;
    let one = start_with("order", StartRule::ReplaceFinished, &["new"]);
    assert_eq!(submit(&bench, &one).await, Submitted::Replaced);

    assert!(bench.read("order").await.is_empty());
    assert!(bench.read("order-child").await.is_empty());
    let known = bench.admin().list_instances().await;
    assert!(known.expect("a list").is_empty());
    let values = bench.store.get_kv_all_values("order").await;
    assert!(values.expect("an answer").is_empty());
    assert!(bench.find_work().await.is_none(), "its activity is gone");
    let turn = bench.turn_of("order").await;
    let queue_message = items::queue_message("order", "new");
    assert_eq!(turn.item.messages, [items::start("order"), queue_message]);
    assert!(turn.item.history.is_empty() && turn.item.kv_snapshot.is_empty());
    bench.commit(&turn, Commit::first()).await;
    assert_eq!(bench.read("order").await.len(), 1);
    let status = bench.store.get_custom_status("order", 0).await;
    assert_eq!(status.expect("an answer"), None);
}

/// Not while a descendant runs, and no child by itself.
pub async fn nothing_is_replaced_while_a_descendant_runs<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("root").await;
    bench
        .create_child("middle", "root", Commit::first().completed("1"))
        .await;
    bench.create_child("leaf", "middle", Commit::first()).await;
    bench.nudge("root", completed_second()).await;
    for id in ["root", "middle"] {
        let one = start_with(id, StartRule::ReplaceFinished, &["lost"]);
        let submitted = submit(&bench, &one).await;
        assert_eq!(submitted, Submitted::Refused(IdState::Unfinished), "{id}");
    }
    bench.idle("nothing was stored").await;
    for (id, events) in [("root", 2), ("middle", 2), ("leaf", 1)] {
        assert_eq!(bench.read(id).await.len(), events, "{id} is there");
    }
    bench.nudge("leaf", completed_second()).await;
    let one = start("root", StartRule::ReplaceFinished);
    assert_eq!(submit(&bench, &one).await, Submitted::Replaced);
}

/// There is no moment at which the old life is gone and the new one not there.
pub async fn nothing_comes_between_the_old_life_and_the_new<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for n in 0..MEETINGS {
        let id = format!("replaced-{n}");
        end(&bench, &id).await;
        let (replace, new) = (
            start(&id, StartRule::ReplaceFinished),
            start(&id, StartRule::MustBeNew),
        );
        let replacing = join_all((0..CALLERS).map(|_| submit(&bench, &replace)));
        let meanwhile = async {
            for _ in 0..CALLERS {
                let refused = submit(&bench, &new).await;
                assert!(
                    matches!(
                        refused,
                        Submitted::Refused(IdState::Ended | IdState::Starting)
                    ),
                    "{refused:?}"
                );
                tokio::task::yield_now().await;
            }
        };
        let (all, ()) = join(replacing, meanwhile).await;
        one_is(Submitted::Replaced, &all);
        begins_once(&bench, &id).await;
    }
}

/// A second turn that ends the instance.
fn completed_second() -> Commit {
    Commit::to(1)
        .event(2, kinds::completed("1"))
        .status("Completed", Some("1"))
}
