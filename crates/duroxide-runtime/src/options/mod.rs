//! How a runtime behaves. Every field has a default; `validate` says what cannot work before anything starts.

mod durations;
mod names;

use std::time::Duration;

use duroxide_core::limits::DEFAULT_PAYLOAD_BYTES_MAX;
use duroxide_core::provider::{DispatcherCapabilityFilter, SemverRange, TagFilter};
use duroxide_core::replay::TurnLimits;

use crate::observability::ObservabilityConfig;
use crate::retention::Retention;

/// What to do with an orchestration whose code no longer fits its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDivergence {
    /// Fail it.
    #[default]
    Fail,
    /// Leave it as it is and try again later, until code that fits is deployed. See
    /// [`Runtime::blocked_instances`](crate::Runtime::blocked_instances).
    Block,
}

/// What to do with work whose handler is not registered on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnregistered {
    /// Leave it to a node that has the handler, however long that takes. Nothing is counted against it.
    Wait,
    /// Count each claim as an attempt, so that the work fails as poison in the end: what the published crate does.
    Fail,
}

/// How long to wait before a handler that is not registered here is looked for again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnregisteredBackoffConfig {
    /// First wait.
    pub base_delay: Duration,
    /// Longest wait.
    pub max_delay: Duration,
}

impl Default for UnregisteredBackoffConfig {
    fn default() -> Self {
        Self {
            base_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(60),
        }
    }
}

impl UnregisteredBackoffConfig {
    /// The wait after this many attempts: doubles six times, then stays.
    #[must_use]
    pub fn delay(&self, attempt_count: u32) -> Duration {
        let doublings = attempt_count.saturating_sub(1).min(6);
        self.base_delay
            .saturating_mul(1 << doublings)
            .min(self.max_delay)
    }
}

