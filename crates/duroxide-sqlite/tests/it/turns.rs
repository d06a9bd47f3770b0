//! Claiming, committing and abandoning turns.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::event::{ErrorDetails, EventKind};
use duroxide_core::provider::{
    CachedHistories, CachedHistory, ExecutionMetadata, HandOut, OutcomeStatus, Provider, TurnClaim,
    TurnHistory, WorkItem,
};
use duroxide_sqlite::SqliteProvider;

use crate::support::*;

#[tokio::test]
async fn a_turn_is_claimed_committed_and_read_back() {
    let (store, _clock) = store_with_clock().await;
    send(&store, start("a")).await;
    let (item, token, attempts) = fetch(&store).await.unwrap();
    assert_eq!((item.execution_id, attempts), (1, 1));
    assert_eq!(item.orchestration_name, "Orch");
    assert!(fetch(&store).await.is_none(), "leased");

    let event = started("a");
    ack(&store, &token, 1, vec![event.clone()], named()).await;
    assert_eq!(store.read("a").await.unwrap(), vec![event]);
    assert!(fetch(&store).await.is_none(), "nothing left");
}

#[tokio::test]
async fn a_lost_lock_cannot_commit() {
    let (store, clock) = store_with_clock().await;
    send(&store, start("a")).await;
    let (_, old, _) = fetch(&store).await.unwrap();
    clock.advance(LEASE);
    let late = commit(&store, &old, Decided::first("a")).await.unwrap_err();
    assert!(!late.is_retryable());
    assert_eq!(late.operation, "ack_orchestration_item");
    assert!(late.message.contains("expired"), "{late}");

    let (_, new, attempts) = fetch(&store).await.unwrap();
    assert_eq!(attempts, 2);
    let overtaken = commit(&store, &old, Decided::first("a")).await.unwrap_err();
    assert!(overtaken.message.contains("Invalid lock token"));
    ack(&store, &new, 1, vec![started("a")], named()).await;
}

#[tokio::test]
async fn a_duplicate_event_undoes_the_whole_commit_and_keeps_the_lease() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "a").await;
    send(&store, raised("a", "1")).await;
    let (_, token, _) = fetch(&store).await.unwrap();
    let error = commit(
        &store,
        &token,
        Decided {
            events: vec![started("a")],
            activities: vec![activity("a", 9)],
            metadata: ended("Failed", "x"),
            ..Decided::default()
        },
    )
    .await
    .unwrap_err();
    assert!(!error.is_retryable());
    assert!(fetch_work(&store).await.is_none());
    assert!(fetch(&store).await.is_none(), "still leased");
    assert_eq!(
        admin(&store).get_instance_info("a").await.unwrap().status,
        "Running"
    );
    ack(&store, &token, 1, vec![], Default::default()).await;
}

#[tokio::test]
async fn messages_that_arrive_during_a_turn_survive_its_commit() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "a").await;
    for data in ["1", "2"] {
        send(&store, raised("a", data)).await;
    }
    let (item, token, _) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![raised("a", "1"), raised("a", "2")]);
    send(&store, raised("a", "3")).await;
    ack(&store, &token, 1, vec![], Default::default()).await;
    let (item, _, _) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![raised("a", "3")]);
}

#[tokio::test]
async fn a_delayed_abandon_hides_only_what_was_claimed() {
    let (store, clock) = store_with_clock().await;
    create(&store, "a").await;
    send(&store, raised("a", "1")).await;
    let (_, token, _) = fetch(&store).await.unwrap();
    send(&store, raised("a", "2")).await;
    store
        .abandon_orchestration_item(&token, Some(Duration::from_secs(60)), true)
        .await
        .unwrap();
    let (item, token, attempts) = fetch(&store).await.unwrap();
    assert_eq!((item.messages, attempts), (vec![raised("a", "2")], 1));
    store
        .abandon_orchestration_item(&token, None, false)
        .await
        .unwrap();
    clock.advance(Duration::from_secs(60));
    let (item, _, attempts) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![raised("a", "1"), raised("a", "2")]);
    assert_eq!(attempts, 2);
    let twice = store.abandon_orchestration_item(&token, None, false).await;
    assert!(twice.is_err());
}

