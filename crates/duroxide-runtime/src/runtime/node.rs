//! This runtime as a node among others. In: its name, its code, and what it holds. Out: an announcement of all that in
//! the store, every few seconds and beside all work. Nothing ever waits for one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::BUILD_VERSION;
use duroxide_core::clock::Clock;
use duroxide_core::provider::{BlockedInstance, NodeInfo, NodeTerm, ProviderAdmin};

use crate::engine::{Engine, host, shorten};
use crate::worker;

/// A node that missed so many announcements in a row counts as gone.
const MISSED_MAX: u32 = 3;
/// For so long a node that is gone is still listed.
const LISTED_FOR: Duration = Duration::from_secs(3_600);
/// How many blocked instances an announcement names.
const BLOCKED_MAX: usize = 100;
/// How many activities that it holds an announcement names.
const HELD_MAX: usize = 100;
/// What the names of the engine's own activities begin with.
const BUILT_IN: &str = "__duroxide";

/// Announces this node until the runtime stops, and removes it then.
pub(super) async fn announce(engine: Arc<Engine>) {
    let Some(interval) = engine.options.node_announce_interval else {
        return;
    };
    let Some(admin) = engine.store.as_management_capability() else {
        return;
    };
    let term = NodeTerm {
        gone_after: interval.saturating_mul(MISSED_MAX),
        forgotten_after: LISTED_FOR,
    };
    let mut node = describe(&engine);
    loop {
        node.blocked = blocked(&engine);
        node.holds = engine.running.held(HELD_MAX);
        let announced = tokio::select! {
            biased;
            () = engine.stop.cancelled() => break,
            announced = admin.announce_node(&node, term) => announced,
        };
        match announced {
            Ok(true) => {}
            // This store keeps no nodes.
            Ok(false) => return,
            // Operators see this node as gone while the store is away, which is true.
            Err(error) => {
                tracing::debug!(target: "duroxide::runtime", %error, "this node could not announce itself");
            }
        }
        if !engine.pause(interval).await {
            break;
        }
    }
    // What was announced may have been stored, also if no answer came.
    let removed = remove(admin, &node.id);
    engine.abort.run_until_cancelled(removed).await;
}

/// Removes a node that shuts down. One that could not be removed counts as gone after a while.
async fn remove(admin: &dyn ProviderAdmin, id: &str) {
    if let Err(error) = admin.forget_node(id).await {
        tracing::debug!(target: "duroxide::runtime", %error, "this node could not be removed from the list, and will count as gone");
    }
}

fn describe(engine: &Engine) -> NodeInfo {
    let options = &engine.options;
    let mut node = NodeInfo::new(engine.runtime_id.clone(), engine.node_name());
    node.host = host();
    node.pid = std::process::id();
    node.engine_version = BUILD_VERSION.to_owned();
    node.started_at_ms = engine.clock.now_ms();
    if options.orchestration_concurrency > 0 {
        let mut versions = BTreeMap::<String, Vec<String>>::new();
        for (name, version) in engine.code_here.orchestrations() {
            versions
                .entry(name.to_owned())
                .or_default()
                .push(version.to_owned());
        }
        node.orchestrations = versions;
    }
    if worker::can_work(engine) {
        let names = engine.code_here.activities();
        let own = names.filter(|name| !name.starts_with(BUILT_IN));
        node.activities = own.map(str::to_owned).collect();
    }
    node
}

/// What this node cannot go on with, so that an operator can ask any client why.
fn blocked(engine: &Engine) -> Vec<BlockedInstance> {
    let mut all = engine.blocked.list();
    all.truncate(BLOCKED_MAX);
    all.iter_mut().for_each(shorten);
    all
}
