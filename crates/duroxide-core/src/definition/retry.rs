//! How a typed call is tried again. In: the author's rules. Out: whether to try again, and when. Never waits itself.

use std::time::Duration;

use super::{ActivityError, OrchestrationError, Timeout};
use crate::event::ErrorDetails;
use crate::retry::{BackoffStrategy, RetryPolicy};

/// An error that knows whether trying again may help. Calls of an activity, and children, ask it where the error type
/// that `#[duroxide::activity]` or `#[duroxide::orchestration]` sees implements this; without it every error of theirs
/// may be retried. An effect in place ([`Run::retry`](crate::Run::retry)) asks for an error that implements it. Texts
/// and numbers may be tried again always.
///
/// ```
/// use duroxide_core::Retryable;
///
/// enum ChargeError {
///     Declined,
///     Busy,
/// }
/// impl Retryable for ChargeError {
///     fn is_retryable(&self) -> bool {
///         matches!(self, Self::Busy)
///     }
/// }
/// assert!(!ChargeError::Declined.is_retryable());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say whether trying again may help",
    label = "it is to be tried again after this error",
    note = "implement `duroxide::Retryable` for it"
)]
pub trait Retryable {
    /// Whether trying again may help.
    fn is_retryable(&self) -> bool;
}

/// Errors that say nothing about themselves.
macro_rules! always {
    ($($error:ty),*) => {
        $(impl Retryable for $error {
            fn is_retryable(&self) -> bool {
                true
            }
        })*
    };
}

impl<E: Retryable> Retryable for ActivityError<E> {
    fn is_retryable(&self) -> bool {
        match self {
            Self::Failed(own) => own.is_retryable(),
            Self::TimedOut { .. } | Self::Panicked { .. } => true,
            Self::Unavailable { retryable, .. } => *retryable,
            Self::Cancelled { .. } | Self::Poisoned { .. } | Self::Undecodable(_) => false,
        }
    }
}

impl<E: Retryable> Retryable for OrchestrationError<E> {
    fn is_retryable(&self) -> bool {
        match self {
            Self::Failed(own) => own.is_retryable(),
            Self::TimedOut { .. } | Self::Panicked { .. } | Self::Unavailable { .. } => true,
            Self::Cancelled { .. }
            | Self::Poisoned { .. }
            | Self::Diverged { .. }
            | Self::Undecodable(_) => false,
        }
    }
}

always!(String, (), bool, char, serde_json::Value);
always!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64
);

/// How often, how soon and after what a call is tried again. A [`RetryPolicy`] is one too.
///
/// ```
/// use duroxide_core::{Retry, RetryPolicy};
/// use std::time::Duration;
///
/// let retry = RetryPolicy::exponential(5)
///     .jitter(0.2)
///     .total(Duration::from_secs(600))
///     .never_on(["Declined"]);
/// assert_eq!(retry.attempts_max(), 5);
/// # let _: Retry = RetryPolicy::new(3).into();
/// ```
#[derive(Debug, Clone)]
pub struct Retry {
    policy: RetryPolicy,
    jitter: f64,
    total: Option<Duration>,
    never_on: Vec<String>,
    timeouts_are_final: bool,
}

impl From<RetryPolicy> for Retry {
    fn from(policy: RetryPolicy) -> Self {
        Self {
            policy,
            jitter: 0.0,
            total: None,
            never_on: Vec::new(),
            timeouts_are_final: false,
        }
    }
}

impl Retry {
    /// Up to this many attempts in all, with pauses that double from 100 ms to 30 s.
    #[must_use]
    pub fn exponential(max_attempts: u32) -> Self {
        RetryPolicy::exponential(max_attempts).into()
    }

    /// Up to this many attempts in all, with the same pause each time.
    #[must_use]
    pub fn fixed(max_attempts: u32, delay: Duration) -> Self {
        RetryPolicy::new(max_attempts.max(1))
            .with_backoff(BackoffStrategy::Fixed { delay })
            .into()
    }

    /// Any number of attempts; give it a [`total`](Self::total).
    #[must_use]
    pub fn forever() -> Self {
        RetryPolicy::new(u32::MAX).into()
    }

    /// Sets the pauses.
    #[must_use]
    pub fn backoff(mut self, backoff: BackoffStrategy) -> Self {
        self.policy.backoff = backoff;
        self
    }

