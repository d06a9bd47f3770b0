//! Cases: guarded batches and consistent reads.

use std::sync::Arc;
use std::time::Duration;

use super::{Desk, GROUPS, Harness, LEASE_MS, SINGLES, is_conflict, is_lost, pass_ms, texts};
use crate::atomic::{Batch, Guard, Operation, Query};
use crate::lease::LeaseToken;
use crate::message::{Claim, NewMessage, Queue, Role, Visible};
use crate::record::Record;
use crate::{EventStore, StoreError};

fn put(scope: &str, key: &str, value: &str) -> Operation {
    Operation::Put {
        scope: scope.to_owned(),
        key: key.to_owned(),
        value: value.into(),
    }
}

fn equals(scope: &str, key: &str, value: &str) -> Guard {
    Guard::Equals {
        scope: scope.to_owned(),
        key: key.to_owned(),
        value: value.into(),
    }
}

/// One operation of every kind, none of which may be seen afterwards.
fn one_of_each() -> Vec<Operation> {
    let record = Record {
        number: 1,
        data: Vec::new(),
    };
    vec![
        put("s", "new", "x"),
        Operation::Delete {
            scope: "s".to_owned(),
            key: "old".to_owned(),
        },
        Operation::Append {
            entity: "e".to_owned(),
            partition: 1,
            events: vec![record],
        },
        Operation::Enqueue {
            queue: GROUPS,
            message: NewMessage::new("g", "x"),
        },
        Operation::Enqueue {
            queue: SINGLES,
            message: NewMessage::new("g", "x"),
        },
    ]
}

async fn assert_untouched(store: &Arc<dyn EventStore>) {
    assert_eq!(store.get("s", "new").await.expect("get"), None);
    assert_eq!(store.get("s", "old").await.expect("get"), Some(vec![1]));
    assert!(store.events("e", 1, 0).await.expect("read").is_empty());
    for queue in [GROUPS, SINGLES] {
        let claimed = store.claim(Claim::one(queue, LEASE_MS)).await;
        assert!(claimed.expect("claim").is_empty());
    }
}

/// Neither the operations before nor those after the failing condition leave a trace.
pub async fn a_guard_that_does_not_hold_stores_nothing(harness: &impl Harness) {
    let store = harness.store();
    store.put("s", "old", vec![1]).await.expect("put");
    let batch = Batch::of(one_of_each()).guarded_by(equals("s", "old", "something else"));
    let result = store.commit(batch).await;
    assert!(is_conflict(&result), "{result:?}");
    assert_untouched(&store).await;

    let mut operations = one_of_each();
    operations.push(Operation::Complete {
        lease: LeaseToken::new("no such lease"),
    });
    let result = store.commit(Batch::of(operations)).await;
    assert!(is_lost(&result), "{result:?}");
    assert_untouched(&store).await;
}

/// Absent, present, equal, exactly these keys.
pub async fn guards_hold_as_they_say(harness: &impl Harness) {
    let store = harness.store();
    let (scope, key) = ("s".to_owned(), "k".to_owned());
    let absent = Guard::Absent {
        scope: scope.clone(),
        key: key.clone(),
    };
    let present = Guard::Present {
        scope: scope.clone(),
        key,
    };
    let keys = |keys: &[&str]| Guard::Keys {
        scope: scope.clone(),
        keys: keys.iter().map(|&key| key.to_owned()).collect(),
    };
    let try_guard = async |guard: Guard| store.commit(Batch::default().guarded_by(guard)).await;
    assert!(try_guard(absent.clone()).await.is_ok());
    assert!(try_guard(keys(&[])).await.is_ok());
    assert!(is_conflict(&try_guard(present.clone()).await));
    assert!(is_conflict(&try_guard(equals("s", "k", "")).await));
    store.put("s", "k", b"v".to_vec()).await.expect("put");
    assert!(is_conflict(&try_guard(absent).await));
    assert!(try_guard(present).await.is_ok());
    assert!(try_guard(equals("s", "k", "v")).await.is_ok());
    assert!(try_guard(keys(&["k"])).await.is_ok());
    assert!(is_conflict(&try_guard(keys(&[])).await));
    assert!(is_conflict(&try_guard(keys(&["k", "l"])).await));
}

