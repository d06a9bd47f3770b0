//! Turns that are handed out before their messages are stored: what is stored then, and what if somebody else was
//! quicker.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide_core::event::{Event, EventKind};
use duroxide_core::provider::{
    CachedHistories, CachedHistory, ClaimedTurn, ClaimedWork, ExecutionMetadata, HandOut, Provider,
    ProviderAdmin, ProviderError, ScheduledActivityIdentifier, TagFilter, TurnClaim, WorkClaim,
    WorkItem,
};
use duroxide_pg::PostgresProvider;
use tokio::task::JoinHandle;

use crate::meetings::{named, raised, start, started};
use crate::support::Schema;

pub(crate) const LEASE: Duration = Duration::from_secs(30);
const WAIT: Duration = Duration::from_secs(20);
/// Longer than any test takes.
const FOR_EVER: Duration = Duration::from_secs(600);
/// How often a step is tried that needs a claim which rests: it does, once it was tried.
const TRIES: usize = 100;

pub(crate) type Sent = JoinHandle<Result<(), ProviderError>>;

/// What a dispatcher holds of its instances.
#[derive(Default)]
struct Held(Mutex<Vec<(String, CachedHistory)>>);

impl CachedHistories for Held {
    fn cached(&self, instance: &str) -> Option<CachedHistory> {
        let held = self.0.lock().unwrap();
        let found = held.iter().rev().find(|(id, _)| id == instance);
        found.map(|(_, history)| *history)
    }
}

/// What one turn decides.
#[derive(Default)]
pub(crate) struct Decided {
    pub(crate) events: Vec<Event>,
    pub(crate) work: Vec<WorkItem>,
    sent: Vec<WorkItem>,
    dropped: Vec<ScheduledActivityIdentifier>,
    pub(crate) metadata: ExecutionMetadata,
}

impl Decided {
    /// The instance begins, and asks for an activity.
    pub(crate) fn first(id: &str) -> Self {
        let begun = Self {
            events: started(id),
            metadata: named(),
            ..Self::default()
        };
        begun.asking(id, 2)
    }

    /// As this, and it asks for one more activity.
    pub(crate) fn asking(mut self, id: &str, event_id: u64) -> Self {
        let kind = EventKind::ActivityScheduled {
            name: "Act".to_owned(),
            input: "{}".to_owned(),
            session_id: None,
            tag: None,
        };
        self.events
            .push(Event::with_event_id(event_id, id, 1, None, kind));
        self.work.push(WorkItem::ActivityExecute {
            instance: id.to_owned(),
            execution_id: 1,
            id: event_id,
            name: "Act".to_owned(),
            input: "{}".to_owned(),
            session_id: None,
            tag: None,
        });
        self
    }

    /// As this, and it drops an activity.
    pub(crate) fn dropping(mut self, id: &str, event_id: u64) -> Self {
        self.dropped.push(ScheduledActivityIdentifier {
            instance: id.to_owned(),
            execution_id: 1,
            activity_id: event_id,
        });
        self
    }

    /// As the first turn, with a timer that is due in an hour.
    fn with_timer(mut self, id: &str) -> Self {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap();
        let due = now + Duration::from_secs(3_600);
        self.sent.push(WorkItem::TimerFired {
            instance: id.to_owned(),
            execution_id: 1,
            id: 9,
            fire_at_ms: u64::try_from(due.as_millis()).unwrap(),
        });
        self
    }

    /// The result is recorded, and the instance goes on.
    pub(crate) fn next(id: &str) -> Self {
        let kind = EventKind::ActivityCompleted {
            result: "done".to_owned(),
        };
        Self {
            events: vec![Event::with_event_id(3, id, 1, Some(2), kind)],
            ..Self::default()
        }
    }

    /// The instance ends.
    pub(crate) fn last(id: &str, event_id: u64) -> Self {
        let kind = EventKind::OrchestrationCompleted {
            output: "done".to_owned(),
        };
        Self {
            events: vec![Event::with_event_id(event_id, id, 1, None, kind)],
            work: Vec::new(),
            sent: Vec::new(),
            dropped: vec![],
            metadata: ExecutionMetadata {
                status: Some("Completed".to_owned()),
                output: Some("done".to_owned()),
                ..ExecutionMetadata::default()
            },
        }
    }
}

fn completed(id: &str) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: id.to_owned(),
        execution_id: 1,
        id: 2,
        result: "done".to_owned(),
    }
}

/// A node: a store, and what its dispatcher holds.
pub(crate) struct Node<'s> {
    schema: &'s Schema,
    pub(crate) store: Arc<PostgresProvider>,
    held: Arc<Held>,
}

