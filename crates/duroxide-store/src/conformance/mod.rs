//! What a store must do, runnable by anyone: implement [`Harness`] and let
//! [`store_conformance!`](crate::store_conformance) make one test per case. Nothing here knows what the bytes are for.

mod affinity;
mod atomic;
mod followers;
mod groups;
mod kinds;
mod leases;
mod log;
mod metadata;
mod sharing;
mod singles;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::atomic::{Batch, Operation};
use crate::lease::{LeaseToken, Owner};
use crate::message::{Claim, Claimed, NewMessage, Queue};
use crate::{EventStore, StoreError};

pub use affinity::*;
pub use atomic::*;
pub use followers::*;
pub use groups::*;
pub use kinds::*;
pub use leases::*;
pub use log::*;
pub use metadata::*;
pub use sharing::*;
pub use singles::*;
pub use waiting::*;

/// A store under test and the power over its clock.
#[async_trait]
pub trait Harness: Send + Sync {
    /// A fresh, empty store.
    async fn fresh() -> Self
    where
        Self: Sized;

    /// The store.
    fn store(&self) -> Arc<dyn EventStore>;

    /// Lets time pass for the store: moves its clock or, for one that cannot be moved, waits.
    async fn pass(&self, time: Duration);

    /// Sets the store's clock back; `false` if it cannot, and cases about it then say nothing.
    async fn set_back(&self, by: Duration) -> bool {
        let _ = by;
        false
    }

    /// The same store once more, as another process opens it; `None` if only one can have it, and cases about it then
    /// say nothing.
    async fn second(&self) -> Option<Arc<dyn EventStore>> {
        None
    }

    /// Closes the store, of which no case holds a handle then, and opens it again; `None` if it ends with its process.
    async fn reopen(&self) -> Option<Arc<dyn EventStore>> {
        None
    }

    /// How long it may take until a waiting claim or a watch has noticed a commit, or its time: the way to the store
    /// and back, and what a busy machine adds. A store that only looks from time to time does not notice.
    fn patience(&self) -> Duration {
        Duration::from_secs(2)
    }
}

const GROUPS: Queue = Queue::grouped("letters");
const SINGLES: Queue = Queue::single("parcels");
const LEASE_MS: u64 = 2_000;

/// Everything the cases do to a queue, short.
struct Desk {
    store: Arc<dyn EventStore>,
    queue: Queue,
}

impl Desk {
    fn new(harness: &impl Harness, queue: Queue) -> Self {
        let store = harness.store();
        Self { store, queue }
    }

    async fn put(&self, group: &str, text: &str) {
        self.put_message(NewMessage::new(group, text)).await;
    }

    async fn put_message(&self, message: NewMessage) {
        let put = self.store.enqueue(&self.queue, message).await;
        put.expect("a message can be enqueued");
    }

    fn ask(&self) -> Claim {
        Claim::one(self.queue.clone(), LEASE_MS)
    }

    async fn claim(&self) -> Option<Claimed> {
        self.claim_with(self.ask()).await.pop()
    }

    async fn claim_with(&self, claim: Claim) -> Vec<Claimed> {
        self.store.claim(claim).await.expect("a claim succeeds")
    }

    async fn claim_as(&self, owner: &str, lease_ms: u64) -> Option<Claimed> {
        let claim = Claim {
            owner: Some(Owner {
                id: owner.to_owned(),
                lease_ms,
                new_keys_max: usize::MAX,
            }),
            ..self.ask()
        };
        self.claim_with(claim).await.pop()
    }

    async fn take(&self) -> Claimed {
        self.claim().await.expect("something can be claimed")
    }

    async fn complete(&self, lease: &LeaseToken) -> Result<(), StoreError> {
        self.store.complete(lease).await
    }

    async fn apply(&self, operation: Operation) -> u64 {
        let counts = self.store.commit(Batch::of([operation])).await;
        let counts = counts.expect("an operation without conditions succeeds");
        assert_eq!(counts.len(), 1, "one count per operation");
        counts[0]
    }
}

fn texts(claimed: &Claimed) -> Vec<String> {
    let payloads = claimed.messages.iter().map(|message| &message.payload);
    payloads
        .map(|payload| String::from_utf8_lossy(payload).into_owned())
        .collect()
}

fn is_lost<T: std::fmt::Debug>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::LeaseLost(_)))
}

fn is_conflict<T: std::fmt::Debug>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict(_)))
}

async fn pass_ms(harness: &impl Harness, time_ms: u64) {
    harness.pass(Duration::from_millis(time_ms)).await;
}

