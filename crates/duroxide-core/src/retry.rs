//! How often and how soon a failed activity is tried again.

use std::time::Duration;

/// How long to wait after a failed attempt.
///
/// ```
/// use std::time::Duration;
/// use duroxide_core::BackoffStrategy;
/// let backoff = BackoffStrategy::Linear { base: Duration::from_secs(1), max: Duration::from_secs(3) };
/// assert_eq!(backoff.delay_for_attempt(2), Duration::from_secs(2));
/// assert_eq!(backoff.delay_for_attempt(9), Duration::from_secs(3));
/// ```
#[derive(Debug, Clone)]
pub enum BackoffStrategy {
    /// No wait.
    None,
    /// The same wait each time.
    Fixed {
        /// The wait.
        delay: Duration,
    },
    /// A wait that grows by the same amount each time.
    Linear {
        /// First wait, and the amount added each time.
        base: Duration,
        /// Longest wait.
        max: Duration,
    },
    /// A wait that is multiplied each time.
    Exponential {
        /// First wait.
        base: Duration,
        /// The factor between one delay and the next.
        multiplier: f64,
        /// Longest wait.
        max: Duration,
    },
}

impl Default for BackoffStrategy {
    fn default() -> Self {
        Self::Exponential {
            base: Duration::from_millis(100),
            multiplier: 2.0,
            max: Duration::from_secs(30),
        }
    }
}

impl BackoffStrategy {
    /// The wait after attempt number `attempt` failed; the first is 1.
    #[must_use]
    pub fn delay_for_attempt(&self, attempt: u32) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed { delay } => *delay,
            Self::Linear { base, max } => base.saturating_mul(attempt).min(*max),
            Self::Exponential {
                base,
                multiplier,
                max,
            } => {
                let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
                let nanos = base.as_nanos() as f64 * multiplier.powi(exponent);
                if nanos.is_finite() && nanos < max.as_nanos() as f64 {
                    Duration::from_nanos(nanos.max(0.0) as u64)
                } else {
                    *max
                }
            }
        }
    }
}

/// How often an activity is tried, how long each try may take and how long to wait between tries.
///
/// ```
/// use std::time::Duration;
/// use duroxide_core::{BackoffStrategy, RetryPolicy};
/// let policy = RetryPolicy::new(5)
///     .with_timeout(Duration::from_secs(10))
///     .with_backoff(BackoffStrategy::Fixed { delay: Duration::from_secs(1) });
/// assert_eq!(policy.max_attempts, 5);
/// ```
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// Tries in all, the first included. 0 counts as 1.
    pub max_attempts: u32,
    /// Waits between tries.
    pub backoff: BackoffStrategy,
    /// The limit of one attempt.
    pub timeout: Option<Duration>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            backoff: BackoffStrategy::default(),
            timeout: None,
        }
    }
}

impl RetryPolicy {
    /// A policy with this many tries and the default backoff.
    ///
    /// # Panics
    ///
    /// If `max_attempts` is 0.
    #[must_use]
    pub fn new(max_attempts: u32) -> Self {
        assert!(max_attempts >= 1, "max_attempts must be at least 1");
        Self {
            max_attempts,
            ..Self::default()
        }
    }

    /// Limits each try.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The same as [`with_timeout`](Self::with_timeout): each try is limited. For a limit over all tries see
    /// [`ActivityOptions::with_total_timeout`](crate::ActivityOptions::with_total_timeout).
    #[doc(hidden)]
    #[must_use]
    pub fn with_total_timeout(self, timeout: Duration) -> Self {
        self.with_timeout(timeout)
    }

    /// Sets the waits between tries.
    #[must_use]
    pub fn with_backoff(mut self, backoff: BackoffStrategy) -> Self {
        self.backoff = backoff;
        self
    }

    /// The wait after attempt number `attempt` failed.
    #[must_use]
    pub fn delay_for_attempt(&self, attempt: u32) -> Duration {
        self.backoff.delay_for_attempt(attempt)
    }
}
