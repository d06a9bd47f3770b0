//! Slowing turns down on purpose, for tests of lease renewal and takeover. Process-global.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

struct Slowdown {
    delay: Duration,
    prefixes: Vec<String>,
}

static SLOWDOWN: Mutex<Slowdown> = Mutex::new(Slowdown {
    delay: Duration::ZERO,
    prefixes: Vec::new(),
});

/// Delays every turn of instances with this prefix, or of all instances if no prefix was ever given.
pub fn set_orch_processing_delay(delay: Duration, instance_prefix: Option<&str>) {
    let mut slowdown = SLOWDOWN.lock().unwrap_or_else(PoisonError::into_inner);
    slowdown.delay = delay;
    slowdown.prefixes.extend(instance_prefix.map(str::to_owned));
}

/// The delay of an instance's turns.
#[must_use]
pub fn get_orch_processing_delay(instance: &str) -> Option<Duration> {
    let slowdown = SLOWDOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let concerns = slowdown.prefixes.is_empty()
        || slowdown
            .prefixes
            .iter()
            .any(|prefix| instance.starts_with(prefix));
    (concerns && !slowdown.delay.is_zero()).then_some(slowdown.delay)
}

/// Forgets the delay and all prefixes.
pub fn clear_orch_processing_delay() {
    let mut slowdown = SLOWDOWN.lock().unwrap_or_else(PoisonError::into_inner);
    slowdown.delay = Duration::ZERO;
    slowdown.prefixes.clear();
}
