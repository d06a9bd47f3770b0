//! Turns that are stored by one call: they leave what the long way leaves.

use std::time::Duration;

use duroxide_core::provider::{ClaimedTurn, Provider, ProviderAdmin, TagFilter, WorkClaim};

use crate::early::{Decided, Node, Sent};
use crate::meetings::raised;
use crate::support::Schema;

/// What is stored about an instance: times, numbers and tokens count only as far as they are there, and its id does
/// not.
const STORED: &str = "
    SELECT hashtextextended(string_agg(all_of_it.line, E'\\n' ORDER BY all_of_it.line), 0) FROM (
        SELECT concat_ws('|', 'instance', orchestration_name, orchestration_version, current_execution_id,
            coalesce(parent_instance_id, '-'), coalesce(custom_status, '-'), custom_status_version, lane, letters IS NULL,
            parent_incarnation IS NULL, updated_at >= created_at) AS line FROM {s}.instances WHERE instance_id = '{id}'
        UNION ALL SELECT concat_ws('|', 'execution', execution_id, status, coalesce(output, '-'), completed_at >= started_at,
            coalesce(pinned, '-')) FROM {s}.executions WHERE instance_id = '{id}'
        UNION ALL SELECT concat_ws('|', 'event', execution_id, event_id, event_type,
            regexp_replace(replace(event_data, '{id}', ''), '\"timestamp_ms\":[0-9]+', '')) FROM {s}.history WHERE instance_id = '{id}'
        UNION ALL SELECT concat_ws('|', 'activity', execution_id, activity_id, name, replace(work_item, '{id}', ''),
            coalesce(session_id, '-'), coalesce(tag, '-'), lane, visible_at = created_at, lock_token IS NULL, locked_until > 0,
            attempt_count, incarnation = (SELECT incarnation FROM {s}.instances WHERE instance_id = '{id}'))
            FROM {s}.worker_queue WHERE instance_id = '{id}'
        UNION ALL SELECT concat_ws('|', 'key', key, value) FROM {s}.kv_store WHERE instance_id = '{id}'
        UNION ALL SELECT concat_ws('|', 'change', key, value) FROM {s}.kv_delta WHERE instance_id = '{id}'
        UNION ALL SELECT 'inbox' FROM {s}.inboxes WHERE instance_id = '{id}'
        UNION ALL SELECT 'message' FROM {s}.orchestrator_queue WHERE instance_id = '{id}') AS all_of_it";

fn stored(schema: &Schema, id: &str) -> i64 {
    schema.shell(&STORED.replace("{id}", id))
}

