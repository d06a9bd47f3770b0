//! This runtime as a node among others: it leaves its name, its code and a sign of life in the store, every few seconds
//! and beside all work. Never: anything that waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::BUILD_VERSION;
use duroxide_core::clock::Clock;
use duroxide_core::provider::{BlockedInstance, NodeInfo, NodeTerm, ProviderAdmin};

use crate::engine::Engine;
use crate::worker;

/// A node that missed so many signs of life in a row counts as gone.
const MISSED_MAX: u32 = 3;
/// For so long a node that is gone is still listed.
const LISTED_FOR: Duration = Duration::from_secs(3_600);
/// How many blocked instances a sign of life names, and how many bytes of each report.
const BLOCKED_MAX: usize = 100;
const REPORT_BYTES_MAX: usize = 4_000;
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
    let (host, pid) = (host(), std::process::id());
    let options = &engine.options;
    let chosen = options.worker_node_id.clone();
    let name = chosen.unwrap_or_else(|| format!("{host}:{pid}"));
    let mut node = NodeInfo::new(engine.runtime_id.clone(), name);
    node.host = host;
    node.pid = pid;
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
    for one in &mut all {
        let is_short = |end: &usize| *end <= REPORT_BYTES_MAX;
        let mut ends = one.report.char_indices().map(|(at, _)| at);
        if one.report.len() > REPORT_BYTES_MAX
            && let Some(end) = ends.by_ref().take_while(is_short).last()
        {
            one.report.truncate(end);
        }
    }
    all
}

/// The name of this machine, as far as it can be had without asking another library.
fn host() -> String {
    let linux = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let variable = |name: &str| std::env::var(name).ok();
    let known = linux
        .or_else(|| variable("HOSTNAME"))
        .or_else(|| variable("COMPUTERNAME"));
    let known = known.map(|name| name.trim().to_owned());
    known
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}
