//! An instance with all its descendants, from one state.

use duroxide_core::EventKind;
use duroxide_core::provider::InstanceSnapshot;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

fn asks_for(child: &str) -> EventKind {
    EventKind::SubOrchestrationScheduled {
        name: "ChildOrch".to_owned(),
        instance: child.to_owned(),
        input: "{}".to_owned(),
    }
}

async fn family<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    root: &str,
) -> Vec<InstanceSnapshot> {
    let taken = bench.admin().snapshot_family(root).await;
    taken.expect("an answer").expect("the store can do that")
}

/// Parents come before their children, those that have not begun included; strangers and what was only started do not
/// belong to it.
pub async fn a_family_is_told_parents_first<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(asks_for("kid"))
        .and(asks_for("unborn"))
        // An id that somebody else has already.
        .and(asks_for("stranger"))
        .message(items::child_start("kid", "ChildOrch", "root"))
        .message(items::child_start("unborn", "LaterOrch", "root"))
        .message(items::start_of("detached", "FreeOrch", None));
    bench.create("stranger").await;
    bench.create_with("root", first).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(bench.turn().await);
    }
    for turn in waiting {
        match turn.item.instance.as_str() {
            "kid" => {
                let grandchild = items::child_start("grandkid", "ChildOrch", "kid");
                let first = Commit::first().child_of("root").and(asks_for("grandkid"));
                bench.commit(&turn, first.message(grandchild)).await;
            }
            _ => bench.abandon_uncounted(&turn).await,
        }
    }
    let found = family(&bench, "root").await;
    let mut ids: Vec<&str> = found.iter().map(|it| it.instance_id.as_str()).collect();
    let place = |id: &str| found.iter().position(|it| it.instance_id == id);
    assert_eq!(place("root"), Some(0), "{ids:?}");
    assert!(place("kid") < place("grandkid"), "{ids:?}");
    ids.sort_unstable();
    assert_eq!(ids, ["grandkid", "kid", "root", "unborn"]);
    for one in &found {
        let alone = bench.admin().snapshot_instance(&one.instance_id).await;
        assert_eq!(alone, Ok(Some(one.clone())), "the same as by itself");
    }
    assert_eq!(family(&bench, "nobody").await, Vec::new());
    assert_eq!(family(&bench, "kid").await.len(), 2, "from there on");
}

/// How a child ended is with the child or with its parent, and never in neither, whenever the family is read.
pub async fn a_family_is_read_from_one_state<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for round in 0..12 {
        let (parent, child) = (format!("parent-{round}"), format!("child-{round}"));
        let start = items::child_start(&child, "ChildOrch", &parent);
        let first = Commit::first().and(asks_for(&child)).message(start);
        bench.create_with(&parent, first).await;
        let turn = bench.turn_of(&child).await;
        let end = Commit::first().child_of(&parent).completed("1");
        let end = end.message(items::child_done(&parent, 2));
        let (found, ()) = futures::join!(family(&bench, &parent), bench.commit(&turn, end));
        let of = |id: &str| found.iter().find(|it| it.instance_id == id);
        let told = of(&parent).expect("the parent").messages.len();
        let ended = of(&child).is_some_and(|it| it.record.is_some());
        assert_eq!(told == 1, ended, "round {round}: {found:?}");
        let turn = bench.turn_of(&parent).await;
        bench.commit(&turn, Commit::to(1)).await;
    }
}
