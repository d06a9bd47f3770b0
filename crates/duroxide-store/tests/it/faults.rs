//! The adapter over a store that fails, or holds what does not decode: only what is hit suffers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use duroxide_core::provider::{
    ExecutionMetadata, InstanceFilter, Pausing, Provider, ProviderAdmin, PruneOptions, TagFilter,
    TurnClaim, WorkClaim,
};
use duroxide_core::{Event, EventKind, WorkItem};

use crate::faulty::{Faulty, LOCK, commit, create, fetch, named, send};
use crate::support::{signal, start};
use duroxide_store::{
    AtomicOps, Batch, ManualClock, MessageQueue, MetadataStore, NewMessage, Operation, Queue,
    StoreProvider,
};

#[tokio::test]
async fn an_unreadable_history_stalls_no_other_instance() {
    let provider = Faulty::provider(Some("hit"));
    send(&provider, start("hit")).await;
    send(&provider, start("fine")).await;
    let claim = TurnClaim::new(8, LOCK, Duration::ZERO);
    let mut turns = provider.claim_turns(claim).await.unwrap();
    turns.sort_by(|a, b| a.item.instance.cmp(&b.item.instance));
    let errors: Vec<_> = turns
        .iter()
        .map(|turn| {
            (
                turn.item.instance.as_str(),
                turn.item.history_error.is_some(),
            )
        })
        .collect();
    assert_eq!(errors, [("fine", false), ("hit", true)]);
    assert_eq!(turns[1].attempt_count, 1, "it is counted, so that it ends");
}

#[tokio::test]
async fn a_row_that_does_not_decode_hurts_only_its_own_instance() {
    let provider = Faulty::provider(None);
    create(&provider, "hit", named("Running", "")).await;
    create(&provider, "fine", named("Completed", "ok")).await;
    for scope in ["instances", "executions/hit"] {
        let key = match scope {
            "instances" => "hit".to_owned(),
            _ => format!("{:020}", 1),
        };
        provider
            .store()
            .put(scope, &key, b"{}".to_vec())
            .await
            .unwrap();
    }
    let mut listed = provider.list_instances().await.unwrap();
    listed.sort();
    assert_eq!(listed, ["fine", "hit"]);
    let completed = provider
        .list_instances_by_status("Completed")
        .await
        .unwrap();
    assert_eq!(completed, ["fine"]);
    assert_eq!(
        provider.get_system_metrics().await.unwrap().total_instances,
        2
    );
    let all = InstanceFilter::default();
    let pruned = provider.prune_executions_bulk(all.clone(), PruneOptions::default());
    pruned.await.unwrap();

    send(&provider, signal("hit")).await;
    let (instance, token, error) = fetch(&provider).await.unwrap();
    assert_eq!(instance, "hit");
    assert!(error.is_some(), "the engine is told");
    commit(&provider, &token, 9, named("Failed", "it cannot be read")).await;
    let failed = provider.list_instances_by_status("Failed").await.unwrap();
    assert_eq!(failed, ["hit"], "it ended");
    provider
        .store()
        .put("instances", "hit", b"?".to_vec())
        .await
        .unwrap();
    let ids = ["hit".to_owned()];
    let deleted = provider.delete_instances_atomic(&ids, true).await.unwrap();
    assert_eq!(deleted.instances_deleted, 1);
}

