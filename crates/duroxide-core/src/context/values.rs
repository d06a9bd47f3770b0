//! Values that the code may ask for without an event and without waiting. All of them follow from what is recorded.

use std::panic::Location;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use super::OrchestrationContext;

/// How long a history should become: [`OrchestrationContext::should_continue_as_new`] is true from here on. Running
/// orchestrations rely on it, so it never changes.
pub const CONTINUE_AS_NEW_EVENTS: u64 = 4_096;

/// Under which all ids are drawn. Running orchestrations rely on it, so it never changes.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f5c_9d1e_0b7a_4c3e_9d52_1f8a_77c4_e021);

impl OrchestrationContext {
    /// The time of this turn: when what woke the code was recorded. The same in every replay, never earlier than what
    /// an earlier call returned, and without an event. It stands still between two awaits; see
    /// [`utc_now`](Self::utc_now) for a fresh look at the clock, which is recorded.
    ///
    /// ```
    /// use duroxide_core::OrchestrationContext;
    /// use std::time::Duration;
    ///
    /// async fn example(ctx: OrchestrationContext, _input: ()) -> Result<u64, String> {
    ///     let before = ctx.now();
    ///     ctx.sleep(Duration::from_secs(60)).await;
    ///     let passed = ctx.now().duration_since(before).map_err(|e| e.to_string())?;
    ///     Ok(passed.as_secs())
    /// }
    /// ```
    #[track_caller]
    #[must_use]
    pub fn now(&self) -> SystemTime {
        let mut cell = self.shared.deciding(Location::caller());
        cell.seen_ms = cell.seen_ms.max(cell.now_ms);
        UNIX_EPOCH + Duration::from_millis(cell.seen_ms)
    }

    /// A random number, the same in every replay, without an event. Not for secrets: who knows the instance can compute
    /// it. Calls are counted, so a call that is added in front of others changes what they return: to change code with
    /// running instances, register a new version.
    #[track_caller]
    #[must_use]
    pub fn random(&self) -> u64 {
        bits(self.draw(Location::caller()))
    }

    /// A random number below `bound`, the same in every replay; 0 if `bound` is 0.
    #[track_caller]
    #[must_use]
    pub fn random_below(&self, bound: u64) -> u64 {
        // The high half of the product: even enough for any bound, and without a loop.
        let wide = u128::from(bits(self.draw(Location::caller()))) * u128::from(bound);
        (wide >> 64) as u64
    }

    /// A fresh id, the same in every replay, without an event. It follows from the instance, the execution and the time
    /// of its start, so it differs between instances and lives (UUID version 5).
    #[track_caller]
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.draw(Location::caller())
    }

    /// Events recorded so far in this execution, up to what woke the code.
    #[must_use]
    pub fn history_length(&self) -> u64 {
        self.shared.cell().last_event_id
    }

    /// Whether the history is long enough to hand over to a fresh execution: from [`CONTINUE_AS_NEW_EVENTS`] events on.
    ///
    /// ```
    /// use duroxide_core::{ActivityRef, OrchestrationContext};
    ///
    /// const CHECK: ActivityRef<u64, ()> = ActivityRef::new("check");
    ///
    /// async fn monitor(ctx: OrchestrationContext, mut round: u64) -> Result<String, String> {
    ///     while !ctx.should_continue_as_new() {
    ///         ctx.call(CHECK, &round).await?;
    ///         round += 1;
    ///     }
    ///     ctx.continue_as_new_typed(&round).await
    /// }
    /// ```
    #[must_use]
    pub fn should_continue_as_new(&self) -> bool {
        self.history_length() >= CONTINUE_AS_NEW_EVENTS
    }

    fn draw(&self, location: &'static Location<'static>) -> Uuid {
        let mut cell = self.shared.deciding(location);
        let number = cell.drawn;
        cell.drawn += 1;
        let started_ms = cell.started_ms;
        drop(cell);
        self.named(started_ms, &format!("draw {number}"))
    }

    /// A share between 0 and 1 for a pause, without counting as a draw.
    pub(super) fn fraction_for(&self, event_id: u64, attempt: u32) -> f64 {
        let started_ms = self.shared.cell().started_ms;
        let drawn = bits(self.named(started_ms, &format!("pause {event_id} {attempt}")));
        (drawn >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn named(&self, started_ms: u64, what: &str) -> Uuid {
        let identity = &self.shared.identity;
        let execution_id = self.shared.cell().shown.execution_id;
        let name = format!(
            "{}\n{execution_id}\n{started_ms}\n{what}",
            identity.instance_id
        );
        Uuid::new_v5(&NAMESPACE, name.as_bytes())
    }
}

/// 64 bits of an id that its format leaves alone: bytes 6 and 8 hold version and variant.
fn bits(id: Uuid) -> u64 {
    let b = id.as_bytes();
    u64::from_be_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[9], b[10]])
}
