//! Cases: the event log.

use super::{Harness, is_conflict};
use crate::atomic::{Batch, Operation, Query};
use crate::record::Record;

fn record(number: u64, text: &str) -> Record {
    Record {
        number,
        data: text.as_bytes().to_vec(),
    }
}

/// Numbers may have gaps and arrive in any order.
pub async fn events_come_back_in_the_order_of_their_numbers(harness: &impl Harness) {
    let store = harness.store();
    let append = |events| store.append("a", 1, events);
    let (one, two, nine) = (record(1, "one"), record(2, ""), record(9_999, "nine"));
    append(vec![nine.clone(), one.clone()])
        .await
        .expect("append");
    append(vec![two.clone()]).await.expect("append");
    let all = store.events("a", 1, 0).await.expect("read");
    assert_eq!(all, [one, two.clone(), nine.clone()]);
    assert_eq!(store.events("a", 1, 3).await.expect("read"), [nine]);
    let page = Query::Events {
        entity: "a".to_owned(),
        partition: 1,
        from: 2,
        limit: 1,
    };
    let page = store.query_one(page).await.and_then(|a| a.into_events());
    assert_eq!(page.expect("read"), [two]);
    assert!(store.events("b", 1, 0).await.expect("read").is_empty());
}

/// A second event with a number fails its whole batch and changes nothing.
pub async fn a_number_is_never_written_twice(harness: &impl Harness) {
    let store = harness.store();
    store
        .append("a", 1, vec![record(1, "first")])
        .await
        .expect("append");
    let again = store
        .append("a", 1, vec![record(2, "two"), record(1, "second")])
        .await;
    assert!(is_conflict(&again), "{again:?}");
    let twice = store
        .append("a", 2, vec![record(5, "x"), record(5, "y")])
        .await;
    assert!(is_conflict(&twice), "{twice:?}");
    let all = store.events("a", 1, 0).await.expect("read");
    assert_eq!(all, [record(1, "first")]);
    assert_eq!(store.partitions("a").await.expect("read"), [1]);
}

/// Each partition has numbers and sizes of its own.
pub async fn partitions_are_independent_and_listed(harness: &impl Harness) {
    let store = harness.store();
    for (entity, partition) in [("a", 10), ("a", 2), ("ab", 3), ("", 1)] {
        let text = format!("{entity}{partition}");
        let events = vec![record(1, &text), record(7, "é")];
        store
            .append(entity, partition, events)
            .await
            .expect("append");
    }
    assert_eq!(store.partitions("a").await.expect("read"), [2, 10]);
    assert_eq!(store.partitions("").await.expect("read"), [1]);
    let info = store.partition("a", 10).await.expect("read");
    assert_eq!((info.events, info.bytes, info.last), (2, 5, 7));
    let none = store.partition("a", 3).await.expect("read");
    assert_eq!((none.events, none.bytes, none.last), (0, 0, 0));
    let total = store.query_one(Query::EventCount).await;
    assert_eq!(total.and_then(|a| a.into_count()), Ok(8));
}

/// After a deletion the same numbers can be written again.
pub async fn deleted_events_are_counted_and_their_numbers_free(harness: &impl Harness) {
    let store = harness.store();
    for partition in 1..=3 {
        let events = vec![record(1, "x"), record(2, "y")];
        store.append("a", partition, events).await.expect("append");
    }
    store
        .append("ab", 1, vec![record(1, "z")])
        .await
        .expect("append");
    store.put("a", "k", vec![1]).await.expect("put");
    let one = Operation::DeletePartition {
        entity: "a".to_owned(),
        partition: 2,
    };
    let rest = Operation::DeleteEntity {
        entity: "a".to_owned(),
    };
    let none = Operation::DeletePartition {
        entity: "a".to_owned(),
        partition: 2,
    };
    let counts = store.commit(Batch::of([one, rest, none])).await;
    assert_eq!(counts.expect("commit"), [2, 4, 0]);
    assert!(store.partitions("a").await.expect("read").is_empty());
    assert_eq!(store.partitions("ab").await.expect("read"), [1]);
    assert_eq!(store.get("a", "k").await.expect("get"), Some(vec![1]));
    let again = store.append("a", 2, vec![record(1, "again")]).await;
    again.expect("the number is free");
}

/// However long a log is, readers see all of it or nothing, and the same numbers can be written again at once.
pub async fn a_long_log_is_deleted_as_one(harness: &impl Harness) {
    const LONG: u64 = 3_000;
    let store = harness.store();
    let long = || (1..=LONG).map(|number| record(number, "x")).collect();
    let deletion = || Operation::DeleteEntity {
        entity: "a".to_owned(),
    };
    store.append("a", 1, long()).await.expect("append");
    store.append("a", 2, long()).await.expect("append");
    store.append("b", 1, long()).await.expect("append");
    let counts = store.commit(Batch::of([deletion()])).await;
    assert_eq!(counts.expect("commit"), [2 * LONG]);
    assert!(store.partitions("a").await.expect("read").is_empty());
    assert!(store.events("a", 1, 0).await.expect("read").is_empty());
    let info = store.partition("a", 2).await.expect("read");
    assert_eq!((info.events, info.last), (0, 0));
    let total = store.query_one(Query::EventCount).await;
    assert_eq!(total.and_then(|a| a.into_count()), Ok(LONG));
    let counts = store.commit(Batch::of([deletion()])).await;
    assert_eq!(counts.expect("commit"), [0], "nothing is left to delete");
    let again = store.append("a", 1, vec![record(2, "again")]).await;
    again.expect("the number is free");
    let all = store.events("a", 1, 0).await.expect("read");
    assert_eq!(all, [record(2, "again")]);
    assert_eq!(store.partitions("a").await.expect("read"), [1]);
}