/// An instance with a finished child, whose rows then become undecodable.
async fn damaged_parent() -> StoreProvider<Faulty> {
    let provider = Faulty::provider(None);
    let child_start = WorkItem::StartOrchestration {
        instance: "child".into(),
        orchestration: "Hello".into(),
        input: "{}".into(),
        version: Some("1.0.0".into()),
        parent_instance: Some("hit".into()),
        parent_id: Some(2),
        parent_execution_id: Some(1),
        execution_id: 1,
    };
    send(&provider, start("hit")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    let running = named("Running", "");
    let started = vec![child_start];
    let committed =
        provider.ack_orchestration_item(&token, 1, vec![], vec![], started, running, vec![]);
    committed.await.unwrap();
    let (instance, token, _) = fetch(&provider).await.unwrap();
    assert_eq!(instance, "child");
    let ended = ExecutionMetadata {
        parent_instance_id: Some("hit".into()),
        ..named("Completed", "ok")
    };
    commit(&provider, &token, 1, ended).await;
    create(&provider, "fine", named("Completed", "ok")).await;
    for (scope, key) in [
        ("instances", "hit"),
        ("executions/hit", &format!("{:020}", 1)),
    ] {
        let store = provider.store();
        store.put(scope, key, b"?".to_vec()).await.unwrap();
    }
    provider
}

#[tokio::test]
async fn an_instance_whose_row_does_not_decode_is_deleted_like_any_other() {
    let provider = damaged_parent().await;
    assert_eq!(provider.get_parent_id("hit").await.unwrap(), None);
    let deleted = provider.delete_instance("hit", true).await.unwrap();
    assert!(deleted.instances_deleted >= 1);
    let listed = provider.list_instances().await.unwrap();
    assert!(!listed.contains(&"hit".to_owned()), "{listed:?}");
}

#[tokio::test]
async fn a_parent_whose_row_does_not_decode_stops_no_bulk_deletion() {
    let provider = damaged_parent().await;
    let all = InstanceFilter::default();
    provider.delete_instance_bulk(all).await.unwrap();
    let mut listed = provider.list_instances().await.unwrap();
    listed.retain(|id| id != "hit");
    assert!(listed.is_empty(), "{listed:?}");
}

#[tokio::test]
async fn an_instance_whose_history_cannot_be_read_is_deleted_like_any_other() {
    for force in [false, true] {
        let provider = Faulty::provider(Some("hit"));
        let status = if force { "Running" } else { "Completed" };
        create(&provider, "hit", named(status, "")).await;
        assert!(provider.read("hit").await.is_err(), "it cannot be read");
        let deleted = provider.delete_instance("hit", force).await.unwrap();
        assert_eq!((deleted.instances_deleted, deleted.events_deleted), (1, 1));
        let listed = provider.list_instances().await.unwrap();
        assert!(listed.is_empty(), "{listed:?}");
    }
}

#[tokio::test]
async fn a_corrupt_instance_stops_no_bulk_deletion() {
    for scope in ["children/hit", "executions/hit"] {
        let clock = ManualClock::at(1_000);
        let provider = Faulty::provider_at(None, &clock);
        for instance in ["hit", "fine", "good"] {
            create(&provider, instance, named("Completed", "ok")).await;
            clock.advance(Duration::from_secs(1));
        }
        provider.store().corrupt_scopes.lock().unwrap().push(scope);
        // The oldest, which cannot be deleted, does not use up the limit either.
        let one = InstanceFilter {
            limit: Some(1),
            ..InstanceFilter::default()
        };
        for left in [&["good", "hit"][..], &["hit"], &["hit"]] {
            let deleted = provider.delete_instance_bulk(one.clone()).await.unwrap();
            let mut listed = provider.list_instances().await.unwrap();
            listed.sort();
            assert_eq!(listed, left, "{scope}: {deleted:?}");
        }
        provider.store().corrupt_scopes.lock().unwrap().clear();
        provider.delete_instance_bulk(one).await.unwrap();
        let listed = provider.list_instances().await.unwrap();
        assert!(listed.is_empty(), "{listed:?}");
    }
}

#[tokio::test]
async fn an_outage_ends_a_bulk_deletion() {
    let provider = Faulty::provider(None);
    for instance in ["a", "b"] {
        create(&provider, instance, named("Completed", "ok")).await;
    }
    provider.store().failing_commits.store(1, Ordering::SeqCst);
    let all = InstanceFilter::default();
    let failed = provider.delete_instance_bulk(all.clone()).await;
    assert!(failed.unwrap_err().is_retryable());
    assert_eq!(provider.list_instances().await.unwrap().len(), 2);
    let deleted = provider.delete_instance_bulk(all).await.unwrap();
    assert_eq!(deleted.instances_deleted, 2);
}

/// A finished instance with an older execution.
async fn with_two_executions(provider: &StoreProvider<Faulty>, instance: &str) {
    create(provider, instance, named("ContinuedAsNew", "")).await;
    send(
        provider,
        duroxide_validation::items::next_execution(instance),
    )
    .await;
    let (_, token, _) = fetch(provider).await.unwrap();
    let started = EventKind::ExternalEvent {
        name: "go".into(),
        data: String::new(),
    };
    let event = Event::with_event_id(1, instance, 2, None, started);
    let metadata = named("Completed", "ok");
    let committed =
        provider.ack_orchestration_item(&token, 2, vec![event], vec![], vec![], metadata, vec![]);
    committed.await.unwrap();
}

#[tokio::test]
async fn a_corrupt_instance_stops_no_bulk_pruning() {
    let clock = ManualClock::at(1_000);
    let provider = Faulty::provider_at(None, &clock);
    for instance in ["hit", "fine"] {
        with_two_executions(&provider, instance).await;
        clock.advance(Duration::from_secs(1));
    }
    let scopes = &provider.store().corrupt_scopes;
    scopes.lock().unwrap().push("executions/hit");
    let one = InstanceFilter {
        limit: Some(1),
        ..InstanceFilter::default()
    };
    let pruned = provider.prune_executions_bulk(one, PruneOptions::default());
    let pruned = pruned.await.unwrap();
    assert_eq!(
        (pruned.instances_processed, pruned.executions_deleted),
        (1, 1)
    );
    scopes.lock().unwrap().clear();
    assert_eq!(provider.list_executions("hit").await.unwrap(), [1, 2]);
    assert_eq!(provider.list_executions("fine").await.unwrap(), [2]);
}

#[tokio::test]
async fn a_gauge_of_running_instances_reads_no_outputs() {
    let provider = Faulty::provider(None);
    let output = "x".repeat(10_000);
    for n in 0..50 {
        create(&provider, &format!("i-{n}"), named("Completed", &output)).await;
    }
    create(&provider, "busy", named("Running", "")).await;
    let bytes = &provider.store().answered_bytes;
    bytes.store(0, Ordering::SeqCst);
    assert_eq!(provider.count_running_instances().await.unwrap(), 1);
    assert!(bytes.load(Ordering::SeqCst) < 1_000);
    assert_eq!(provider.list_instances().await.unwrap().len(), 51);
    assert!(
        bytes.load(Ordering::SeqCst) < 51 * 1_000,
        "rows, not outputs"
    );
}

#[tokio::test]
async fn many_new_instances_and_strangers_are_opened_by_a_few_queries() {
    let provider = Faulty::provider(None);
    for n in 0..50 {
        send(&provider, start(&format!("i-{n}"))).await;
        send(&provider, signal(&format!("nobody-{n}"))).await;
    }
    let queries = &provider.store().queries;
    queries.store(0, Ordering::SeqCst);
    let claim = TurnClaim::new(100, LOCK, Duration::ZERO);
    let turns = provider.claim_turns(claim).await.unwrap();
    assert_eq!(turns.len(), 50);
    let asked = queries.load(Ordering::SeqCst);
    assert!(asked <= 5, "{asked} queries for fifty instances");
}

#[tokio::test]
async fn a_busy_instance_can_be_deleted_by_force() {
    let provider = Faulty::provider(None);
    for n in 0..20 {
        create(&provider, &format!("i-{n}"), named("Running", "")).await;
    }
    provider.store().stir.store(true, Ordering::SeqCst);
    let ids: Vec<_> = (0..20).map(|n| format!("i-{n}")).collect();
    let deleted = provider.delete_instances_atomic(&ids, true).await.unwrap();
    assert_eq!(deleted.instances_deleted, 20);
}

#[tokio::test]
async fn a_child_asked_for_while_its_parent_is_deleted_by_force_goes_with_it() {
    let provider = Faulty::provider(None);
    create(&provider, "parent", named("Running", "")).await;
    send(&provider, signal("parent")).await;
    let claim = TurnClaim::new(1, LOCK, Duration::ZERO);
    let turn = provider.claim_turns(claim.clone()).await.unwrap().remove(0);
    let mut child = start("child");
    if let WorkItem::StartOrchestration {
        parent_instance,
        parent_id,
        parent_execution_id,
        ..
    } = &mut child
    {
        *parent_instance = Some("parent".into());
        *parent_id = Some(2);
        *parent_execution_id = Some(1);
    }
    *provider.store().asks.lock().unwrap() = Some((turn.lock_token, child));
    let ids = ["parent".to_owned()];
    let deleted = provider.delete_instances_atomic(&ids, true).await.unwrap();
    assert_eq!(deleted.instances_deleted, 1);
    assert!(
        provider.store().asks.lock().unwrap().is_none(),
        "it was asked for"
    );
    let left = provider.claim_turns(claim).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    let queued = provider.get_queue_depths().await.unwrap();
    assert_eq!(queued.orchestrator_queue, 0);
    let asked = provider
        .store()
        .inner
        .entries("asked/parent")
        .await
        .unwrap();
    assert!(asked.is_empty(), "{asked:?}");
}

#[tokio::test]
async fn an_activity_that_cannot_be_dead_lettered_keeps_no_other_leased() {
    let provider = Faulty::provider(None);
    let worker = Queue::single("worker");
    let broken = NewMessage {
        kind: Some("A".into()),
        ..NewMessage::new("i", "{}")
    };
    provider.store().enqueue(&worker, broken).await.unwrap();
    let activity = WorkItem::ActivityExecute {
        instance: "i".into(),
        execution_id: 1,
        id: 2,
        name: "A".into(),
        input: String::new(),
        session_id: None,
        tag: None,
    };
    provider.enqueue_for_worker(activity).await.unwrap();
    provider.store().failing_commits.store(1, Ordering::SeqCst);
    let claim = WorkClaim {
        tag_filter: TagFilter::Any,
        ..WorkClaim::new(8, LOCK, Duration::ZERO)
    };
    let works = provider.claim_work(claim.clone()).await.unwrap();
    assert_eq!(works.len(), 1, "the good one is handed out");
    let rest = provider.claim_work(claim).await.unwrap();
    assert!(rest.is_empty());
    let letters = provider.list_dead_letters(9).await.unwrap();
    assert_eq!(
        letters.len(),
        1,
        "the broken one came again and was dead-lettered"
    );
}

#[tokio::test]
async fn a_failed_claim_of_turns_holds_no_lease() {
    let provider = Faulty::provider(None);
    let orchestrator = Queue::grouped("orchestrator");
    let broken = NewMessage::new("hit", "{}");
    provider
        .store()
        .enqueue(&orchestrator, broken)
        .await
        .unwrap();
    provider.store().failing_commits.store(1, Ordering::SeqCst);
    let claim = TurnClaim::new(8, LOCK, Duration::ZERO);
    assert!(provider.claim_turns(claim.clone()).await.is_err());
    send(&provider, start("hit")).await;
    let turns = provider.claim_turns(claim).await.unwrap();
    assert_eq!(
        turns.len(),
        1,
        "the broken message is gone, the start is here"
    );
}

#[tokio::test]
async fn a_start_that_arrives_while_its_messages_are_put_to_rest_gets_them() {
    let clock = ManualClock::at(1_000);
    let provider = Faulty::provider_at(None, &clock);
    send(&provider, signal("late")).await;
    clock.advance(duroxide_store::adapter::DEFAULT_UNKNOWN_INSTANCE_GRACE);
    *provider.store().arrives.lock().unwrap() = Some(start("late"));
    let fetched = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
    let (item, ..) = fetched.await.unwrap().expect("the start is there");
    assert_eq!(item.messages, [signal("late"), start("late")]);
    let letters = provider.list_dead_letters(10).await.unwrap();
    assert!(letters.is_empty(), "{letters:?}");
}

#[tokio::test]
async fn a_turn_costs_few_calls() {
    let provider = Faulty::provider(None);
    let queries = &provider.store().queries;
    // The first claim of a process also asks whether the store is closed.
    let none = provider.claim_turns(TurnClaim::new(1, LOCK, Duration::ZERO));
    assert!(none.await.unwrap().is_empty());
    for n in 0..30 {
        send(&provider, start(&format!("i-{n}"))).await;
    }
    queries.store(0, Ordering::SeqCst);
    let claim = TurnClaim::new(30, LOCK, Duration::ZERO);
    let turns = provider.claim_turns(claim).await.unwrap();
    assert_eq!(turns.len(), 30);
    assert_eq!(
        queries.load(Ordering::SeqCst),
        1,
        "one query for all that are new"
    );
    for turn in &turns {
        commit(&provider, &turn.lock_token, 1, named("Running", "")).await;
    }
    assert_eq!(
        queries.load(Ordering::SeqCst),
        1,
        "a commit reads nothing again"
    );
}

#[tokio::test]
async fn a_row_that_changed_beside_the_turn_is_read_again() {
    let provider = Faulty::provider(None);
    create(&provider, "i", named("Running", "")).await;
    send(&provider, signal("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    let kind = EventKind::ExternalEvent {
        name: "go".into(),
        data: String::new(),
    };
    let beside = vec![Event::with_event_id(2, "i", 1, None, kind)];
    provider
        .append_with_execution("i", 1, beside)
        .await
        .unwrap();
    commit(&provider, &token, 3, named("Running", "")).await;
    assert_eq!(provider.read("i").await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_damaged_key_value_does_not_keep_an_instance_from_ending() {
    let provider = Faulty::provider(None);
    send(&provider, start("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    let set = EventKind::KeyValueSet {
        key: "k".into(),
        value: "v".into(),
        last_updated_at_ms: 1,
    };
    let set = Event::with_event_id(1, "i", 1, None, set);
    let metadata = named("Running", "");
    let committed =
        provider.ack_orchestration_item(&token, 1, vec![set], vec![], vec![], metadata, vec![]);
    committed.await.unwrap();
    let damage = Operation::Put {
        scope: "kv_delta/i".into(),
        key: "k".into(),
        value: b"?".to_vec(),
    };
    provider.store().commit(Batch::of([damage])).await.unwrap();
    send(&provider, signal("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    commit(&provider, &token, 2, named("Completed", "ok")).await;
    let completed = provider
        .list_instances_by_status("Completed")
        .await
        .unwrap();
    assert_eq!(completed, ["i"]);
}

#[tokio::test]
async fn an_activity_cancelled_while_its_instance_is_resumed_is_not_begun() {
    let provider = Faulty::provider(None);
    create(&provider, "i", named("Running", "")).await;
    for id in [7, 8] {
        let activity = WorkItem::ActivityExecute {
            instance: "i".into(),
            execution_id: 1,
            id,
            name: "ship".into(),
            input: String::new(),
            session_id: None,
            tag: None,
        };
        provider.enqueue_for_worker(activity).await.unwrap();
    }
    assert_eq!(provider.pause_instance("i").await, Ok(Some(Pausing::Done)));
    let claim = WorkClaim::new(9, LOCK, Duration::ZERO);
    let claimed = provider.claim_work(claim.clone()).await.unwrap();
    assert!(claimed.is_empty(), "the activities are held back");
    let cancel = Operation::DeleteKeyed {
        queue: Queue::single("worker"),
        group: "i".into(),
        key: "1/7".into(),
    };
    *provider.store().after_look.lock().unwrap() = Some(Batch::of([cancel]));
    assert_eq!(provider.resume_instance("i").await, Ok(Some(Pausing::Done)));
    let work = provider.claim_work(claim).await.unwrap();
    let ids = work.iter().map(|work| match &work.item {
        WorkItem::ActivityExecute { id, .. } => *id,
        other => panic!("{other:?}"),
    });
    assert_eq!(ids.collect::<Vec<_>>(), [8], "the other one was cancelled");
}
