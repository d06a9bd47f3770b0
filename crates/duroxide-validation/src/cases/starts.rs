//! What a start carries beside its input: a memo, which lists show, and a deadline, which is a timer of the start.

use std::time::Duration;

use duroxide_core::provider::{InstanceQuery, PruneOptions};
use duroxide_core::{MEMO_BYTES_MAX, StartExtras, WorkItem};
use serde::Serialize;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, NAME, VERSION, items, kinds};

fn memo<T: Serialize + ?Sized>(memo: &T) -> StartExtras {
    let extras = StartExtras::default().with_memo(memo);
    extras.expect("it is short enough")
}

/// The first turn of an execution that began with this.
fn beginning(execution: u64, extras: &StartExtras) -> Commit {
    let (queue, data) = extras.carried().expect("it is something");
    Commit::to(execution)
        .event(1, kinds::started_carrying(&[(&queue, &data)]))
        .named(NAME, VERSION)
}

/// The memo of an instance, as a list shows it.
async fn shown<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: &str) -> Option<String> {
    let query = InstanceQuery::new().with_id_prefix(id);
    let page = bench.admin().query_instances(&query).await;
    let mut items = page.expect("a page").items.into_iter();
    let found = items.find(|one| one.instance_id == id);
    found.expect("it is listed").memo
}

/// As JSON, letter by letter, up to the longest one; others have none.
pub async fn a_list_shows_the_memo_of_a_start<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let longest = "x".repeat(MEMO_BYTES_MAX - 2);
    let memos = [
        memo(&["é", "\"quoted\" 'n = 1", "\0 \u{1f600}"]),
        memo(&longest),
        memo("null"),
        memo(&()),
    ];
    for (n, extras) in memos.iter().enumerate() {
        let id = format!("memo-{n}");
        bench.create_with(&id, beginning(1, extras)).await;
        assert_eq!(shown(&bench, &id).await, extras.memo);
    }
    bench.create("plain").await;
    assert_eq!(shown(&bench, "plain").await, None);
}

/// The next execution repeats it, and the list goes on to show it when the first execution is pruned and when the
/// instance has ended.
pub async fn a_memo_lasts_over_executions<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let given = memo("for Ada");
    let first = beginning(1, &given).continued("next");
    let first = first.message(items::next_execution("eternal"));
    bench.create_with("eternal", first).await;
    assert_eq!(shown(&bench, "eternal").await, given.memo, "in between");
    let second = beginning(2, &given).failed("it broke");
    bench.advance("eternal", second).await;
    assert_eq!(shown(&bench, "eternal").await, given.memo);
    let options = PruneOptions {
        keep_last: Some(1),
        ..Default::default()
    };
    let pruned = bench.admin().prune_executions("eternal", options).await;
    pruned.expect("old executions can be pruned");
    assert_eq!(shown(&bench, "eternal").await, given.memo);
}

/// An instance that is deleted takes its memo with it.
pub async fn a_later_life_has_a_memo_of_its_own<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create_with("again", beginning(1, &memo("one"))).await;
    assert!(shown(&bench, "again").await.is_some());
    let deleted = bench.admin().delete_instance("again", true).await;
    deleted.expect("it can be deleted");
    bench.create("again").await;
    assert_eq!(shown(&bench, "again").await, None);
}

/// Neither the code nor a client meets it among the key-values, and it counts as no message.
pub async fn a_memo_is_no_key_value_and_no_message<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let given = memo("for Ada");
    bench.create_with("order", beginning(1, &given)).await;
    let values = bench.store.get_kv_all_values("order").await;
    assert!(values.expect("an answer").is_empty());
    let stats = bench.store.get_instance_stats("order").await;
    let stats = stats.expect("an answer").expect("it exists");
    assert_eq!((stats.kv_user_key_count, stats.queue_pending_count), (0, 0));
    // Nor does a key of the author pass for it.
    let keys = ["memo", "duroxide:memo", "\u{1}memo"];
    let mut next = Commit::to(1).event(2, kinds::kv_set(keys[0], "own"));
    for key in &keys[1..] {
        next = next.and(kinds::kv_set(key, "own"));
    }
    bench.nudge("order", next).await;
    let values = bench.store.get_kv_all_values("order").await;
    let mut stored: Vec<_> = values.expect("an answer").into_keys().collect();
    stored.sort();
    assert_eq!(stored, ["\u{1}memo", "duroxide:memo", "memo"]);
}

/// What a start gave is carried from execution to execution, and keeps no queue message back.
pub async fn what_a_start_gave_holds_no_message_back<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    // As the engine writes it, between its other entries.
    let mut next = items::next_execution("actor");
    if let WorkItem::ContinueAsNew {
        carry_forward_events,
        ..
    } = &mut next
    {
        let labels = ("duroxide:labels".to_owned(), r#"{"a":"b"}"#.to_owned());
        carry_forward_events.push(labels);
        carry_forward_events.extend(memo("\"]] \\").carried());
    }
    let first = Commit::first().continued("next").message(next.clone());
    bench.create_with("actor", first).await;
    bench.send(items::queue_message("actor", "1")).await;
    let turn = bench.turn_of("actor").await;
    assert_eq!(
        turn.item.messages,
        [next, items::queue_message("actor", "1")]
    );
}

/// The deadline of an instance is a timer of its first event. It comes when it is due, also after other turns.
pub async fn a_deadline_comes_when_it_is_due<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let limit = bench.lock * 2;
    let extras = StartExtras::default().with_timeout(limit);
    let extras = extras.expect("it is long enough");
    let due = bench.now_ms() + u64::try_from(limit.as_millis()).expect("a lease is short");
    let deadline = items::timer("limited", 1, due);
    let first = beginning(1, &extras).message(deadline.clone());
    bench.create_with("limited", first).await;
    bench
        .nudge(
            "limited",
            Commit::to(1).event(2, kinds::custom_status(Some("busy"))),
        )
        .await;
    bench.idle("there is time left").await;
    bench.outlive(limit + Duration::from_millis(1)).await;
    let turn = bench.turn_of("limited").await;
    assert_eq!(turn.item.messages, [deadline]);
}

/// In another process it is still shown.
pub async fn a_memo_outlives_the_process<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let given = memo("for Ada");
    bench.create_with("order", beginning(1, &given)).await;
    let bench = bench.reopen().await;
    assert_eq!(shown(&bench, "order").await, given.memo);
}