    /// Shortens or lengthens each pause by up to this share of it, so that callers who failed together do not return
    /// together. The share is kept between 0 and 1.
    #[must_use]
    pub fn jitter(mut self, share: f64) -> Self {
        // `clamp` keeps what is no number, and every pause would be nothing.
        self.jitter = if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        };
        self
    }

    /// Gives up after this long, over all attempts and pauses.
    #[must_use]
    pub fn total(mut self, limit: Duration) -> Self {
        self.total = Some(limit);
        self
    }

    /// Kinds of errors after which there is no further attempt: names of enum variants, as serde writes them.
    #[must_use]
    pub fn never_on<K: Into<String>>(mut self, kinds: impl IntoIterator<Item = K>) -> Self {
        self.never_on.extend(kinds.into_iter().map(Into::into));
        self
    }

    /// An attempt that exceeded its time is the last one.
    #[must_use]
    pub fn not_after_timeouts(mut self) -> Self {
        self.timeouts_are_final = true;
        self
    }

    /// Attempts in all, the first included.
    #[must_use]
    pub fn attempts_max(&self) -> u32 {
        self.policy.max_attempts.max(1)
    }

    /// The limit over all attempts.
    #[must_use]
    pub fn total_limit(&self) -> Option<Duration> {
        self.total
    }

    /// The limit on each attempt, from when it is asked for.
    #[must_use]
    pub fn attempt_limit(&self) -> Option<Duration> {
        self.policy.timeout
    }

    /// The pause after attempt number `attempt` failed; `chance` is between 0 and 1.
    #[must_use]
    pub fn pause(&self, attempt: u32, chance: f64) -> Duration {
        let pause = self.policy.delay_for_attempt(attempt);
        if self.jitter == 0.0 {
            return pause;
        }
        // Between 1 - jitter and 1 + jitter of the pause.
        let share = 1.0 + self.jitter * (2.0 * chance.clamp(0.0, 1.0) - 1.0);
        let millis = (pause.as_millis() as f64 * share).min(u64::MAX as f64);
        Duration::from_millis(millis as u64)
    }

    /// Whether a failure allows a further attempt; `own` answers for the author's error and `text` is how it is stored.
    pub(crate) fn allows<E>(
        &self,
        error: &ActivityError<E>,
        text: Option<&str>,
        own: impl FnOnce(&E) -> bool,
    ) -> bool {
        match error {
            ActivityError::Failed(error) => self.allows_kind(text) && own(error),
            ActivityError::TimedOut { which } => {
                *which != Timeout::ScheduleToClose && !self.timeouts_are_final
            }
            ActivityError::Panicked { .. } => true,
            ActivityError::Unavailable { retryable, .. } => *retryable,
            ActivityError::Cancelled { .. }
            | ActivityError::Poisoned { .. }
            | ActivityError::Undecodable(_) => false,
        }
    }

    /// Whether the failure of a child allows another one; `own` answers for the author's error.
    pub(crate) fn allows_another_child<E>(
        &self,
        error: &OrchestrationError<E>,
        details: &ErrorDetails,
        own: impl FnOnce(&E) -> bool,
    ) -> bool {
        match error {
            OrchestrationError::Failed(error) => {
                let text = match details {
                    ErrorDetails::Application { message, .. } => Some(message.as_str()),
                    _ => None,
                };
                self.allows_kind(text) && own(error)
            }
            OrchestrationError::TimedOut { .. } => !self.timeouts_are_final,
            OrchestrationError::Panicked { .. } => true,
            OrchestrationError::Unavailable { .. } => details.is_retryable(),
            OrchestrationError::Cancelled { .. }
            | OrchestrationError::Poisoned { .. }
            | OrchestrationError::Diverged { .. }
            | OrchestrationError::Undecodable(_) => false,
        }
    }

    /// Whether an error of the author, as it is stored, is of no kind that is final.
    fn allows_kind(&self, text: Option<&str>) -> bool {
        let kind = text.and_then(kind_of);
        !kind.is_some_and(|kind| self.never_on.contains(&kind))
    }
}

impl RetryPolicy {
    /// Up to this many attempts in all, with pauses that double from 100 ms to 30 s. 0 counts as 1.
    #[must_use]
    pub fn exponential(max_attempts: u32) -> Self {
        Self::new(max_attempts.max(1))
    }