/// Makes one `#[tokio::test]` per case for a [`Harness`].
///
/// ```ignore
/// mod memory {
///     duroxide_store::store_conformance!(super::MemoryHarness);
/// }
/// ```
#[macro_export]
macro_rules! store_conformance {
    ($harness:ty) => {
        $crate::for_each_store_case!($crate::store_conformance, @tests $harness);
    };
    (@tests $harness:ty: $($case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let harness = <$harness as $crate::conformance::Harness>::fresh().await;
                $crate::conformance::$case(&harness).await;
            }
        )*
    };
}

/// Hands the names of all cases to a macro, behind what it is given.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_store_case {
    ($to:path, $($before:tt)*) => {
        $to! {$($before)*:
            events_come_back_in_the_order_of_their_numbers,
            a_number_is_never_written_twice,
            partitions_are_independent_and_listed,
            deleted_events_are_counted_and_their_numbers_free,
            a_long_log_is_deleted_as_one,
            entries_come_back_by_key_page_by_page,
            any_text_is_a_scope_and_a_key,
            deleting_a_scope_leaves_other_scopes_alone,
            a_guard_that_does_not_hold_stores_nothing,
            guards_hold_as_they_say,
            a_guard_sees_the_leads_of_a_group,
            a_lost_lease_stores_nothing,
            operations_are_applied_in_order,
            only_one_of_many_writers_wins_each_round,
            only_one_of_many_writers_creates_an_entry,
            only_one_of_many_writers_extends_a_set,
            queries_asked_together_see_one_state,
            a_queue_keeps_its_delivery,
            all_visible_messages_of_a_group_come_under_one_lease,
            a_leased_group_is_not_handed_out_again,
            a_message_that_comes_late_waits_for_the_next_claim,
            a_delayed_message_appears_at_its_time,
            groups_come_in_the_order_in_which_they_became_eligible,
            several_groups_are_claimed_in_one_step,
            a_group_is_skipped_by_its_label,
            a_label_outlives_the_messages_of_its_group,
            an_entry_is_handed_out_with_its_group,
            a_resting_group_wakes_by_itself_or_for_an_arrival,
            a_group_rests_though_a_claim_left_some,
            a_stirred_group_is_noticed,
            deleting_a_group_ends_its_lease,
            a_claim_and_its_messages_can_be_looked_up,
            depths_tell_ready_delayed_and_leased,
            a_lapsed_lease_hands_its_messages_to_the_next_claim,
            a_lapsed_lease_can_only_be_released,
            renewal_counts_from_now_and_never_revives,
            a_delayed_release_touches_only_what_was_claimed,
            leases_of_a_group_are_told_while_they_are_valid,
            a_forgiven_claim_does_not_count,
            many_claimers_never_share_a_group,
            single_messages_come_in_order_one_lease_each,
            several_messages_are_claimed_in_one_step,
            a_message_is_selected_by_its_label,
            a_message_deleted_by_key_cannot_be_completed,
            a_single_lease_lapses_is_renewed_and_released,
            a_message_can_be_shown_before_its_time,
            deleting_a_group_of_single_messages_removes_all_of_them,
            messages_bound_to_a_key_go_to_one_owner,
            a_lapsed_key_can_be_taken_over,
            only_active_keys_are_renewed,
            keys_that_nobody_needs_are_swept,
            a_claim_whose_guard_does_not_hold_takes_nothing,
            a_claim_without_patience_returns_at_once,
            a_waiting_claim_is_woken_by_a_commit,
            a_waiting_claim_is_woken_by_a_due_time,
            a_waiting_claim_is_woken_by_a_lapsing_lease,
            a_waiting_claim_gives_up_after_its_time,
            a_watch_notices_commits_that_name_its_topic,
            a_group_goes_by_its_kind,
            a_kind_goes_with_its_lead,
            a_message_is_selected_by_its_kind,
            an_old_alarm_opens_its_group,
            an_urgent_alarm_opens_its_group_at_once,
            a_claim_keeps_its_bounds,
            a_claim_of_several_groups_keeps_its_bounds,
            a_rest_ends_when_a_message_becomes_visible,
            a_group_does_not_rest_behind_an_arrival,
            no_claim_takes_the_same_twice,
            an_owner_takes_a_bounded_number_of_new_keys,
            a_backlog_tells_what_is_ready_by_kind,
            a_successor_goes_before_leads,
            followers_stay_behind_a_successor,
            followers_are_held_back,
            a_deleted_group_holds_nothing_back,
            a_claim_takes_a_bounded_number_of_followers,
            a_clock_set_back_hides_nothing,
            a_clock_set_back_lengthens_no_lease,
            a_time_told_after_a_step_back_is_not_early,
            what_was_committed_is_there_after_reopening,
            leases_outlive_reopening,
            two_handles_are_one_store,
            a_claim_is_woken_by_the_other_handle,
        }
    };
}
