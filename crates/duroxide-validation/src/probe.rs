//! How the kit finds out what a store can do: it asks the factory, or tries it on a store of its own.
//!
//! In: a factory and the needs of a case. Out: the first need that is not met.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::provider::{
    BlockedInstance, CLAIM_BYTES_IN_ALL_MAX, Incarnation, OrchestrationHandlers, Provider,
    TagFilter, TurnClaim, WorkClaim,
};

use crate::fixture::{Commit, claim_from, commit_to, hold_to, items};
use crate::{Capability, ProviderFactory};

/// The first of these needs that is not met here, or `None` if the case can run.
pub(crate) async fn missing(
    factory: &dyn ProviderFactory,
    needs: &[Capability],
) -> Option<Capability> {
    for need in needs {
        if !offered(factory, *need).await {
            return Some(*need);
        }
    }
    None
}

async fn offered(factory: &dyn ProviderFactory, need: Capability) -> bool {
    match need {
        Capability::ShortPoll => !factory.long_polls(),
        Capability::LongPoll => factory.long_polls(),
        Capability::UnknownInstanceGrace => factory.unknown_instance_grace().is_some(),
        Capability::CorruptHistory
        | Capability::AttemptCounts
        | Capability::CorruptMessages
        | Capability::SecondHandle
        | Capability::SkewedHandle
        | Capability::Reopen => factory.supports(need),
        // Without a clock there is nothing to set back, whatever the factory says.
        Capability::ClockSetBack => factory.supports(need) && factory.clock().is_some(),
        Capability::Management
        | Capability::DeadLetters
        | Capability::BatchedTurns
        | Capability::BatchedWork
        | Capability::MessageAttempts
        | Capability::LostWork
        | Capability::Incarnations
        | Capability::Handlers
        | Capability::Bounds
        | Capability::BoundsInAll
        | Capability::ReadyWork
        | Capability::PendingWork
        | Capability::Requeue
        | Capability::Pausing
        | Capability::Resting
        | Capability::HeldQueueMessages
        | Capability::Rewinding
        | Capability::Labelling
        | Capability::Nodes
        | Capability::Duties
        | Capability::Snapshots
        | Capability::Closing
        | Capability::Heartbeats
        | Capability::Submissions
        | Capability::Lives
        | Capability::Blocking
        | Capability::Watch => shown(&*factory.create_provider().await, need).await,
    }
}

/// Asks a store of its own whether it has the ability; an error counts as "yes", the case will then say what is wrong.
async fn shown(store: &dyn Provider, need: Capability) -> bool {
    match need {
        Capability::Management => store.as_management_capability().is_some(),
        Capability::LostWork => !matches!(store.lost_work_items(&[]).await, Ok(None)),
        Capability::Rewinding => store
            .as_management_capability()
            .is_some_and(|admin| admin.can_rewind()),
        Capability::Submissions => store.submits_in_one_step(),
        Capability::Watch => store.watch_instance("probe").is_some(),
        Capability::DeadLetters => dead_letters_messages(store).await,
        Capability::BatchedTurns => turns_at_once(store).await != 1,
        Capability::BatchedWork => works_at_once(store).await != 1,
        Capability::MessageAttempts => tells_attempts(store).await,
        Capability::Incarnations => tells_lives(store).await,
        Capability::Handlers => knows_handlers(store).await,
        Capability::Bounds => knows_bounds(store).await,
        Capability::BoundsInAll => bounds_in_all(store).await,
        Capability::ReadyWork => lists_ready_work(store).await,
        Capability::PendingWork => tells_pending_work(store).await,
        Capability::Requeue => requeues(store).await,
        Capability::Pausing => pauses(store).await,
        Capability::Resting => rests(store).await,
        Capability::HeldQueueMessages => holds_queue_messages(store).await,
        Capability::Labelling => labels(store).await,
        Capability::Nodes => keeps_nodes(store).await,
        Capability::Duties => gives_duties(store).await,
        Capability::Snapshots => takes_snapshots(store).await,
        Capability::Closing => can_be_closed(store).await,
        Capability::Heartbeats => keeps_heartbeats(store).await,
        Capability::Lives => knows_one_life(store).await,
        Capability::Blocking => keeps_notes(store).await,
        _ => true,
    }
}

