//! Nothing in a closed store changes, whoever asks: not the holders of leases, not operators, not a claim that finds
//! nothing.

use std::time::Duration;

use duroxide_core::LabelChange;
use duroxide_core::provider::{InstanceFilter, InstanceSnapshot, PruneOptions};

use super::{REASON, close, refused};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Turn, Work, items};

const ALL: [&str; 5] = ["busy", "shy", "old", "still", "letter"];

/// Instances in every state that somebody could want to change.
struct Inhabited {
    /// Two turns of `busy` and `shy`, and three activities of `busy`.
    turns: [Turn; 2],
    work: [Work; 3],
    letter: u64,
}

async fn inhabit<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> Inhabited {
    let continued = Commit::first().continued("next");
    bench.create_with("old", continued).await;
    let second = Commit::first_of(2).completed("1");
    bench.next_execution("old", second).await;
    bench.create("letter").await;
    bench.send(items::signal("letter", "poison")).await;
    bench.send(items::signal("letter", "fine")).await;
    let turn = bench.turn_of("letter").await;
    let moved = bench.store.dead_letter_messages(&turn.token, &[0], "why");
    assert_eq!(moved.await, Ok(true));
    bench.commit(&turn, Commit::to(1)).await;
    let letters = bench.admin().list_dead_letters(9).await;
    let letter = letters.expect("a listing")[0].id;
    bench.create("still").await;
    let paused = bench.admin().pause_instance("still").await;
    paused.expect("an answer").expect("the store can do that");
    let mut first = Commit::first();
    for id in 2..5 {
        first = first.work(items::activity("busy", id));
    }
    bench.create_with("busy", first).await;
    bench.create("shy").await;
    let mut turns = Vec::new();
    for id in ["busy", "shy"] {
        bench.send(items::signal(id, "go")).await;
        turns.push(bench.turn_of(id).await);
    }
    let work = [bench.work().await, bench.work().await, bench.work().await];
    Inhabited {
        turns: [turns.remove(0), turns.remove(0)],
        work,
        letter,
    }
}

async fn contents<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> Vec<InstanceSnapshot> {
    let mut all = Vec::new();
    for id in ALL {
        let taken = bench.admin().snapshot_instance(id).await;
        all.push(taken.expect("an answer").expect("the store can do that"));
    }
    all
}

/// Holders of leases can give nothing back, dead-letter nothing and say nothing; leases can be renewed.
pub async fn the_holders_of_leases_change_nothing_in_a_closed_store<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let Inhabited { turns, work, .. } = inhabit(&bench).await;
    close(&bench, Some(REASON)).await;
    let before = contents(&bench).await;
    let (store, brief) = (&bench.store, bench.brief());
    for delay in [None, Some(brief)] {
        for uncounted in [true, false] {
            let turn = bench.try_abandon(&turns[0], delay, uncounted).await;
            refused(turn, "a turn that is given back");
            let activity = store.abandon_work_item(&work[0].token, delay, uncounted);
            refused(activity.await, "an activity that is given back");
        }
    }
    let rest = store.rest_orchestration_item(&turns[1].token, brief, true);
    refused(rest.await, "a rest");
    let moved = store.dead_letter_messages(&turns[1].token, &[0], "why");
    refused(moved.await, "a message that is dead-lettered");
    let moved = store.dead_letter_work_item(&work[1].token, "why");
    refused(moved.await, "an activity that is dead-lettered");
    let said = store.heartbeat_work_item(&work[2].token, bench.lock, 4, "half way");
    refused(said.await, "a heartbeat");
    let turn = store.renew_orchestration_item_lock(&turns[0].token, bench.lock);
    turn.await.expect("a lease is no part of an instance");
    let renewed = bench.renew_work(&work[0], bench.lock).await;
    renewed.expect("a lease is no part of an instance");
    assert_eq!(contents(&bench).await, before, "nothing has changed");
    close(&bench, None).await;
    bench.commit(&turns[0], Commit::to(1)).await;
    bench.finish(&work[0]).await;
}

/// Operators can delete, prune, label, pause, resume and requeue nothing.
pub async fn operators_change_nothing_in_a_closed_store<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let letter = inhabit(&bench).await.letter;
    close(&bench, Some(REASON)).await;
    let before = contents(&bench).await;
    let admin = bench.admin();
    refused(admin.delete_instance("old", false).await, "a deletion");
    let shy = ["shy".to_owned()];
    let forced = admin.delete_instances_atomic(&shy, true).await;
    refused(forced, "a deletion by force");
    let bulk = admin.delete_instance_bulk(InstanceFilter::default());
    refused(bulk.await, "retention");
    let keep = PruneOptions::default();
    refused(admin.prune_executions("old", keep).await, "a pruning");
    let bulk = admin.prune_executions_bulk(InstanceFilter::default(), PruneOptions::default());
    refused(bulk.await, "a pruning of all");
    let label = [LabelChange::set("team", "blue")];
    refused(admin.change_labels("shy", &label).await, "a label");
    refused(admin.pause_instance("shy").await, "a pause");
    refused(admin.resume_instance("still").await, "the end of a pause");
    refused(admin.requeue_dead_letter(letter).await, "a requeue");
    refused(admin.delete_dead_letter(letter).await, "a letter that goes");
    assert_eq!(contents(&bench).await, before, "nothing has changed");
    close(&bench, None).await;
    let deleted = bench.admin().delete_instance("old", false).await;
    assert_eq!(deleted.expect("it is open").instances_deleted, 1);
}

/// A claim of a closed store fails, also where there is nothing to claim, and whether or not it waits.
pub async fn an_idle_closed_store_refuses_claims<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let hour = Some(Duration::from_secs(3_600));
    bench.create("sleeps").await;
    bench.send_after(items::signal("sleeps", "go"), hour).await;
    close(&bench, Some(REASON)).await;
    let store = &bench.store;
    refused(store.claim_turns(bench.ask()).await, "a claim of turns");
    let waiting = duroxide_core::provider::TurnClaim {
        poll_timeout: bench.brief(),
        ..bench.ask()
    };
    refused(store.claim_turns(waiting).await, "a claim that waits");
    refused(
        store.claim_work(bench.ask_work(1)).await,
        "a claim of activities",
    );
    close(&bench, None).await;
    bench.idle("it is not due").await;
    bench.no_work("there is none").await;
}