impl<'s> Node<'s> {
    pub(crate) async fn on(schema: &'s Schema) -> Self {
        let store = schema.open().await;
        store.hold_early_turns(FOR_EVER);
        Self {
            schema,
            store: Arc::new(store),
            held: Arc::default(),
        }
    }

    pub(crate) async fn turn(&self) -> ClaimedTurn {
        self.turn_within(WAIT).await.expect("a turn")
    }

    pub(crate) async fn turn_within(&self, wait: Duration) -> Option<ClaimedTurn> {
        let claim = TurnClaim {
            hand_out: HandOut::BeforeCommit,
            cached: Some(Arc::clone(&self.held) as _),
            ..TurnClaim::new(1, LEASE, wait)
        };
        self.store.claim_turns(claim).await.unwrap().pop()
    }

    pub(crate) async fn work(&self) -> ClaimedWork {
        let claim = WorkClaim::one(LEASE, WAIT, None, &TagFilter::DefaultOnly);
        let mut found = self.store.claim_work(claim).await.unwrap();
        found.pop().expect("an activity")
    }

    pub(crate) async fn commit(
        &self,
        turn: &ClaimedTurn,
        decided: Decided,
    ) -> Result<(), ProviderError> {
        let Decided {
            events,
            work,
            sent,
            dropped,
            metadata,
        } = decided;
        let last = events.last().map(Event::event_id);
        let (token, execution) = (&turn.lock_token, turn.item.execution_id);
        self.store
            .ack_orchestration_item(token, execution, events, work, sent, metadata, dropped)
            .await?;
        let history = CachedHistory {
            incarnation: turn.incarnation.unwrap(),
            execution_id: execution,
            last_event_id: last.unwrap(),
        };
        let id = turn.item.instance.clone();
        self.held.0.lock().unwrap().push((id, history));
        Ok(())
    }

    pub(crate) fn start(&self, id: &str) -> Sent {
        let (store, item) = (Arc::clone(&self.store), start(id));
        tokio::spawn(async move { store.enqueue_for_orchestrator(item, None).await })
    }

    pub(crate) fn complete(&self, id: &str, work: &ClaimedWork) -> Sent {
        let (store, token) = (Arc::clone(&self.store), work.lock_token.clone());
        let completion = completed(id);
        tokio::spawn(async move { store.ack_work_item(&token, Some(completion)).await })
    }

    /// How many rows of a table are about an instance.
    pub(crate) fn rows(&self, table: &str, id: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {{s}}.{table} WHERE instance_id = '{id}'");
        self.schema.shell(&sql)
    }

    /// How many results are queued for an instance.
    fn results(&self, id: &str) -> i64 {
        self.rows(
            "orchestrator_queue",
            &format!("{id}' AND kind = 'ActivityCompleted"),
        )
    }

    /// Starts instances until the turn of one is handed out before its start is stored.
    pub(crate) async fn early_start(&self) -> (ClaimedTurn, Sent) {
        for _ in 0..TRIES {
            let id = format!("start-{}", uuid::Uuid::new_v4().simple());
            let sent = self.start(&id);
            let turn = self.turn().await;
            if self.rows("orchestrator_queue", &id) == 0 {
                return (turn, sent);
            }
            sent.await.unwrap().unwrap();
            self.commit(&turn, Decided::first(&id)).await.unwrap();
        }
        panic!("no turn was handed out early");
    }

    /// Completes activities until a turn is handed out before the result that it takes is stored.
    pub(crate) async fn early_result(&self) -> (ClaimedTurn, Sent) {
        self.early_result_after(Decided::first).await
    }

    async fn early_result_after(&self, first: impl Fn(&str) -> Decided) -> (ClaimedTurn, Sent) {
        for _ in 0..TRIES {
            let id = format!("result-{}", uuid::Uuid::new_v4().simple());
            let begun = self.start(&id);
            let turn = self.turn().await;
            self.commit(&turn, first(&id)).await.unwrap();
            begun.await.unwrap().unwrap();
            let work = self.work().await;
            // Once the second claim is answered, the first one was tried and rests.
            let (turn, sent) = futures::join!(self.turn(), async {
                assert!(self.turn_within(Duration::ZERO).await.is_none());
                Some(self.complete(&id, &work))
            });
            let sent = sent.unwrap();
            if self.results(&id) == 0 {
                return (turn, sent);
            }
            sent.await.unwrap().unwrap();
            let end = Decided::last(&id, 3);
            self.commit(&turn, end).await.unwrap();
        }
        panic!("no turn was handed out early");
    }
}

