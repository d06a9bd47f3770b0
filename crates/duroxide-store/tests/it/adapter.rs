//! The adapter over the memory store: what the conformance kit does not reach, or reaches only with a clock.

use std::time::Duration;

use duroxide_core::Event;
use duroxide_core::provider::{
    ExecutionMetadata, Incarnation, Provider, ProviderAdmin, TagFilter, TurnClaim, TurnHistory,
};
use duroxide_store::{ManualClock, MemoryProvider, MessageQueue, NewMessage, Queue, TokioClock};
use duroxide_validation::kinds;

use crate::support::{signal, start};

const LOCK: Duration = Duration::from_secs(30);

fn started(instance: &str) -> Event {
    Event::with_event_id(1, instance, 1, None, kinds::started_as("Hello", "1.0.0"))
}

fn named() -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Hello".into()),
        orchestration_version: Some("1.0.0".into()),
        ..ExecutionMetadata::default()
    }
}

async fn begin(provider: &MemoryProvider, instance: &str) {
    provider
        .enqueue_for_orchestrator(start(instance), None)
        .await
        .unwrap();
    let (_, token, _) = provider
        .fetch_orchestration_item(LOCK, Duration::ZERO, None)
        .await
        .unwrap()
        .unwrap();
    provider
        .ack_orchestration_item(
            &token,
            1,
            vec![started(instance)],
            vec![],
            vec![],
            named(),
            vec![],
        )
        .await
        .unwrap();
}

#[tokio::test]
async fn a_turn_is_claimed_committed_and_read_back() {
    let provider = MemoryProvider::with_clock(ManualClock::at(1_000));
    begin(&provider, "a").await;
    let history = provider.read("a").await.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].kind, started("a").kind);
    assert_eq!(provider.list_instances().await.unwrap(), ["a"]);
    let info = provider.get_instance_info("a").await.unwrap();
    assert_eq!((info.status.as_str(), info.created_at), ("Running", 1_000));
}