/// How a [`Runtime`](crate::Runtime) behaves.
///
/// ```
/// use duroxide::RuntimeOptions;
/// use duroxide::providers::TagFilter;
/// use std::time::Duration;
///
/// let options = RuntimeOptions {
///     worker_tag_filter: TagFilter::default_and(["gpu"]),
///     worker_lock_timeout: Duration::from_secs(60),
///     ..RuntimeOptions::default()
/// };
/// assert!(options.validate().is_ok());
/// ```
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// Shortest time between two claims that found nothing, for stores that answer without waiting.
    pub dispatcher_min_poll_interval: Duration,
    /// How long a claim may wait for work, for stores that can wait.
    pub dispatcher_long_poll_timeout: Duration,
    /// Turns that run at once; 0 runs no orchestrations.
    pub orchestration_concurrency: usize,
    /// Activities that run at once; 0 runs no activities.
    pub worker_concurrency: usize,
    /// Lease of a claimed instance.
    pub orchestrator_lock_timeout: Duration,
    /// How long before its end a lease of 15 s or more is renewed.
    pub orchestrator_lock_renewal_buffer: Duration,
    /// Lease of a claimed activity.
    pub worker_lock_timeout: Duration,
    /// How long before its end a lease of 15 s or more is renewed.
    pub worker_lock_renewal_buffer: Duration,
    /// Logging and gauges.
    pub observability: ObservabilityConfig,
    /// Waits for handlers that are not registered here.
    pub unregistered_backoff: UnregisteredBackoffConfig,
    /// The largest number of attempts of a message.
    pub max_attempts: u32,
    /// How long a cancelled activity may take to end by itself.
    pub activity_cancellation_grace_period: Duration,
    /// Engine versions whose histories this runtime replays; `None` for everything up to the last patch release of this
    /// build's minor version.
    pub supported_replay_versions: Option<SemverRange>,
    /// Lease of a session.
    pub session_lock_timeout: Duration,
    /// How long before its end a lease of 15 s or more is renewed.
    pub session_lock_renewal_buffer: Duration,
    /// A session without activities for this long is given up.
    pub session_idle_timeout: Duration,
    /// The pause between sweeps of orphaned sessions.
    pub session_cleanup_interval: Duration,
    /// Sessions with running activities at once.
    pub max_sessions_per_runtime: usize,
    /// A stable owner of sessions, kept over restarts; `None` for one per runtime.
    pub worker_node_id: Option<String>,
    /// The activities that this runtime runs, by tag.
    pub worker_tag_filter: TagFilter,
    /// Treatment of an instance whose code no longer fits its history.
    pub on_divergence: OnDivergence,
    /// Treatment of work whose handler is not registered here. `None`: wait; but a program that changes
    /// `unregistered_backoff` has asked for the published behaviour, and work fails in the end.
    pub on_unregistered: Option<OnUnregistered>,
    /// A request to cancel that no node with the code has taken up for this long is carried out without the code, by
    /// any node: nothing is compensated then. Longer than a deployment takes. A request to terminate does not wait: any
    /// node carries it out at once.
    pub cancel_without_code_after: Duration,
    /// How long one turn may run before its lease is no longer renewed. Code that loops without end then becomes
    /// poison.
    pub turn_duration_max: Duration,
    /// Suspended orchestrations kept in memory, so that their next turn need not replay; 0 keeps none.
    pub sticky_instances_max: usize,
    /// Payload bytes that suspended orchestrations in memory may have seen together.
    pub sticky_bytes_max: usize,
    /// A suspended orchestration without a turn for this long leaves memory.
    pub sticky_idle_max: Duration,
    /// How often running activities are checked for cancellation by other processes, for stores that can tell.
    pub activity_cancellation_check_interval: Duration,
    /// How often, at most, what one activity says with [`heartbeat`](crate::ActivityContext::heartbeat) is written to
    /// the store.
    pub activity_heartbeat_interval: Duration,
    /// How often this node announces itself to the store, with its name and the handlers that it has, for operators;
    /// `None` for never. After three announcements that are missing it counts as gone. Where time is paused, in tests,
    /// nodes announce nothing.
    pub node_announce_interval: Option<Duration>,
    /// Instances that this node deletes from time to time, if no other node does; `None`: nothing.
    pub retention: Option<Retention>,
    /// Largest input, output or payload, in bytes.
    pub payload_bytes_max: usize,
    /// Longest history of one execution, in events; `None` for no limit.
    pub history_events_max: Option<u64>,
    /// How often a turn whose orchestration panics is run again, after `unregistered_backoff`, before the panic counts.
    pub orchestration_panic_retries: u32,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            dispatcher_min_poll_interval: Duration::from_millis(100),
            dispatcher_long_poll_timeout: Duration::from_secs(30),
            orchestration_concurrency: 64,
            worker_concurrency: 64,
            orchestrator_lock_timeout: Duration::from_secs(5),
            orchestrator_lock_renewal_buffer: Duration::from_secs(2),
            worker_lock_timeout: Duration::from_secs(30),
            worker_lock_renewal_buffer: Duration::from_secs(5),
            observability: ObservabilityConfig::default(),
            unregistered_backoff: UnregisteredBackoffConfig::default(),
            max_attempts: 10,
            activity_cancellation_grace_period: Duration::from_secs(10),
            supported_replay_versions: None,
            session_lock_timeout: Duration::from_secs(30),
            session_lock_renewal_buffer: Duration::from_secs(5),
            session_idle_timeout: Duration::from_secs(300),
            session_cleanup_interval: Duration::from_secs(300),
            max_sessions_per_runtime: 10,
            worker_node_id: None,
            worker_tag_filter: TagFilter::DefaultOnly,
            on_divergence: OnDivergence::Fail,
            on_unregistered: None,
            cancel_without_code_after: Duration::from_secs(5 * 60),
            turn_duration_max: Duration::from_secs(60),
            sticky_instances_max: 1024,
            sticky_bytes_max: 256 * 1024 * 1024,
            sticky_idle_max: Duration::from_secs(15 * 60),
            activity_cancellation_check_interval: Duration::from_secs(1),
            activity_heartbeat_interval: Duration::from_secs(1),
            node_announce_interval: Some(Duration::from_secs(5)),
            retention: None,
            payload_bytes_max: DEFAULT_PAYLOAD_BYTES_MAX,
            history_events_max: None,
            orchestration_panic_retries: 0,
        }
    }
}

/// Leases shorter than this are renewed half-way.
const SHORT_LEASE: Duration = Duration::from_secs(15);
/// A lease must live long enough to be renewed once.
const SHORTEST_LEASE: Duration = Duration::from_millis(10);
/// A renewal needs this much time to reach the store.
const SHORTEST_BUFFER: Duration = Duration::from_millis(500);
/// Each turn and each activity that may run at once has a place of its own from the start.
const CONCURRENCY_MAX: usize = 1 << 16;
/// Beyond this a time stamp or deadline could overflow.
const LONGEST_DURATION: Duration = Duration::from_secs(100 * 365 * 86_400);