pub(crate) fn lost(refused: Result<(), ProviderError>) {
    let refused = refused.expect_err("it was handed out early, and somebody was quicker");
    assert!(refused.is_lease_lost(), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_is_stored_with_the_turn_that_it_caused() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    let (turn, sent) = node.early_start().await;
    let id = turn.item.instance.clone();
    assert!(
        !sent.is_finished(),
        "nothing is acknowledged that is not stored"
    );
    assert_eq!(node.rows("instances", &id), 0);
    node.commit(&turn, Decided::first(&id)).await.unwrap();
    sent.await.unwrap().unwrap();
    assert_eq!(node.store.read(&id).await.unwrap().len(), 2);
    assert_eq!(node.rows("inboxes", &id), 0, "nothing is left of its lease");
    assert_eq!(node.work().await.attempt_count, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_stored_with_the_turn_that_it_caused() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    let (turn, sent) = node.early_result().await;
    let id = turn.item.instance.clone();
    assert_eq!(turn.item.messages, [completed(&id)]);
    assert!(
        !sent.is_finished(),
        "nothing is acknowledged that is not stored"
    );
    assert_eq!(node.rows("worker_queue", &id), 1);
    let end = Decided::last(&id, 3);
    node.commit(&turn, end).await.unwrap();
    sent.await.unwrap().unwrap();
    assert_eq!(node.store.read(&id).await.unwrap().len(), 3);
    let left = ["worker_queue", "orchestrator_queue", "inboxes"].map(|it| node.rows(it, &id));
    assert_eq!(left, [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_came_first_is_read_first_and_the_result_is_not_lost() {
    let schema = Schema::new();
    let (node, other) = (Node::on(&schema).await, Node::on(&schema).await);
    let (turn, sent) = node.early_result().await;
    let id = turn.item.instance.clone();
    other
        .store
        .enqueue_for_orchestrator(raised(&id), None)
        .await
        .unwrap();
    let end = Decided::last(&id, 3);
    lost(node.commit(&turn, end).await);
    sent.await.unwrap().unwrap();
    assert_eq!(
        node.store.read(&id).await.unwrap().len(),
        2,
        "nothing of it is stored"
    );
    let turn = node.turn().await;
    assert_eq!(turn.item.messages, [raised(&id), completed(&id)]);
    node.commit(&turn, Decided::last(&id, 3)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_another_node_started_first_is_not_begun_twice() {
    let schema = Schema::new();
    let (node, other) = (Node::on(&schema).await, Node::on(&schema).await);
    let (turn, sent) = node.early_start().await;
    let id = turn.item.instance.clone();
    let there = other.start(&id);
    let theirs = other.turn().await;
    other.commit(&theirs, Decided::first(&id)).await.unwrap();
    there.await.unwrap().unwrap();
    lost(node.commit(&turn, Decided::first(&id)).await);
    sent.await.unwrap().unwrap();
    assert_eq!(node.store.read(&id).await.unwrap().len(), 2);
    assert_eq!(
        node.rows("worker_queue", &id),
        1,
        "one activity, of the first"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_of_a_deleted_instance_leaves_nothing_behind() {
    let schema = Schema::new();
    let (node, other) = (Node::on(&schema).await, Node::on(&schema).await);
    let (turn, sent) = node.early_result().await;
    let id = turn.item.instance.clone();
    other.store.delete_instance(&id, true).await.unwrap();
    lost(node.commit(&turn, Decided::last(&id, 3)).await);
    let gone = sent.await.unwrap().expect_err("its activity went with it");
    assert!(gone.is_lease_lost(), "{gone}");
    let tables = ["instances", "executions", "history", "worker_queue"];
    assert_eq!(tables.map(|it| node.rows(it, &id)), [0; 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_instance_takes_no_result() {
    let schema = Schema::new();
    let (node, other) = (Node::on(&schema).await, Node::on(&schema).await);
    let (turn, sent) = node.early_result().await;
    let id = turn.item.instance.clone();
    other.store.pause_instance(&id).await.unwrap();
    lost(node.commit(&turn, Decided::last(&id, 3)).await);
    sent.await.unwrap().unwrap();
    assert!(
        node.turn_within(Duration::ZERO).await.is_none(),
        "it is paused"
    );
    other.store.resume_instance(&id).await.unwrap();
    let turn = node.turn().await;
    assert_eq!(turn.item.messages, [completed(&id)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_whose_worker_lost_its_lease_decides_nothing() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    let (turn, sent) = node.early_result().await;
    let id = turn.item.instance.clone();
    schema.shell(&format!(
        "UPDATE {{s}}.worker_queue SET locked_until = 1 WHERE instance_id = '{id}'"
    ));
    lost(node.commit(&turn, Decided::last(&id, 3)).await);
    let late = sent.await.unwrap().expect_err("its lease is over");
    assert!(late.is_lease_lost(), "{late}");
    assert_eq!(node.store.read(&id).await.unwrap().len(), 2);
    let again = node.work().await;
    assert_eq!(again.attempt_count, 2, "the activity is run again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_takes_long_holds_nothing_up_and_is_committed_later() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    node.store.hold_early_turns(Duration::ZERO);
    for n in 0..20 {
        let id = format!("long-{n}");
        let sent = node.start(&id);
        let turn = node.turn().await;
        // Acknowledged before the turn is: its message and its lease are stored.
        sent.await.unwrap().unwrap();
        assert_eq!(node.rows("orchestrator_queue", &id), 1);
        assert!(
            node.turn_within(Duration::ZERO).await.is_none(),
            "it is leased"
        );
        node.commit(&turn, Decided::first(&id)).await.unwrap();
        assert_eq!(node.rows("orchestrator_queue", &id), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_while_a_turn_is_out_waits_behind_it() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    let (turn, sent) = node.early_start().await;
    let id = turn.item.instance.clone();
    let (store, signal) = (Arc::clone(&node.store), raised(&id));
    let signal = tokio::spawn(async move { store.enqueue_for_orchestrator(signal, None).await });
    node.commit(&turn, Decided::first(&id)).await.unwrap();
    sent.await.unwrap().unwrap();
    signal.await.unwrap().unwrap();
    assert_eq!(node.turn().await.item.messages, [raised(&id)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_result_of_a_second_attempt_is_stored_before_its_turn_is_handed_out() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    // The turn that took the first one may have ended its process.
    for n in 0..10 {
        let id = format!("second-{n}");
        let begun = node.start(&id);
        let turn = node.turn().await;
        node.commit(&turn, Decided::first(&id)).await.unwrap();
        begun.await.unwrap().unwrap();
        let work = node.work().await;
        node.store
            .abandon_work_item(&work.lock_token, None, false)
            .await
            .unwrap();
        let work = node.work().await;
        assert_eq!(work.attempt_count, 2);
        let sent = node.complete(&id, &work);
        let turn = node.turn().await;
        sent.await.unwrap().unwrap();
        assert_eq!(node.rows("orchestrator_queue", &id), 1);
        node.commit(&turn, Decided::last(&id, 3)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_a_process_that_may_have_crashed_starts_are_stored_first() {
    let schema = Schema::new();
    drop(schema.open().await);
    schema.shell("INSERT INTO {s}.openings VALUES (gen_random_uuid(), 9000000000000)");
    let node = Node::on(&schema).await;
    for n in 0..10 {
        let id = format!("start-{n}");
        let sent = node.start(&id);
        let turn = node.turn().await;
        assert_eq!(node.rows("orchestrator_queue", &id), 1);
        sent.await.unwrap().unwrap();
        node.commit(&turn, Decided::first(&id)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_that_is_not_due_is_not_in_the_way_of_a_result() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    let waiting = |id: &str| Decided::first(id).with_timer(id);
    let (turn, sent) = node.early_result_after(waiting).await;
    let id = turn.item.instance.clone();
    node.commit(&turn, Decided::next(&id)).await.unwrap();
    sent.await.unwrap().unwrap();
    assert_eq!(node.rows("orchestrator_queue", &id), 1, "the timer");
    let free = format!("{id}' AND lock_token IS NULL AND ready_at > '1700000000000");
    assert_eq!(node.rows("inboxes", &free), 1, "which waits for its time");
    // The same, but the turn takes long: its lease claims the result alone.
    let (turn, sent) = node.early_result_after(waiting).await;
    let id = turn.item.instance.clone();
    node.store.store_lease(&turn.lock_token).await.unwrap();
    sent.await.unwrap().unwrap();
    node.commit(&turn, Decided::next(&id)).await.unwrap();
    assert_eq!(
        (node.rows("orchestrator_queue", &id), node.results(&id)),
        (1, 0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_to_cancel_that_waits_behind_a_turn_keeps_its_time() {
    let schema = Schema::new();
    let node = Node::on(&schema).await;
    let (turn, sent) = node.early_start().await;
    let id = turn.item.instance.clone();
    let request = WorkItem::CancelInstance {
        instance: id.clone(),
        reason: "no more need".to_owned(),
    };
    let store = Arc::clone(&node.store);
    let asked = tokio::spawn(async move { store.enqueue_for_orchestrator(request, None).await });
    node.commit(&turn, Decided::first(&id)).await.unwrap();
    sent.await.unwrap().unwrap();
    asked.await.unwrap().unwrap();
    let timed = format!("{id}' AND cancel_at > '1700000000000");
    assert_eq!(
        node.rows("inboxes", &timed),
        1,
        "nodes without the code need it"
    );
}