/// A lead counts whether or not it is visible or leased, until it is gone; other messages do not.
pub async fn a_guard_sees_the_leads_of_a_group(harness: &impl Harness) {
    let desk = Desk::new(harness, Queue::grouped("led"));
    let lead = |is_there| Guard::Lead {
        queue: Queue::grouped("led"),
        group: "g".to_owned(),
        is_there,
    };
    let try_guard = async |is_there| {
        desk.store
            .commit(Batch::default().guarded_by(lead(is_there)))
            .await
    };
    let has_lead = async || {
        let (yes, no) = (try_guard(true).await, try_guard(false).await);
        assert_ne!(yes.is_ok(), no.is_ok(), "either there is one or not");
        assert!(is_conflict(&yes) || is_conflict(&no));
        yes.is_ok()
    };
    assert!(!has_lead().await, "nothing is there");
    desk.put("g", "plain").await;
    assert!(!has_lead().await, "a plain message leads nothing");
    let leading = |visible| Operation::Enqueue {
        queue: Queue::grouped("led"),
        message: NewMessage {
            role: Role::Lead,
            visible,
            ..NewMessage::new("g", "first")
        },
    };
    let delayed = Batch::of([leading(Visible::AfterMs(LEASE_MS))]);
    desk.store.commit(delayed).await.expect("enqueue");
    assert!(has_lead().await, "one that is not visible yet");
    pass_ms(harness, LEASE_MS).await;
    let claimed = desk.take().await;
    assert!(has_lead().await, "one that is leased");
    let done = Operation::Complete {
        lease: claimed.token,
    };
    desk.store
        .commit(Batch::of([done]))
        .await
        .expect("complete");
    assert!(!has_lead().await, "it is gone");
}

/// A holder whose lease has run out cannot write, although no other holder took it over.
pub async fn a_lost_lease_stores_nothing(harness: &impl Harness) {
    let desk = Desk::new(harness, Queue::grouped("other"));
    desk.store.put("s", "old", vec![1]).await.expect("put");
    desk.put("g", "x").await;
    let claimed = desk.take().await;
    pass_ms(harness, LEASE_MS).await;
    let batch = Batch::of(one_of_each()).guarded_by(Guard::Lease(claimed.token));
    let result = desk.store.commit(batch).await;
    assert!(is_lost(&result), "{result:?}");
    assert_untouched(&desk.store).await;
}

/// What is written and deleted in one batch is gone, and the other way round it stays.
pub async fn operations_are_applied_in_order(harness: &impl Harness) {
    let store = harness.store();
    let message = NewMessage {
        key: Some("k".to_owned()),
        ..NewMessage::new("g", "x")
    };
    let enqueue = Operation::Enqueue {
        queue: SINGLES,
        message,
    };
    let delete = Operation::DeleteKeyed {
        queue: SINGLES,
        group: "g".to_owned(),
        key: "k".to_owned(),
    };
    let drop_scope = Operation::DeleteScope {
        scope: "s".to_owned(),
    };
    let batch = Batch::of([
        put("s", "a", "1"),
        drop_scope,
        put("s", "b", "2"),
        enqueue,
        delete,
    ]);
    assert_eq!(store.commit(batch).await.expect("commit"), [1, 1, 1, 1, 1]);
    let entries = store.entries("s").await.expect("entries");
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].key, "b");
    let claimed = store.claim(Claim::one(SINGLES, LEASE_MS)).await;
    assert!(claimed.expect("claim").is_empty());
}