    /// See [`Retry::jitter`].
    #[must_use]
    pub fn jitter(self, share: f64) -> Retry {
        Retry::from(self).jitter(share)
    }

    /// See [`Retry::total`].
    #[must_use]
    pub fn total(self, limit: Duration) -> Retry {
        Retry::from(self).total(limit)
    }

    /// See [`Retry::never_on`].
    #[must_use]
    pub fn never_on<K: Into<String>>(self, kinds: impl IntoIterator<Item = K>) -> Retry {
        Retry::from(self).never_on(kinds)
    }
}

/// The variant of a stored enum: `"Declined"`, `Declined` or `{"Declined":…}`.
fn kind_of(text: &str) -> Option<String> {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(serde_json::Value::String(kind)) => Some(kind),
        Ok(serde_json::Value::Object(fields)) if fields.len() == 1 => {
            fields.into_iter().next().map(|(kind, _)| kind)
        }
        Ok(_) => None,
        Err(_) => Some(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_the_variants_as_serde_writes_them() {
        assert_eq!(kind_of("Declined").as_deref(), Some("Declined"));
        assert_eq!(
            kind_of(r#"{"Declined":{"code":7}}"#).as_deref(),
            Some("Declined")
        );
        assert_eq!(kind_of(r#"{"a":1,"b":2}"#), None);
    }

    #[test]
    fn jitter_stays_within_its_share() {
        let retry = Retry::fixed(3, Duration::from_secs(10)).jitter(0.2);
        assert_eq!(retry.pause(1, 0.0), Duration::from_secs(8));
        assert_eq!(retry.pause(1, 1.0), Duration::from_secs(12));
    }

    #[test]
    fn a_share_that_is_no_number_changes_no_pause() {
        let retry = Retry::fixed(3, Duration::from_secs(10)).jitter(f64::NAN);
        assert_eq!(retry.pause(1, 0.5), Duration::from_secs(10));
    }

    #[test]
    fn a_failure_that_is_passed_on_is_as_retryable_as_what_failed() {
        struct Final;
        impl Retryable for Final {
            fn is_retryable(&self) -> bool {
                false
            }
        }
        assert!(ActivityError::Failed("busy".to_owned()).is_retryable());
        assert!(!ActivityError::Failed(Final).is_retryable());
        assert!(!OrchestrationError::Failed(ActivityError::Failed(Final)).is_retryable());
        let poisoned = ActivityError::<String>::Poisoned {
            message: String::new(),
        };
        assert!(!OrchestrationError::Failed(poisoned).is_retryable());
    }

    #[test]
    fn a_child_is_not_started_again_after_what_another_one_would_not_survive() {
        let retry = Retry::exponential(5).never_on(["Declined"]);
        let allows = |details: ErrorDetails, may: bool| {
            let error = OrchestrationError::<String>::of(details.clone());
            retry.allows_another_child(&error, &details, |_| may)
        };
        let failed = |text: &str| ErrorDetails::orchestration_failed(text);
        assert!(allows(failed("Busy"), true));
        assert!(!allows(failed("Busy"), false));
        assert!(!allows(failed("Declined"), true));
        let taken = "sub-orchestration instance id 'invoice-7' already exists";
        assert!(!allows(failed(taken), true));
        assert!(allows(ErrorDetails::timed_out("too slow".to_owned()), true));
        let away = |retryable| ErrorDetails::Infrastructure {
            operation: "commit".to_owned(),
            message: String::new(),
            retryable,
        };
        assert!(allows(away(true), true));
        assert!(!allows(away(false), true));
    }

    #[test]
    fn what_cannot_be_cured_is_not_tried_again() {
        let retry = Retry::exponential(5).never_on(["Declined"]);
        let failed = ActivityError::Failed("Declined".to_owned());
        assert!(!retry.allows(&failed, Some("Declined"), |_| true));
        let busy = ActivityError::Failed("Busy".to_owned());
        assert!(retry.allows(&busy, Some("Busy"), |_| true));
        assert!(!retry.allows(&busy, Some("Busy"), |_| false));
        let late = ActivityError::<String>::TimedOut {
            which: Timeout::StartToClose,
        };
        assert!(retry.allows(&late, None, |_| true));
        assert!(!retry.not_after_timeouts().allows(&late, None, |_| true));
    }
}
