//! Questions that only the world outside can answer: an id, the time, another instance's key-values.
//!
//! They are recorded like activities, so that histories keep their published shape, but the runtime answers them within
//! the turn instead of sending them to a worker.

use serde::Deserialize;

use crate::durable::{
    SYSCALL_ACTIVITY_CLAIMED, SYSCALL_GET_KV_VALUE, SYSCALL_NEW_GUID, SYSCALL_PATCHED,
    SYSCALL_RUN_PREFIX, SYSCALL_SEND, SYSCALL_UTC_NOW_MS,
};
use crate::event::EventKind;

/// A recorded question that waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCall {
    /// The event that recorded it.
    pub activity_id: u64,
    /// The question.
    pub request: HostRequest,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostRequest {
    /// A fresh random id.
    NewGuid,
    /// The current time in milliseconds since the Unix epoch.
    UtcNowMs,
    /// A key-value of an instance; the answer is JSON: `null` or a string.
    ReadKv {
        /// The instance.
        instance_id: String,
        /// The key.
        key: String,
    },
    /// Whether a worker ever claimed an activity; the answer is `true` or `false`.
    ActivityClaimed {
        /// Its scheduling event.
        activity_id: u64,
    },
    /// Work of the orchestration's own code that runs in place; see
    /// [`Execution::take_in_place`](super::Execution::take_in_place).
    RunInPlace {
        /// The name that the author gave it.
        name: String,
    },
    /// A patch that the code took, to be recorded; the answer is `true`.
    Patched {
        /// Its id.
        id: String,
    },
    /// A message for a queue of another instance, which the commit of the turn sends; the answer is JSON: `null`, or
    /// why it cannot be delivered ([`Undelivered`](crate::Undelivered)).
    Send {
        /// The instance.
        instance: String,
        /// The queue.
        queue: String,
        /// The data of the message.
        data: String,
    },
    /// A question that cannot be understood; the answer is this error.
    Malformed {
        /// The defect of the request.
        error: String,
    },
}

impl HostRequest {
    /// The question behind an activity name and input; `None` for an ordinary activity.
    #[must_use]
    pub fn parse(name: &str, input: &str) -> Option<Self> {
        match name {
            SYSCALL_NEW_GUID => Some(Self::NewGuid),
            SYSCALL_UTC_NOW_MS => Some(Self::UtcNowMs),
            SYSCALL_PATCHED => Some(Self::Patched {
                id: input.to_owned(),
            }),
            SYSCALL_GET_KV_VALUE => Some(parse_kv(input)),
            SYSCALL_SEND => Some(match serde_json::from_str(input) {
                Ok((instance, queue, data)) => Self::Send {
                    instance,
                    queue,
                    data,
                },
                Err(e) => Self::Malformed {
                    error: format!("send: invalid input: {e}"),
                },
            }),
            SYSCALL_ACTIVITY_CLAIMED => Some(match input.parse() {
                Ok(activity_id) => Self::ActivityClaimed { activity_id },
                Err(e) => Self::Malformed {
                    error: format!("activity_claimed: invalid input: {e}"),
                },
            }),
            _ => name
                .strip_prefix(SYSCALL_RUN_PREFIX)
                .map(|name| Self::RunInPlace {
                    name: name.to_owned(),
                }),
        }
    }

    pub(crate) fn of_event(kind: &EventKind) -> Option<Self> {
        match kind {
            EventKind::ActivityScheduled { name, input, .. } => Self::parse(name, input),
            _ => None,
        }
    }
}

fn parse_kv(input: &str) -> HostRequest {
    #[derive(Deserialize)]
    struct Input {
        instance_id: Option<String>,
        key: Option<String>,
    }
    let malformed = |error: String| HostRequest::Malformed { error };
    match serde_json::from_str::<Input>(input) {
        Err(e) => malformed(format!("get_kv_value: invalid input: {e}")),
        Ok(Input {
            instance_id: None, ..
        }) => malformed("get_kv_value: missing instance_id".to_owned()),
        Ok(Input { key: None, .. }) => malformed("get_kv_value: missing key".to_owned()),
        Ok(Input {
            instance_id: Some(instance_id),
            key: Some(key),
        }) => HostRequest::ReadKv { instance_id, key },
    }
}
