//! The engine's own activities. Turns answer these questions themselves; a worker sees one only when an earlier engine
//! queued it.

use async_trait::async_trait;
use duroxide_core::clock::ClockRef;
use duroxide_core::replay::{
    HostRequest, SYSCALL_AWAIT_INSTANCE, SYSCALL_GET_KV_VALUE, SYSCALL_NEW_GUID, SYSCALL_UTC_NOW_MS,
};

use crate::activity::{ActivityContext, ActivityHandler};
use crate::registry::ActivityRegistry;

struct Syscall {
    name: &'static str,
    clock: ClockRef,
}

#[async_trait]
impl ActivityHandler for Syscall {
    async fn invoke(&self, ctx: ActivityContext, input: String) -> Result<String, String> {
        match HostRequest::parse(self.name, &input) {
            Some(HostRequest::NewGuid) => Ok(uuid::Uuid::new_v4().to_string()),
            Some(HostRequest::UtcNowMs) => Ok(self.clock.now_ms().to_string()),
            Some(HostRequest::ReadKv { instance_id, key }) => {
                let value = ctx
                    .get_client()
                    .get_kv_value(&instance_id, &key)
                    .await
                    .map_err(|e| format!("get_kv_value client error: {e}"))?;
                serde_json::to_string(&value)
                    .map_err(|e| format!("get_kv_value serialization error: {e}"))
            }
            Some(HostRequest::Malformed { error }) => Err(error),
            Some(
                HostRequest::ActivityClaimed { .. }
                | HostRequest::Send { .. }
                | HostRequest::Patched { .. }
                | HostRequest::RunInPlace { .. },
            )
            | None => Err(format!("unknown system call {}", self.name)),
        }
    }
}

/// A copy of a registry with the engine's own activities.
pub(crate) fn with_built_ins(activities: &ActivityRegistry, clock: &ClockRef) -> ActivityRegistry {
    let mut builder = ActivityRegistry::builder_from(activities);
    // A worker looks for the end of an instance without calling the handler; the name makes nodes claim it.
    for name in [
        SYSCALL_NEW_GUID,
        SYSCALL_UTC_NOW_MS,
        SYSCALL_GET_KV_VALUE,
        SYSCALL_AWAIT_INSTANCE,
    ] {
        builder = builder.with_built_in(
            name,
            std::sync::Arc::new(Syscall {
                name,
                clock: clock.clone(),
            }),
        );
    }
    builder.build()
}
