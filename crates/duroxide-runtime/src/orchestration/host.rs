//! Answers to what an orchestration asks of the world: ids, the time, another instance's key-values.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use duroxide_core::clock::Clock;
use duroxide_core::provider::{ProviderError, ScheduledActivityIdentifier};
use duroxide_core::replay::{HostCall, HostRequest, InPlaceFuture};
use duroxide_core::{Undelivered, check_queue_name};

use crate::engine::Engine;
use crate::panics::panic_message;
use crate::undelivered::undelivered;

/// Drives work of an orchestration that runs in place. Its panic is its answer.
pub(super) async fn run_in_place(mut work: InPlaceFuture) -> Result<String, String> {
    poll_fn(move |cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(panic_message(panic.as_ref()))))
    })
    .await
}

/// Whether an answer acts on the world or asks the store. A turn that was handed out before its claim was committed may
/// do that only once its lease is stored.
pub(super) fn needs_stored_lease(call: &HostCall) -> bool {
    match call.request {
        HostRequest::ReadKv { .. }
        | HostRequest::ActivityClaimed { .. }
        | HostRequest::Send { .. }
        | HostRequest::RunInPlace { .. } => true,
        HostRequest::NewGuid
        | HostRequest::UtcNowMs
        | HostRequest::Patched { .. }
        | HostRequest::Malformed { .. } => false,
    }
}

/// The answer to one question. A store that cannot be reached is an error of the turn, not of the orchestration.
pub(super) async fn answer(
    engine: &Engine,
    instance: &str,
    execution_id: u64,
    call: &HostCall,
) -> Result<Result<String, String>, ProviderError> {
    match &call.request {
        HostRequest::NewGuid => Ok(Ok(uuid::Uuid::new_v4().to_string())),
        HostRequest::UtcNowMs => Ok(Ok(engine.clock.now_ms().to_string())),
        HostRequest::ReadKv { instance_id, key } => {
            match engine.store.get_kv_value(instance_id, key).await {
                Ok(value) => Ok(serde_json::to_string(&value)
                    .map_err(|e| format!("get_kv_value serialization error: {e}"))),
                Err(error) if error.is_retryable() => Err(error),
                Err(error) => Ok(Err(format!("get_kv_value client error: {error}"))),
            }
        }
        HostRequest::ActivityClaimed { activity_id } => {
            let activity = ScheduledActivityIdentifier {
                instance: instance.to_owned(),
                execution_id,
                activity_id: *activity_id,
            };
            match engine.store.activity_claimed(&activity).await {
                // A store that cannot tell leaves the activity alone.
                Ok(claimed) => Ok(Ok(claimed.unwrap_or(true).to_string())),
                Err(error) if error.is_retryable() => Err(error),
                Err(error) => Ok(Err(error.to_string())),
            }
        }
        HostRequest::Send {
            instance, queue, ..
        } => can_take(engine, instance, queue).await,
        HostRequest::Patched { .. } => Ok(Ok("true".to_owned())),
        HostRequest::RunInPlace { name } => Ok(Err(format!("'{name}' was taken before"))),
        HostRequest::Malformed { error } => Ok(Err(error.clone())),
    }
}

/// Whether an instance can take a message: `null`, or why not.
async fn can_take(
    engine: &Engine,
    instance: &str,
    queue: &str,
) -> Result<Result<String, String>, ProviderError> {
    let answer = if let Err(why) = check_queue_name(queue) {
        Some(Undelivered::Refused { why })
    } else {
        match undelivered(engine.store.as_ref(), instance).await {
            Ok(why_not) => why_not,
            Err(error) if error.is_retryable() => return Err(error),
            Err(error) => return Ok(Err(error.to_string())),
        }
    };
    Ok(serde_json::to_string(&answer).map_err(|error| error.to_string()))
}