#[tokio::test]
async fn an_abandoned_message_counts_as_waiting_again() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "a").await;
    send(&store, raised("a", "1")).await;
    let depth = async || {
        let depths = admin(&store).get_queue_depths().await.unwrap();
        depths.orchestrator_queue
    };
    assert_eq!(depth().await, 1);
    let (_, token, _) = fetch(&store).await.unwrap();
    assert_eq!(depth().await, 0);
    store
        .abandon_orchestration_item(&token, None, false)
        .await
        .unwrap();
    assert_eq!(depth().await, 1);
}

#[tokio::test]
async fn many_instances_are_claimed_in_one_step() {
    let (store, _clock) = store_with_clock().await;
    for n in 0..5 {
        send(&store, start(&format!("i{n}"))).await;
    }
    let first = store.claim_turns(claim(3)).await.unwrap();
    let rest = store.claim_turns(claim(9)).await.unwrap();
    assert_eq!((first.len(), rest.len()), (3, 2));
    assert_eq!(first[0].message_attempts, vec![1]);
}

#[tokio::test]
async fn a_history_the_caller_holds_is_confirmed_and_not_loaded() {
    struct Held(CachedHistory);
    impl CachedHistories for Held {
        fn cached(&self, _instance: &str) -> Option<CachedHistory> {
            Some(self.0)
        }
    }
    let (store, _clock) = store_with_clock().await;
    create(&store, "a").await;
    let incarnation = incarnation(&store, "a").await;
    for (last_event_id, is_current, events) in [(1, true, 0), (7, false, 1)] {
        send(&store, raised("a", "x")).await;
        let held = CachedHistory {
            incarnation,
            execution_id: 1,
            last_event_id,
        };
        let expected = if is_current {
            TurnHistory::Unchanged(held)
        } else {
            TurnHistory::Loaded
        };
        let held = Held(held);
        let turns = store
            .claim_turns(TurnClaim {
                cached: Some(Arc::new(held)),
                ..claim(1)
            })
            .await
            .unwrap();
        assert_eq!(turns[0].history, expected);
        assert_eq!(turns[0].item.history.len(), events);
        ack(&store, &turns[0].lock_token, 1, vec![], Default::default()).await;
    }
}

#[tokio::test]
async fn what_this_process_committed_is_not_taken_for_what_another_one_wrote_since() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let (ours, theirs) = (file_store(&path).await, file_store(&path).await);
    create(&ours, "a").await;
    // The same id, another instance: two events, and another handler.
    admin(&theirs).delete_instance("a", true).await.unwrap();
    send(&theirs, start("a")).await;
    let (_, token, _) = fetch(&theirs).await.unwrap();
    let other = ExecutionMetadata {
        orchestration_name: Some("other".to_owned()),
        ..named()
    };
    let wait = EventKind::ExternalSubscribed {
        name: "x".to_owned(),
    };
    let events = vec![started("a"), event("a", 1, 2, wait)];
    ack(&theirs, &token, 1, events, other).await;
    send(&theirs, raised("a", "x")).await;
    let turn = ours.claim_turns(claim(1)).await.unwrap().remove(0);
    assert_eq!(turn.item.orchestration_name, "other");
    assert_eq!(turn.item.history.len(), 2);
}

#[tokio::test]
async fn a_caller_that_panics_inside_the_claim_costs_only_its_own_request() {
    struct Broken;
    impl CachedHistories for Broken {
        fn cached(&self, _instance: &str) -> Option<CachedHistory> {
            panic!("not today");
        }
    }
    for hand_out in [HandOut::AfterCommit, HandOut::BeforeCommit] {
        let (store, _clock) = store_with_clock().await;
        create(&store, "a").await;
        send(&store, raised("a", "x")).await;
        let error = store
            .claim_turns(TurnClaim {
                cached: Some(Arc::new(Broken)),
                hand_out,
                ..claim(1)
            })
            .await
            .unwrap_err();
        assert!(error.message.contains("not today"), "{error}");
        let (_, _, attempts) = fetch(&store).await.expect("undone and claimable");
        assert_eq!(attempts, 1);
    }
}