async fn dead_letters_messages(store: &dyn Provider) -> bool {
    enqueue_starts(store, 1).await;
    match store.claim_turns(claim(1)).await.as_deref() {
        Ok([turn, ..]) => {
            let answer = store.dead_letter_messages(&turn.lock_token, &[0], "probe");
            !matches!(answer.await, Ok(false))
        }
        _ => true,
    }
}

async fn rests(store: &dyn Provider) -> bool {
    enqueue_starts(store, 1).await;
    match store.claim_turns(claim(1)).await.as_deref() {
        Ok([turn, ..]) => {
            let answer = store.rest_orchestration_item(&turn.lock_token, Duration::ZERO, true);
            !matches!(answer.await, Ok(false))
        }
        _ => true,
    }
}

async fn holds_queue_messages(store: &dyn Provider) -> bool {
    enqueue_starts(store, 1).await;
    match claim_from(store, Duration::from_secs(5), None).await {
        Some(turn) => !matches!(hold_to(store, &turn, Commit::first()).await, Ok(false)),
        None => true,
    }
}

async fn turns_at_once(store: &dyn Provider) -> usize {
    enqueue_starts(store, 2).await;
    store.claim_turns(claim(2)).await.map_or(0, |t| t.len())
}

async fn tells_attempts(store: &dyn Provider) -> bool {
    enqueue_starts(store, 1).await;
    match store.claim_turns(claim(1)).await.as_deref() {
        Ok([turn, ..]) => !turn.message_attempts.is_empty(),
        _ => true,
    }
}

async fn tells_lives(store: &dyn Provider) -> bool {
    enqueue_starts(store, 1).await;
    match store.claim_turns(claim(1)).await.as_deref() {
        Ok([turn, ..]) => turn.incarnation.is_some(),
        _ => true,
    }
}

async fn knows_handlers(store: &dyn Provider) -> bool {
    enqueue_starts(store, 1).await;
    let stranger = OrchestrationHandlers::default().with("no such handler", "0.0.0");
    let claim = TurnClaim {
        handlers: Some(Arc::new(stranger)),
        cancel_without_code_after: Duration::MAX,
        ..claim(1)
    };
    store
        .claim_turns(claim)
        .await
        .map_or(true, |t| t.is_empty())
}

async fn knows_bounds(store: &dyn Provider) -> bool {
    enqueue_starts(store, 1).await;
    for n in 0..2 {
        let signal = items::signal("probe-0", &format!("signal-{n}"));
        let _ = store.enqueue_for_orchestrator(signal, None).await;
    }
    let claim = TurnClaim {
        messages_max: 1,
        ..claim(1)
    };
    match store.claim_turns(claim).await.as_deref() {
        Ok([turn, ..]) => turn.item.messages.len() < 3,
        _ => true,
    }
}

/// More large starts than one claim may take.
async fn bounds_in_all(store: &dyn Provider) -> bool {
    const BYTES: usize = 1_900_000;
    let count = CLAIM_BYTES_IN_ALL_MAX / BYTES + 4;
    for n in 0..count {
        let mut start = items::start(&format!("probe-{n}"));
        if let WorkItem::StartOrchestration { input, .. } = &mut start {
            *input = "x".repeat(BYTES);
        }
        let _ = store.enqueue_for_orchestrator(start, None).await;
    }
    match store.claim_turns(claim(count)).await.as_deref() {
        Ok(turns) => turns.len() < count,
        Err(_) => true,
    }
}

async fn lists_ready_work(store: &dyn Provider) -> bool {
    match store.as_management_capability() {
        Some(admin) => !matches!(admin.list_ready_work(1).await, Ok(None)),
        None => false,
    }
}

async fn tells_pending_work(store: &dyn Provider) -> bool {
    match store.as_management_capability() {
        Some(admin) => !matches!(admin.pending_work("probe").await, Ok(None)),
        None => false,
    }
}

