//! Limits of every duration among the options. In: options. Out: the first that cannot work.

use std::time::Duration;

use super::{InvalidOptions, LONGEST_DURATION, RuntimeOptions, refuse};

struct Rule {
    name: &'static str,
    value: fn(&RuntimeOptions) -> Duration,
    may_be_zero: bool,
}

/// Zero means "at once" or "never".
const fn may_be_zero(name: &'static str, value: fn(&RuntimeOptions) -> Duration) -> Rule {
    Rule {
        name,
        value,
        may_be_zero: true,
    }
}

/// Something waits for it, so that zero would be a loop that never pauses.
const fn positive(name: &'static str, value: fn(&RuntimeOptions) -> Duration) -> Rule {
    Rule {
        name,
        value,
        may_be_zero: false,
    }
}

const RULES: &[Rule] = &[
    may_be_zero("dispatcher_min_poll_interval", |options| {
        options.dispatcher_min_poll_interval
    }),
    positive("dispatcher_long_poll_timeout", |options| {
        options.dispatcher_long_poll_timeout
    }),
    positive("orchestrator_lock_timeout", |options| {
        options.orchestrator_lock_timeout
    }),
    may_be_zero("orchestrator_lock_renewal_buffer", |options| {
        options.orchestrator_lock_renewal_buffer
    }),
    positive("worker_lock_timeout", |options| options.worker_lock_timeout),
    may_be_zero("worker_lock_renewal_buffer", |options| {
        options.worker_lock_renewal_buffer
    }),
    positive("session_lock_timeout", |options| {
        options.session_lock_timeout
    }),
    may_be_zero("session_lock_renewal_buffer", |options| {
        options.session_lock_renewal_buffer
    }),
    may_be_zero("session_idle_timeout", |options| {
        options.session_idle_timeout
    }),
    positive("session_cleanup_interval", |options| {
        options.session_cleanup_interval
    }),
    positive("activity_cancellation_check_interval", |options| {
        options.activity_cancellation_check_interval
    }),
    may_be_zero("activity_heartbeat_interval", |options| {
        options.activity_heartbeat_interval
    }),
    positive("node_announce_interval", |options| {
        options.node_announce_interval.unwrap_or(LONGEST_DURATION)
    }),
    may_be_zero("activity_cancellation_grace_period", |options| {
        options.activity_cancellation_grace_period
    }),
    may_be_zero("cancel_without_code_after", |options| {
        options.cancel_without_code_after
    }),
    positive("turn_duration_max", |options| options.turn_duration_max),
    may_be_zero("sticky_idle_max", |options| options.sticky_idle_max),
    may_be_zero("unregistered_backoff.base_delay", |options| {
        options.unregistered_backoff.base_delay
    }),
    may_be_zero("unregistered_backoff.max_delay", |options| {
        options.unregistered_backoff.max_delay
    }),
    positive("observability.gauge_poll_interval", |options| {
        options.observability.gauge_poll_interval
    }),
    positive("retention.interval", |options| {
        let retention = options.retention.as_ref();
        retention.map_or(LONGEST_DURATION, |retention| retention.interval)
    }),
];

/// No duration is so long that adding it to a time overflows, and none is zero that something waits for.
pub(super) fn check(options: &RuntimeOptions) -> Result<(), InvalidOptions> {
    for rule in RULES {
        let (name, value) = (rule.name, (rule.value)(options));
        if value.is_zero() && !rule.may_be_zero {
            return refuse(format!("{name} must be greater than zero"));
        }
        if value > LONGEST_DURATION {
            return refuse(format!(
                "{name} must not be longer than {} days",
                LONGEST_DURATION.as_secs() / 86_400
            ));
        }
    }
    Ok(())
}