fn refuse(why: String) -> Result<(), InvalidOptions> {
    Err(InvalidOptions(why))
}

/// Options that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid runtime options: {0}")]
pub struct InvalidOptions(pub String);

impl InvalidOptions {
    /// A stable code; docs/errors.md says what it means and what to do.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "D0402"
    }
}

impl RuntimeOptions {
    /// Checks that the options can work together.
    ///
    /// # Errors
    ///
    /// The first thing that cannot work, in words.
    pub fn validate(&self) -> Result<(), InvalidOptions> {
        durations::check(self)?;
        if let Some(retention) = &self.retention {
            retention.policy.validate().map_err(InvalidOptions)?;
        }
        self.check_counts()?;
        names::check(self)?;
        self.check_leases()?;
        let renewal = renewal_interval(self.worker_lock_timeout, self.worker_lock_renewal_buffer);
        if self.session_idle_timeout <= renewal {
            return refuse(format!(
                "session_idle_timeout ({}s) must be greater than worker lock renewal interval ({}s). Sessions would unpin during long-running activity execution. Increase session_idle_timeout or decrease worker_lock_timeout.",
                self.session_idle_timeout.as_secs_f64(),
                renewal.as_secs_f64()
            ));
        }
        Ok(())
    }

    /// No count is one that nothing can run with.
    fn check_counts(&self) -> Result<(), InvalidOptions> {
        if self.max_attempts == 0 {
            return refuse("max_attempts must be at least 1".to_owned());
        }
        let slots = [
            ("orchestration_concurrency", self.orchestration_concurrency),
            ("worker_concurrency", self.worker_concurrency),
        ];
        for (name, count) in slots {
            if count > CONCURRENCY_MAX {
                return refuse(format!(
                    "{name} must be at most {CONCURRENCY_MAX}, got {count}"
                ));
            }
        }
        if self.payload_bytes_max == 0 {
            return refuse(
                "payload_bytes_max must be at least 1: nothing could be given or returned"
                    .to_owned(),
            );
        }
        if self.history_events_max == Some(0) {
            return refuse(
                "history_events_max must be at least 1: no execution could begin".to_owned(),
            );
        }
        match &self.supported_replay_versions {
            Some(range) if range.min > range.max => refuse(format!(
                "supported_replay_versions begins at {} and ends at {}: this runtime would run nothing",
                range.min, range.max
            )),
            _ => Ok(()),
        }
    }

    /// Every lease is renewed before it ends.
    fn check_leases(&self) -> Result<(), InvalidOptions> {
        let leases = [
            (
                "orchestrator_lock",
                self.orchestrator_lock_timeout,
                self.orchestrator_lock_renewal_buffer,
            ),
            (
                "worker_lock",
                self.worker_lock_timeout,
                self.worker_lock_renewal_buffer,
            ),
            (
                "session_lock",
                self.session_lock_timeout,
                self.session_lock_renewal_buffer,
            ),
        ];
        for (name, timeout, buffer) in leases {
            if timeout < SHORTEST_LEASE {
                return refuse(format!(
                    "{name}_timeout must be at least {SHORTEST_LEASE:?}, got {timeout:?}"
                ));
            }
            if timeout >= SHORT_LEASE && buffer < SHORTEST_BUFFER {
                return refuse(format!(
                    "{name}_renewal_buffer must be at least {SHORTEST_BUFFER:?} for a lease of {timeout:?}, got {buffer:?}: the lease would end before it is renewed"
                ));
            }
        }
        Ok(())
    }

    /// What to do with work whose handler is not registered here.
    pub(crate) fn on_unregistered(&self) -> OnUnregistered {
        match self.on_unregistered {
            Some(chosen) => chosen,
            None if self.unregistered_backoff == UnregisteredBackoffConfig::default() => {
                OnUnregistered::Wait
            }
            None => OnUnregistered::Fail,
        }
    }

    pub(crate) fn capability_filter(&self) -> DispatcherCapabilityFilter {
        match &self.supported_replay_versions {
            Some(range) => DispatcherCapabilityFilter {
                supported_duroxide_versions: vec![range.clone()],
            },
            None => DispatcherCapabilityFilter::default_for_current_build(),
        }
    }

    pub(crate) fn turn_limits(&self) -> TurnLimits {
        TurnLimits {
            payload_bytes_max: self.payload_bytes_max,
            history_events_max: self.history_events_max,
        }
    }
}