async fn requeues(store: &dyn Provider) -> bool {
    match store.as_management_capability() {
        Some(admin) => !matches!(admin.requeue_dead_letter(u64::MAX).await, Ok(None)),
        None => false,
    }
}

async fn pauses(store: &dyn Provider) -> bool {
    match store.as_management_capability() {
        Some(admin) => !matches!(admin.pause_instance("probe").await, Ok(None)),
        None => false,
    }
}

async fn labels(store: &dyn Provider) -> bool {
    match store.as_management_capability() {
        Some(admin) => !matches!(admin.change_labels("probe", &[]).await, Ok(None)),
        None => false,
    }
}

async fn keeps_nodes(store: &dyn Provider) -> bool {
    match store.as_management_capability() {
        Some(admin) => !matches!(admin.list_nodes().await, Ok(None)),
        None => false,
    }
}

async fn gives_duties(store: &dyn Provider) -> bool {
    match store.as_management_capability() {
        Some(admin) => {
            let answer = admin.hold_duty("probe", "probe", Duration::ZERO);
            !matches!(answer.await, Ok(None))
        }
        None => false,
    }
}

async fn takes_snapshots(store: &dyn Provider) -> bool {
    match store.as_management_capability() {
        Some(admin) => !matches!(admin.snapshot_instance("probe").await, Ok(None)),
        None => false,
    }
}

async fn can_be_closed(store: &dyn Provider) -> bool {
    match store.as_management_capability() {
        Some(admin) => !matches!(admin.close_store(None, None).await, Ok(None)),
        None => false,
    }
}

async fn keeps_heartbeats(store: &dyn Provider) -> bool {
    enqueue_starts(store, 1).await;
    let lease = Duration::from_secs(5);
    let Some(turn) = claim_from(store, lease, None).await else {
        return true;
    };
    let first = Commit::first().work(items::activity("probe-0", 2));
    let _ = commit_to(store, &turn, first).await;
    let works = store
        .claim_work(WorkClaim::new(1, lease, Duration::ZERO))
        .await;
    match works.as_deref() {
        Ok([work, ..]) => {
            let answer = store.heartbeat_work_item(&work.lock_token, lease, 2, "probe");
            !matches!(answer.await, Ok(false))
        }
        _ => true,
    }
}

async fn knows_one_life(store: &dyn Provider) -> bool {
    let life = Incarnation::from_random(14);
    match store.as_management_capability() {
        Some(admin) => !matches!(admin.pause_life("probe", life).await, Ok(None)),
        None => false,
    }
}

async fn keeps_notes(store: &dyn Provider) -> bool {
    enqueue_starts(store, 1).await;
    let lease = Duration::from_secs(5);
    let Some(turn) = claim_from(store, lease, None).await else {
        return true;
    };
    let first = Commit::first().message(items::signal("probe-0", "again"));
    let _ = commit_to(store, &turn, first).await;
    let Some(turn) = claim_from(store, lease, None).await else {
        return true;
    };
    let blocked = BlockedInstance {
        instance_id: turn.item.instance.clone(),
        execution_id: 1,
        orchestration_name: String::new(),
        report: "probe".to_owned(),
        attempts: 1,
    };
    let answer = store.note_blocked(&turn.token, &blocked, "probe");
    !matches!(answer.await, Ok(false))
}

async fn works_at_once(store: &dyn Provider) -> usize {
    for id in 1..=2 {
        let _ = store.enqueue_for_worker(items::activity("probe", id)).await;
    }
    let claim = WorkClaim {
        tag_filter: TagFilter::DefaultOnly,
        ..WorkClaim::new(2, Duration::from_secs(5), Duration::ZERO)
    };
    store.claim_work(claim).await.map_or(0, |w| w.len())
}

async fn enqueue_starts(store: &dyn Provider, count: usize) {
    for n in 0..count {
        let start = items::start(&format!("probe-{n}"));
        let _ = store.enqueue_for_orchestrator(start, None).await;
    }
}

fn claim(max: usize) -> TurnClaim {
    TurnClaim::new(max, Duration::from_secs(5), Duration::ZERO)
}
