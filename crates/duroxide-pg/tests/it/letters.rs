//! Dead letters that go back into their queues, from several processes at once.

use std::time::Duration;

use duroxide_core::provider::{Provider, ProviderAdmin, Requeue, TurnClaim, WorkItem};
use duroxide_pg::PostgresProvider;
use futures::future::join_all;

use crate::meetings::{named, raised, start, started};
use crate::support::Schema;

const LEASE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(10);

async fn begin(store: &PostgresProvider, id: &str) {
    store
        .enqueue_for_orchestrator(start(id), None)
        .await
        .unwrap();
    let turn = claimed(store).await;
    store
        .ack_orchestration_item(&turn.0, 1, started(id), vec![], vec![], named(), vec![])
        .await
        .unwrap();
}

/// Token and messages of the only turn there is.
async fn claimed(store: &PostgresProvider) -> (String, Vec<WorkItem>) {
    let claim = TurnClaim::new(1, LEASE, SOON);
    let turn = store.claim_turns(claim).await.unwrap().pop().unwrap();
    (turn.lock_token, turn.item.messages)
}

/// A running instance with one dead letter, by its number.
async fn with_letter(store: &PostgresProvider, id: &str) -> u64 {
    begin(store, id).await;
    store
        .enqueue_for_orchestrator(raised(id), None)
        .await
        .unwrap();
    let (token, _) = claimed(store).await;
    assert!(
        store
            .dead_letter_messages(&token, &[0], "poison")
            .await
            .unwrap()
    );
    store
        .abandon_orchestration_item(&token, None, true)
        .await
        .unwrap();
    store.list_dead_letters(1).await.unwrap()[0].id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_requeue_one_letter_at_once_deliver_it_once() {
    let schema = Schema::new();
    let (here, there) = (schema.open().await, schema.open().await);
    for round in 0..5 {
        let id = format!("i-{round}");
        let letter = with_letter(&here, &id).await;
        let asked = (0..16).map(|n| match n % 2 {
            0 => here.requeue_dead_letter(letter),
            _ => there.requeue_dead_letter(letter),
        });
        let answers = join_all(asked).await;
        let done = |answer: &&_| matches!(answer, Ok(Some(Requeue::Done)));
        assert_eq!(answers.iter().filter(done).count(), 1, "{answers:?}");
        let (token, messages) = claimed(&there).await;
        assert_eq!(messages, [raised(&id)]);
        there
            .ack_orchestration_item(&token, 1, vec![], vec![], vec![], named(), vec![])
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_that_is_requeued_while_its_id_is_deleted_never_reaches_the_next_life() {
    let schema = Schema::new();
    let (here, there) = (schema.open().await, schema.open().await);
    for round in 0..20 {
        let id = format!("i-{round}");
        let letter = with_letter(&here, &id).await;
        let (answer, deleted) = tokio::join!(
            there.requeue_dead_letter(letter),
            here.delete_instance(&id, true)
        );
        deleted.unwrap();
        begin(&here, &id).await;
        let none = TurnClaim::new(1, LEASE, Duration::ZERO);
        let found = here.claim_turns(none).await.unwrap();
        assert!(found.is_empty(), "{answer:?}: {found:?}");
        match answer.unwrap().unwrap() {
            // It went with the instance.
            Requeue::Done => {}
            Requeue::Refused { .. } => assert!(here.delete_dead_letter(letter).await.unwrap()),
            Requeue::NoSuchDeadLetter => panic!("nobody took it"),
        }
    }
}