/// How long after a claim or renewal the lease is renewed: the buffer before its end, or half-way for short leases.
pub(crate) fn renewal_interval(timeout: Duration, buffer: Duration) -> Duration {
    if timeout >= SHORT_LEASE {
        timeout.saturating_sub(buffer).max(Duration::from_secs(1))
    } else {
        timeout / 2
    }
}

#[cfg(test)]
mod tests {
    use semver::Version;

    use super::*;
    use crate::retention::RetentionPolicy;

    #[test]
    fn a_lease_is_always_renewed_before_it_ends() {
        for ms in [1, 50, 900, 1_000, 5_000, 15_000, 30_000] {
            let timeout = Duration::from_millis(ms);
            assert!(renewal_interval(timeout, Duration::from_secs(5)) < timeout);
        }
    }

    #[test]
    fn options_that_cannot_work_are_refused_with_words() {
        let options = RuntimeOptions {
            session_cleanup_interval: Duration::ZERO,
            ..RuntimeOptions::default()
        };
        let error = options.validate().unwrap_err();
        assert!(error.to_string().contains("session_cleanup_interval"));
        assert!(RuntimeOptions::default().validate().is_ok());
    }

    fn refusal(change: impl FnOnce(&mut RuntimeOptions)) -> String {
        let mut options = RuntimeOptions::default();
        change(&mut options);
        options.validate().unwrap_err().to_string()
    }

    #[test]
    fn a_lease_that_would_end_before_its_renewal_is_refused() {
        let text = refusal(|options| {
            options.worker_lock_timeout = Duration::from_secs(15);
            options.worker_lock_renewal_buffer = Duration::ZERO;
        });
        assert!(text.contains("worker_lock_renewal_buffer"), "{text}");
        let text = refusal(|options| options.session_lock_timeout = Duration::from_nanos(1));
        assert!(text.contains("session_lock_timeout"), "{text}");
    }

    #[test]
    fn a_duration_that_would_overflow_a_deadline_is_refused() {
        let text = refusal(|options| options.dispatcher_min_poll_interval = Duration::MAX);
        assert!(text.contains("dispatcher_min_poll_interval"), "{text}");
        let text = refusal(|options| options.orchestrator_lock_timeout = Duration::MAX);
        assert!(text.contains("orchestrator_lock_timeout"), "{text}");
        let text = refusal(|options| options.unregistered_backoff.max_delay = Duration::MAX);
        assert!(text.contains("unregistered_backoff.max_delay"), "{text}");
        let text = refusal(|options| options.node_announce_interval = Some(Duration::MAX));
        assert!(text.contains("node_announce_interval"), "{text}");
        let text = refusal(|options| {
            options.retention = Some(Retention {
                policy: RetentionPolicy::new(),
                interval: Duration::MAX,
            });
        });
        assert!(text.contains("retention.interval"), "{text}");
    }

    #[test]
    fn counts_that_nothing_can_run_with_are_refused() {
        let text = refusal(|options| options.worker_concurrency = usize::MAX);
        assert!(text.contains("worker_concurrency"), "{text}");
        let text = refusal(|options| options.orchestration_concurrency = usize::MAX);
        assert!(text.contains("orchestration_concurrency"), "{text}");
        let text = refusal(|options| options.history_events_max = Some(0));
        assert!(text.contains("history_events_max"), "{text}");
        let text = refusal(|options| options.payload_bytes_max = 0);
        assert!(text.contains("payload_bytes_max"), "{text}");
        let (old, new) = (Version::new(0, 1, 0), Version::new(0, 2, 0));
        let text = refusal(|options| {
            options.supported_replay_versions = Some(SemverRange { min: new, max: old });
        });
        assert!(text.contains("supported_replay_versions"), "{text}");
    }

    #[test]
    fn work_without_a_handler_waits_unless_the_program_asked_for_the_published_way() {
        let mut options = RuntimeOptions::default();
        assert_eq!(options.on_unregistered(), OnUnregistered::Wait);
        options.unregistered_backoff.base_delay = Duration::from_millis(1);
        assert_eq!(options.on_unregistered(), OnUnregistered::Fail);
        options.on_unregistered = Some(OnUnregistered::Wait);
        assert_eq!(options.on_unregistered(), OnUnregistered::Wait);
    }

    #[test]
    fn unregistered_backoff_doubles_and_stops() {
        let backoff = UnregisteredBackoffConfig::default();
        let seconds: Vec<u64> = (1..=8).map(|n| backoff.delay(n).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