/// An inbox of an instance, as one that has a timer: its next turn takes the long way.
fn open_inbox(schema: &Schema, id: &str) {
    schema.shell(&format!(
        "INSERT INTO {{s}}.inboxes (instance_id, lane, ready_at) VALUES ('{id}', '', 9223372036854775807)"
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_turn_leaves_what_the_long_way_leaves() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    for ends in [false, true] {
        let mut left = Vec::new();
        for is_long in [false, true] {
            let (turn, sent) = node.early_start().await;
            let id = turn.item.instance.clone();
            if is_long {
                open_inbox(&schema, &id);
            }
            let mut decided = Decided::first(&id);
            if ends {
                let last = Decided::last(&id, 2);
                decided.work.clear();
                decided.events.truncate(1);
                decided.events.extend(last.events);
                decided.metadata.status = last.metadata.status;
                decided.metadata.output = last.metadata.output;
            }
            node.commit(&turn, decided).await.unwrap();
            sent.await.unwrap().unwrap();
            left.push(stored(&schema, &id));
        }
        assert_eq!(left[0], left[1], "ends: {ends}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_next_turn_leaves_what_the_long_way_leaves() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    let goes_on = |id: &str| Decided::next(id);
    let ends = |id: &str| Decided::last(id, 3);
    let fails = |id: &str| {
        let mut decided = Decided::last(id, 3);
        decided.metadata.status = Some("Failed".to_owned());
        decided
    };
    for decide in [&goes_on as &dyn Fn(&str) -> Decided, &ends, &fails] {
        let mut left = Vec::new();
        for is_long in [false, true] {
            let (turn, sent) = node.early_result().await;
            let id = turn.item.instance.clone();
            // The instance has a key of its own.
            schema.shell(&format!(
                "INSERT INTO {{s}}.kv_delta (instance_id, key, value) VALUES ('{id}', 'k', 'v')"
            ));
            if is_long {
                open_inbox(&schema, &id);
            }
            node.commit(&turn, decide(&id)).await.unwrap();
            sent.await.unwrap().unwrap();
            left.push(stored(&schema, &id));
        }
        assert_eq!(left[0], left[1]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_of_a_plain_turn_is_leased_to_the_worker_that_waits() {
    let schema = Schema::new();
    let (node, other) = (Node::on(&schema).await, Node::on(&schema).await);
    let (turn, sent) = turn_beside_an_idle_worker(&node).await;
    let id = turn.item.instance.clone();
    let (work, committed) = futures::join!(node.work(), async {
        // Once this one is answered, the first one was tried and rests.
        assert!(!try_work(&node).await);
        refuse_claims(&schema);
        node.commit(&turn, Decided::first(&id)).await
    });
    committed.unwrap();
    sent.await.unwrap().unwrap();
    schema.shell("DROP TRIGGER refuse ON {s}.worker_queue");
    assert_eq!(work.attempt_count, 1);
    assert!(!try_work(&other).await, "it is leased");
    node.complete(&id, &work).await.unwrap().unwrap();
    assert_eq!(node.rows("worker_queue", &id), 0);
}

/// A claim would have to update the rows of activities.
fn refuse_claims(schema: &Schema) {
    schema.shell(
        "CREATE FUNCTION {s}.refuse() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'an activity was claimed'; END $$;
         CREATE TRIGGER refuse BEFORE UPDATE ON {s}.worker_queue FOR EACH STATEMENT EXECUTE FUNCTION {s}.refuse()",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn activities_of_any_turn_are_leased_to_the_workers_that_wait() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    let (turn, sent) = turn_beside_an_idle_worker(&node).await;
    let id = turn.item.instance.clone();
    // The third is more than the workers take, and waits for the next claim.
    let decided = Decided::first(&id).asking(&id, 3).asking(&id, 4);
    let (found, committed) = futures::join!(node.store.claim_work(claim_of_two()), async {
        assert!(!try_work(&node).await);
        refuse_claims(&schema);
        node.commit(&turn, decided).await
    });
    committed.unwrap();
    sent.await.unwrap().unwrap();
    let attempts = found.unwrap().into_iter().map(|work| work.attempt_count);
    assert_eq!(attempts.collect::<Vec<_>>(), [1, 1]);
    schema.shell("DROP TRIGGER refuse ON {s}.worker_queue");
    assert!(try_work(&node).await, "the third");
    assert!(!try_work(&node).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_its_turn_drops_does_not_hide_those_behind_it() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    let (turn, sent) = turn_beside_an_idle_worker(&node).await;
    let id = turn.item.instance.clone();
    // The first two are leased to the worker, and the first of them goes again.
    let decided = Decided::first(&id).asking(&id, 3).asking(&id, 4);
    let decided = decided.dropping(&id, 2);
    let (found, committed) = futures::join!(node.store.claim_work(claim_of_two()), async {
        assert!(!try_work(&node).await);
        node.commit(&turn, decided).await
    });
    committed.unwrap();
    sent.await.unwrap().unwrap();
    assert_eq!(found.unwrap().len(), 1);
    // Sooner than the next look at everything.
    let next = node.store.claim_work(claim(Duration::from_secs(2))).await;
    assert_eq!(next.unwrap().len(), 1, "the third waits for a look");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_of_a_paused_instance_is_leased_to_nobody() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    let (turn, sent) = node.early_start().await;
    let id = turn.item.instance.clone();
    node.commit(&turn, Decided::first(&id)).await.unwrap();
    sent.await.unwrap().unwrap();
    while try_work(&node).await {}
    node.store
        .enqueue_for_orchestrator(raised(&id), None)
        .await
        .unwrap();
    let turn = node.turn().await;
    let (work, ()) = futures::join!(node.work(), async {
        assert!(!try_work(&node).await);
        node.store.pause_instance(&id).await.unwrap();
        let decided = Decided::default().asking(&id, 3);
        node.commit(&turn, decided).await.unwrap();
        let waits =
            format!("{id}' AND lane LIKE 'paused %' AND lock_token IS NULL AND activity_id = '3");
        assert_eq!(node.rows("worker_queue", &waits), 1);
        node.store.resume_instance(&id).await.unwrap();
    });
    assert_eq!(work.attempt_count, 1);
}

/// An early turn of a node whose worker knows the lane of its activity and has nothing to claim.
async fn turn_beside_an_idle_worker(node: &Node<'_>) -> (ClaimedTurn, Sent) {
    // The worker learns the lane.
    let (turn, sent) = node.early_start().await;
    node.commit(&turn, Decided::first(&turn.item.instance))
        .await
        .unwrap();
    sent.await.unwrap().unwrap();
    let early = node.early_start().await;
    // The worker takes activities of turns that were not handed out early, too.
    while try_work(node).await {}
    early
}

/// Whether there was an activity to claim.
async fn try_work(node: &Node<'_>) -> bool {
    let found = node.store.claim_work(claim(Duration::ZERO)).await;
    !found.unwrap().is_empty()
}

fn claim_of_two() -> WorkClaim {
    WorkClaim {
        max: 2,
        ..claim(Duration::from_secs(20))
    }
}

fn claim(wait: Duration) -> WorkClaim {
    WorkClaim::one(Duration::from_secs(30), wait, None, &TagFilter::DefaultOnly)
}