/// A counter raised by compare-and-set loses no step.
pub async fn only_one_of_many_writers_wins_each_round(harness: &impl Harness) {
    const WRITERS: u64 = 6;
    const STEPS: u64 = 10;
    let store = harness.store();
    store.put("s", "n", b"0".to_vec()).await.expect("put");
    let writers = (0..WRITERS).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for _ in 0..STEPS {
                while !raise(&*store).await {}
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer ends well");
    }
    let end = store.get("s", "n").await.expect("get");
    assert_eq!(end, Some((WRITERS * STEPS).to_string().into_bytes()));
}

async fn raise(store: &dyn EventStore) -> bool {
    let before = store.get("s", "n").await.expect("get").expect("present");
    let before = String::from_utf8(before).expect("text");
    let after = before.parse::<u64>().expect("a number") + 1;
    let batch =
        Batch::of([put("s", "n", &after.to_string())]).guarded_by(equals("s", "n", &before));
    match store.commit(batch).await {
        Ok(_) => true,
        Err(StoreError::Conflict(_) | StoreError::Retryable(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Two entries that always change together are never seen apart.
pub async fn queries_asked_together_see_one_state(harness: &impl Harness) {
    let store = harness.store();
    let write = async |n: u32| {
        let n = n.to_string();
        let batch = Batch::of([put("left", "k", &n), put("right", "k", &n)]);
        store.commit(batch).await.expect("commit");
    };
    write(0).await;
    let reader = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let entry = |scope: &str| Query::Entry {
                scope: scope.to_owned(),
                key: "k".to_owned(),
            };
            for _ in 0..200 {
                let both = vec![entry("left"), entry("right")];
                let both = store.query(both).await.expect("query");
                assert_eq!(both[0], both[1]);
            }
        }
    });
    for n in 1..50 {
        write(n).await;
    }
    reader.await.expect("the reader sees no half");
}

/// A queue that delivers groups cannot be used for single messages, and the other way round.
pub async fn a_queue_keeps_its_delivery(harness: &impl Harness) {
    let store = harness.store();
    let message = || NewMessage::new("g", "x");
    let grouped = Queue::grouped("mixed");
    store.enqueue(&grouped, message()).await.expect("enqueue");
    let as_single = Queue::single("mixed");
    let put = store.enqueue(&as_single, message()).await;
    assert!(matches!(put, Err(StoreError::Permanent(_))), "{put:?}");
    let claimed = store.claim(Claim::one(as_single, LEASE_MS)).await;
    assert!(matches!(claimed, Err(StoreError::Permanent(_))));
}

/// Guards of a claim are looked at in the same step, also of one that finds nothing and of one that waits.
pub async fn a_claim_whose_guard_does_not_hold_takes_nothing(harness: &impl Harness) {
    for queue in [GROUPS, SINGLES] {
        let desk = Desk::new(harness, queue);
        let scope = format!("doors of {}", desk.queue.name);
        let guarded = |wait| Claim {
            guards: vec![Guard::Absent {
                scope: scope.clone(),
                key: "closed".to_owned(),
            }],
            wait,
            ..desk.ask()
        };
        let at_once = Duration::ZERO;
        let nothing = desk.store.claim(guarded(at_once)).await;
        assert!(nothing.expect("the guard holds").is_empty());
        let put = desk.store.put(&scope, "closed", Vec::new()).await;
        put.expect("put");
        for wait in [at_once, Duration::from_secs(1)] {
            let idle = desk.store.claim(guarded(wait)).await;
            assert!(matches!(idle, Err(StoreError::Conflict(_))), "{idle:?}");
        }
        desk.put("a", "1").await;
        let refused = desk.store.claim(guarded(at_once)).await;
        assert!(
            matches!(refused, Err(StoreError::Conflict(_))),
            "{refused:?}"
        );
        desk.store.delete(&scope, "closed").await.expect("delete");
        let claimed = desk.store.claim(guarded(at_once)).await;
        let claimed = claimed.expect("the guard holds");
        assert_eq!(texts(&claimed[0]), ["1"]);
        assert_eq!(claimed[0].messages[0].attempts, 1, "nobody had it before");
    }
}