#[tokio::test]
async fn a_commit_without_events_that_moves_the_instance_is_seen_by_the_next_claim() {
    let (store, _clock) = store_with_clock().await;
    create(&store, "a").await;
    send(&store, raised("a", "x")).await;
    let (_, token, _) = fetch(&store).await.unwrap();
    let other = ExecutionMetadata {
        orchestration_name: Some("other".to_owned()),
        ..named()
    };
    store
        .ack_orchestration_item(&token, 2, vec![], vec![], vec![], other, vec![])
        .await
        .unwrap();
    send(&store, raised("a", "x")).await;
    let (item, _, _) = fetch(&store).await.unwrap();
    assert_eq!(
        (item.orchestration_name.as_str(), item.execution_id),
        ("other", 2)
    );
}

#[tokio::test]
async fn a_status_written_is_the_status_read() {
    let (store, _clock) = store_with_clock().await;
    send(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await.unwrap();
    let running = ExecutionMetadata {
        status: Some("Running".to_owned()),
        ..named()
    };
    ack(&store, &token, 1, vec![started("a")], running).await;
    for (n, status) in ["Running", "Paused", "Running"].into_iter().enumerate() {
        send(&store, raised("a", "x")).await;
        let (_, token, _) = fetch(&store).await.unwrap();
        let metadata = ExecutionMetadata {
            status: Some(status.to_owned()),
            ..ExecutionMetadata::default()
        };
        let wait = EventKind::ExternalSubscribed {
            name: "x".to_owned(),
        };
        let events = vec![event("a", 1, 10 + n as u64, wait)];
        ack(&store, &token, 1, events, metadata).await;
        let info = admin(&store).get_execution_info("a", 1).await.unwrap();
        assert_eq!(info.status, status, "after step {n}");
    }
}

#[tokio::test]
async fn a_first_turn_handed_out_early_and_refused_gets_the_reason_at_its_second_try() {
    let (store, _clock) = store_with_clock().await;
    send(&store, start("a")).await;
    for expected_attempt in [1, 1] {
        let turn = store
            .claim_turns(TurnClaim {
                hand_out: HandOut::BeforeCommit,
                poll_timeout: Duration::from_millis(200),
                ..claim(1)
            })
            .await
            .unwrap()
            .pop()
            .unwrap();
        // The same event twice: the store refuses it for good.
        let error = commit(
            &store,
            &turn.lock_token,
            Decided {
                events: vec![started("a"), started("a")],
                metadata: named(),
                ..Decided::default()
            },
        )
        .await
        .unwrap_err();
        assert_eq!(turn.attempt_count, expected_attempt);
        if !error.is_lease_lost() {
            assert!(error.message.contains("already recorded"), "{error}");
            return;
        }
    }
    panic!("both tries failed as a lost lease");
}

#[tokio::test]
async fn a_lease_that_has_lapsed_is_not_stored() {
    let (store, clock) = store_with_clock().await;
    send(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await.unwrap();
    store.store_lease(&token).await.unwrap();
    clock.advance(LEASE);
    let lapsed = store.store_lease(&token).await.unwrap_err();
    assert!(lapsed.is_lease_lost(), "{lapsed}");
    fetch(&store).await.expect("another claim takes it over");
    let taken = store.store_lease(&token).await.unwrap_err();
    assert!(taken.is_lease_lost(), "{taken}");
}

#[tokio::test]
async fn a_timer_becomes_visible_at_its_time_even_beyond_what_sqlite_can_count() {
    let (store, clock) = store_with_clock().await;
    send(&store, start("a")).await;
    let (_, token, _) = fetch(&store).await.unwrap();
    let timer = |id, fire_at_ms| WorkItem::TimerFired {
        instance: "a".to_owned(),
        execution_id: 1,
        id,
        fire_at_ms,
    };
    let soon = 1_700_000_000_000 + 10_000;
    commit(
        &store,
        &token,
        Decided {
            messages: vec![timer(2, soon), timer(3, u64::MAX)],
            ..Decided::first("a")
        },
    )
    .await
    .unwrap();
    assert!(fetch(&store).await.is_none());
    let depths = admin(&store).get_queue_depths().await.unwrap();
    assert_eq!((depths.orchestrator_queue, depths.timer_queue), (0, 2));
    clock.advance(Duration::from_secs(10));
    let (item, token, _) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![timer(2, soon)]);

    // The execution ends: the timer that is left is of no use.
    ack(&store, &token, 1, vec![], ended("Completed", "")).await;
    let depths = admin(&store).get_queue_depths().await.unwrap();
    assert_eq!(depths.timer_queue, 0);
}

#[tokio::test]
async fn an_outcome_is_read_without_the_history() {
    let (store, _clock) = store_with_clock().await;
    assert_eq!(store.read_outcome("a").await.unwrap(), None);
    create(&store, "a").await;
    let outcome = store.read_outcome("a").await.unwrap().unwrap();
    assert_eq!(outcome.status, OutcomeStatus::Running);
    assert_eq!(
        store.execution_handler("a", 1).await.unwrap(),
        Some(("Orch".to_owned(), "1.0.0".to_owned()))
    );

    send(&store, raised("a", "x")).await;
    let (_, token, _) = fetch(&store).await.unwrap();
    let details = ErrorDetails::cancelled("asked");
    let failed = event(
        "a",
        1,
        2,
        EventKind::OrchestrationFailed {
            details: details.clone(),
        },
    );
    ack(
        &store,
        &token,
        1,
        vec![failed],
        ended("Failed", "canceled: asked"),
    )
    .await;
    let outcome = store.read_outcome("a").await.unwrap().unwrap();
    assert_eq!(outcome.status, OutcomeStatus::Failed { details });
}

#[tokio::test]
async fn a_huge_value_round_trips() {
    let store = SqliteProvider::new_in_memory().await.unwrap();
    create(&store, "a").await;
    let huge = "ü".repeat(4 * 1024 * 1024);
    send(&store, raised("a", &huge)).await;
    let (item, _, _) = fetch(&store).await.unwrap();
    assert_eq!(item.messages, vec![raised("a", &huge)]);
}

#[tokio::test]
async fn hostile_ids_and_payloads_come_back_byte_for_byte() {
    let store = SqliteProvider::new_in_memory().await.unwrap();
    let ids = [
        "a\0b",
        "'; DROP TABLE history; --",
        "",
        "日本語 \u{202e}",
        "%_*",
        "\n\t\u{1b}[31m",
    ];
    for id in ids {
        create(&store, id).await;
        send(&store, raised(id, "x\0y")).await;
        let (item, token, _) = fetch(&store).await.unwrap();
        assert_eq!(item.instance, id);
        assert_eq!(item.messages, vec![raised(id, "x\0y")]);
        let set = event(
            id,
            1,
            2,
            EventKind::KeyValueSet {
                key: "k\0".to_owned(),
                value: "v\0w".to_owned(),
                last_updated_at_ms: 3,
            },
        );
        ack(&store, &token, 1, vec![set], Default::default()).await;
        let value = store.get_kv_value(id, "k\0").await.unwrap();
        assert_eq!(value.as_deref(), Some("v\0w"));
    }
    let mut listed = admin(&store).list_instances().await.unwrap();
    listed.reverse();
    assert_eq!(listed, ids);
}

fn claim(max: usize) -> TurnClaim {
    TurnClaim::new(max, LEASE, NO_WAIT)
}