#[tokio::test]
async fn a_message_for_an_unknown_instance_waits_and_then_becomes_a_dead_letter() {
    let clock = ManualClock::at(1_000);
    let provider = MemoryProvider::with_clock(&clock);
    let fetch = || provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
    provider
        .enqueue_for_orchestrator(signal("ghost"), None)
        .await
        .unwrap();
    provider
        .enqueue_for_orchestrator(start("other"), None)
        .await
        .unwrap();
    let (item, _, _) = fetch().await.unwrap().unwrap();
    assert_eq!(item.instance, "other", "an orphan is never head of line");
    assert!(fetch().await.unwrap().is_none());
    assert!(provider.list_dead_letters(9).await.unwrap().is_empty());

    clock.advance(Duration::from_secs(60));
    let (again, _, attempts) = fetch().await.unwrap().unwrap();
    assert_eq!((again.instance.as_str(), attempts), ("other", 2));
    assert!(fetch().await.unwrap().is_none());
    let letters = provider.list_dead_letters(9).await.unwrap();
    assert_eq!(letters[0].instance_id.as_deref(), Some("ghost"));
    assert!(provider.delete_dead_letter(letters[0].id).await.unwrap());
    assert!(provider.list_dead_letters(9).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_grace_period_without_end_never_ends() {
    let clock = ManualClock::at(1_000);
    let provider = MemoryProvider::with_clock(&clock).with_unknown_instance_grace(Duration::MAX);
    let fetch = || provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
    let early = provider.enqueue_for_orchestrator(signal("late"), None);
    early.await.unwrap();
    assert!(fetch().await.unwrap().is_none());
    clock.advance(Duration::from_secs(60 * 60 * 24 * 365 * 1_000));
    assert!(fetch().await.unwrap().is_none());
    let begun = provider.enqueue_for_orchestrator(start("late"), None);
    begun.await.unwrap();
    let (item, _, _) = fetch().await.unwrap().unwrap();
    assert_eq!(item.messages, [signal("late"), start("late")]);
}

#[tokio::test]
async fn a_grace_period_of_no_length_is_over_at_once() {
    let clock = ManualClock::at(1_000);
    let provider = MemoryProvider::with_clock(&clock).with_unknown_instance_grace(Duration::ZERO);
    let early = provider.enqueue_for_orchestrator(signal("late"), None);
    early.await.unwrap();
    let fetched = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
    assert!(fetched.await.unwrap().is_none());
    let letters = provider.list_dead_letters(9).await.unwrap();
    assert_eq!(letters[0].instance_id.as_deref(), Some("late"));
}

#[tokio::test]
async fn a_start_that_comes_late_gets_the_message_that_came_early() {
    let provider = MemoryProvider::with_clock(ManualClock::at(1_000));
    provider
        .enqueue_for_orchestrator(signal("late"), None)
        .await
        .unwrap();
    let fetch = || provider.fetch_orchestration_item(LOCK, Duration::ZERO, None);
    assert!(fetch().await.unwrap().is_none());
    provider
        .enqueue_for_orchestrator(start("late"), None)
        .await
        .unwrap();
    let (item, _, attempts) = fetch().await.unwrap().unwrap();
    assert_eq!(item.messages, [signal("late"), start("late")]);
    assert_eq!(attempts, 1, "the early look does not count");
}

#[tokio::test]
async fn a_message_that_does_not_decode_is_dead_lettered_and_the_rest_goes_on() {
    let provider = MemoryProvider::with_clock(ManualClock::at(1_000));
    let raw = |queue: &'static str, grouped: bool| {
        let queue = if grouped {
            Queue::grouped(queue)
        } else {
            Queue::single(queue)
        };
        (queue, NewMessage::new("a", "{\"FromTheFuture\":{}}"))
    };
    for (queue, message) in [raw("orchestrator", true), raw("worker", false)] {
        provider.store().enqueue(&queue, message).await.unwrap();
    }
    provider
        .enqueue_for_orchestrator(start("a"), None)
        .await
        .unwrap();
    let (item, _, attempts) = provider
        .fetch_orchestration_item(LOCK, Duration::ZERO, None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(item.messages, [start("a")]);
    assert_eq!(attempts, 1);
    let work = provider
        .fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any)
        .await
        .unwrap();
    assert!(work.is_none());
    let letters = provider.list_dead_letters(9).await.unwrap();
    let queues: Vec<_> = letters.iter().map(|l| l.queue.as_str()).collect();
    assert_eq!(queues, ["orchestrator", "worker"]);
}

#[derive(Debug)]
struct Holds(u64, Incarnation);

impl duroxide_core::provider::CachedHistories for Holds {
    fn cached(&self, _: &str) -> Option<duroxide_core::provider::CachedHistory> {
        Some(duroxide_core::provider::CachedHistory {
            incarnation: self.1,
            execution_id: 1,
            last_event_id: self.0,
        })
    }
}

#[tokio::test]
async fn a_current_copy_is_confirmed_and_a_stale_one_is_replaced() {
    let provider = MemoryProvider::with_clock(ManualClock::at(1_000));
    begin(&provider, "a").await;
    let mut incarnation = Incarnation::from_random(0);
    for (held, unchanged, events) in [(7, false, 1), (1, true, 0)] {
        provider
            .enqueue_for_orchestrator(signal("a"), None)
            .await
            .unwrap();
        let claim = TurnClaim {
            cached: Some(std::sync::Arc::new(Holds(held, incarnation))),
            ..TurnClaim::new(4, LOCK, Duration::ZERO)
        };
        let turns = provider.claim_turns(claim).await.unwrap();
        assert_eq!(turns.len(), 1);
        incarnation = turns[0].incarnation.unwrap();
        assert_eq!(turns[0].history != TurnHistory::Loaded, unchanged);
        assert_eq!(turns[0].item.history.len(), events);
        let token = &turns[0].lock_token;
        provider
            .abandon_orchestration_item(token, None, true)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_waiting_claim_is_woken_by_a_commit_and_by_a_moved_clock() {
    let clock = ManualClock::at(1_000);
    let provider = MemoryProvider::with_clock(&clock);
    let patience = Duration::from_secs(20);
    let waiting = tokio::spawn({
        let provider = provider.clone();
        async move {
            provider
                .fetch_orchestration_item(LOCK, patience, None)
                .await
        }
    });
    tokio::task::yield_now().await;
    provider
        .enqueue_for_orchestrator(start("a"), Some(Duration::from_secs(3_600)))
        .await
        .unwrap();
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    clock.advance(Duration::from_secs(3_600));
    let (item, _, _) = waiting.await.unwrap().unwrap().unwrap();
    assert_eq!(item.instance, "a");
}

#[tokio::test]
async fn a_watch_notices_a_commit_made_before_the_wait() {
    let provider = MemoryProvider::new();
    let mut watch = provider.watch_instance("a").unwrap();
    begin(&provider, "a").await;
    watch.changed().await;
}

#[tokio::test]
async fn dead_lettered_messages_leave_the_rest_of_the_batch_claimed() {
    let provider = MemoryProvider::new();
    begin(&provider, "a").await;
    for _ in 0..3 {
        provider
            .enqueue_for_orchestrator(signal("a"), None)
            .await
            .unwrap();
    }
    let (item, token, _) = provider
        .fetch_orchestration_item(LOCK, Duration::ZERO, None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(item.messages.len(), 3);
    assert!(
        provider
            .dead_letter_messages(&token, &[0, 2], "poison")
            .await
            .unwrap()
    );
    assert!(
        provider
            .dead_letter_messages(&token, &[3], "poison")
            .await
            .is_err()
    );
    assert_eq!(provider.list_dead_letters(9).await.unwrap().len(), 2);
    provider
        .abandon_orchestration_item(&token, None, false)
        .await
        .unwrap();
    let (item, _, attempts) = provider
        .fetch_orchestration_item(LOCK, Duration::ZERO, None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((item.messages.len(), attempts), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn paused_time_jumps_to_what_is_due() {
    let month = Duration::from_secs(30 * 24 * 3_600);
    let provider = MemoryProvider::with_clock(TokioClock::starting_at(1_000));
    provider
        .enqueue_for_orchestrator(start("a"), Some(month))
        .await
        .unwrap();
    let begun = tokio::time::Instant::now();
    let found = provider
        .fetch_orchestration_item(LOCK, 2 * month, None)
        .await
        .unwrap();
    assert_eq!(found.unwrap().0.instance, "a");
    let passed = begun.elapsed();
    assert!(passed >= month && passed < month + LOCK, "{passed:?}");
}

#[tokio::test]
async fn a_lease_that_lapses_at_once_is_handed_out_all_the_same() {
    let clock = ManualClock::at(1_000);
    let provider = MemoryProvider::with_clock(&clock);
    provider
        .enqueue_for_orchestrator(start("a"), None)
        .await
        .unwrap();
    let (_, token, _) = provider
        .fetch_orchestration_item(Duration::ZERO, Duration::ZERO, None)
        .await
        .unwrap()
        .unwrap();
    clock.advance(Duration::from_millis(1));
    let late = provider
        .ack_orchestration_item(&token, 1, vec![], vec![], vec![], named(), vec![])
        .await;
    assert!(!late.unwrap_err().is_retryable());
}

#[tokio::test]
async fn what_nobody_understands_is_put_away_under_a_lease_of_no_length() {
    let provider = MemoryProvider::with_clock(ManualClock::at(1_000));
    provider
        .enqueue_for_orchestrator(signal("ghost"), None)
        .await
        .unwrap();
    let broken = || NewMessage::new("a", "{}");
    for queue in [Queue::grouped("orchestrator"), Queue::single("worker")] {
        provider.store().enqueue(&queue, broken()).await.unwrap();
    }
    let none = Duration::ZERO;
    let turn = provider.fetch_orchestration_item(none, none, None).await;
    assert!(turn.unwrap().is_none());
    let work = provider
        .fetch_work_item(none, none, None, &TagFilter::Any)
        .await;
    assert!(work.unwrap().is_none());
    assert_eq!(provider.list_dead_letters(9).await.unwrap().len(), 2);
}
