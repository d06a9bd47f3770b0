//! This runtime as a node among others: it leaves its name, its code, what it holds and a sign of life in the store,
//! every few seconds and beside all work. Never: anything that waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::BUILD_VERSION;
use duroxide_core::clock::Clock;
use duroxide_core::provider::{BlockedInstance, NodeInfo, NodeTerm, ProviderAdmin};

use crate::engine::{Engine, host, shorten};
use crate::worker;

/// A node that missed so many signs of life in a row counts as gone.
const MISSED_MAX: u32 = 3;
/// For so long a node that is gone is still listed.
const LISTED_FOR: Duration = Duration::from_secs(3_600);
/// How many blocked instances a sign of life names.
const BLOCKED_MAX: usize = 100;
/// How many activities that it holds a sign of life names.
const HELD_MAX: usize = 100;
/// What the names of the engine's own activities begin with.
const BUILT_IN: &str = "__duroxide";

/// Announces this node until the runtime stops, and takes its leave then.
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
    let leave = leave(admin, &node.id);
    engine.abort.run_until_cancelled(leave).await;
}

/// A node that could not take its leave is gone after a while.
async fn leave(admin: &dyn ProviderAdmin, id: &str) {
    if let Err(error) = admin.forget_node(id).await {
        tracing::debug!(target: "duroxide::runtime", %error, "this node could not take its leave");
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
