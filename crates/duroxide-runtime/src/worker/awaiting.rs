//! Looking for the end of an instance that another one waits for. In: the request of an orchestration, as an activity.
//! Out: its completion if the instance has ended or is not there; else the request goes back into the queue, to be
//! looked at later.

use std::time::Duration;

use duroxide_core::clock::Clock;
use duroxide_core::provider::OutcomeStatus;
use duroxide_core::{AwaitedEnd, Undelivered};

use crate::engine::Engine;
use crate::undelivered::undelivered;

/// Shortest and longest pause between two looks.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// What a look found.
pub(super) enum Look {
    /// The text to complete the request with.
    Ended(String),
    /// The request itself is no good.
    Malformed(String),
    /// Look again after this long.
    Later(Duration),
}

pub(super) async fn look(engine: &Engine, input: &str) -> Look {
    let (instance, since_ms) = match serde_json::from_str::<(String, u64)>(input) {
        Ok(request) => request,
        Err(error) => return Look::Malformed(format!("await_instance: invalid input: {error}")),
    };
    let waited = engine.clock.now_ms().saturating_sub(since_ms);
    let later = Look::Later((Duration::from_millis(waited) / 10).clamp(SHORTEST, LONGEST));
    let end = match engine.store.read_outcome(&instance).await {
        Ok(Some(outcome)) => match outcome.status {
            OutcomeStatus::Running => return later,
            OutcomeStatus::Completed { output } => AwaitedEnd::Completed(output),
            OutcomeStatus::Failed { details } => AwaitedEnd::Failed(details),
        },
        Ok(None) => match undelivered(engine.store.as_ref(), &instance).await {
            Ok(Some(Undelivered::NotFound { .. })) => AwaitedEnd::NotFound,
            // It began and ended since the first look: the next one finds how.
            Ok(Some(_)) => return Look::Later(SHORTEST),
            // A start is queued; or the store is away.
            Ok(None) | Err(_) => return later,
        },
        Err(_) => return later,
    };
    match serde_json::to_string(&end) {
        Ok(text) => Look::Ended(text),
        Err(error) => Look::Malformed(error.to_string()),
    }
}
