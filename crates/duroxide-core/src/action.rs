//! What the runtime must do for a turn. In: commands of the author's code. Out: actions. Plain data: the runtime
//! carries them out.

/// Something that a turn asks the runtime to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Run an activity.
    CallActivity {
        /// Scheduling event, also the activity's id.
        scheduling_event_id: u64,
        /// Registered name.
        name: String,
        /// Its input.
        input: String,
        /// Session it is bound to.
        session_id: Option<String>,
        /// Tag that routes it.
        tag: Option<String>,
    },
    /// Set a timer.
    CreateTimer {
        /// Scheduling event.
        scheduling_event_id: u64,
        /// When it is due.
        fire_at_ms: u64,
    },
    /// Wait for a positional signal.
    WaitExternal {
        /// Scheduling event.
        scheduling_event_id: u64,
        /// Signal name.
        name: String,
    },
    /// Start a detached orchestration: one whose result is not awaited.
    StartOrchestrationDetached {
        /// Scheduling event.
        scheduling_event_id: u64,
        /// Handler name.
        name: String,
        /// Exact version, or `None` for the policy.
        version: Option<String>,
        /// Instance id.
        instance: String,
        /// Its input.
        input: String,
    },
    /// Start a child.
    StartSubOrchestration {
        /// Scheduling event.
        scheduling_event_id: u64,
        /// Handler name.
        name: String,
        /// Exact version, or `None` for the policy.
        version: Option<String>,
        /// Instance id in its short form.
        instance: String,
        /// Its input.
        input: String,
    },
    /// End this execution and begin another.
    ContinueAsNew {
        /// Input of the next one.
        input: String,
        /// Exact version, or `None` for the policy.
        version: Option<String>,
    },
    /// Change the custom status.
    UpdateCustomStatus {
        /// New value, or `None` to reset.
        status: Option<String>,
    },
    /// Take the next message of a queue.
    DequeueEvent {
        /// Scheduling event.
        scheduling_event_id: u64,
        /// Queue name.
        name: String,
    },
    /// Set a key.
    SetKeyValue {
        /// The key to write.
        key: String,
        /// The value to store under the key.
        value: String,
        /// Time of the change, in milliseconds since the Unix epoch.
        last_updated_at_ms: u64,
    },
    /// Remove a key.
    ClearKeyValue {
        /// The key to remove.
        key: String,
    },
    /// Remove all keys.
    ClearKeyValues,
}
