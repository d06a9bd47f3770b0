//! What stands around an instance: ready work and nodes. In: what the store lists. Out: findings about code that is
//! missing and about nodes that cannot go on, and the worker that holds an activity. Never asks the store itself.

use std::collections::HashSet;

use duroxide_core::provider::{
    BlockedInstance, HandlerKind, HeldActivity, NodeInfo, ReadyWork, ScheduledActivityIdentifier,
    SeenNode,
};
use duroxide_core::replay::SYSCALL_PREFIX;

use super::types::Finding;

/// How long work may be ready before nodes are doubted.
const UNCLAIMED_MS: u64 = 30_000;
/// How far the clocks of two nodes that follow the store may be apart.
const CLOCKS_APART_MS: u64 = 1_000;

/// What is asked of the store once, and not once per instance.
pub(super) struct Surroundings {
    pub(super) ready: Vec<ReadyWork>,
    /// Nodes, those that are gone included; `None` if the store keeps no nodes.
    pub(super) nodes: Option<Vec<SeenNode>>,
    /// Instances that were explained already.
    pub(super) seen: HashSet<String>,
}

/// A claim of an activity as the store has it.
#[derive(Clone, Copy)]
pub(super) struct Claim<'a> {
    pub(super) activity: &'a ScheduledActivityIdentifier,
    pub(super) scheduled_ms: u64,
    pub(super) attempt: u32,
}

impl Claim<'_> {
    /// Whether a node speaks of this claim. Not if it speaks of an earlier attempt, whose lease it lost and does not
    /// know that, nor of an earlier life of the instance: what it claimed before the activity was scheduled is another
    /// activity of that number.
    fn is(&self, held: &HeldActivity) -> bool {
        held.instance_id == self.activity.instance
            && held.execution_id == self.activity.execution_id
            && held.activity_id == self.activity.activity_id
            && held.attempt == self.attempt
            && held.since_ms.saturating_add(CLOCKS_APART_MS) >= self.scheduled_ms
    }
}

impl Surroundings {
    /// The nodes that are not gone.
    fn up(&self) -> impl Iterator<Item = &NodeInfo> {
        let seen = self.nodes.iter().flatten();
        seen.filter(|seen| !seen.is_gone).map(|seen| &seen.node)
    }

    /// The node that says that it holds an activity, and what it says of it. Of two the later: an attempt that was
    /// given back uncounted has the same number as the next one.
    pub(super) fn holder(&self, claim: Claim<'_>) -> Option<(&SeenNode, &HeldActivity)> {
        let said = self.nodes.iter().flatten().flat_map(|seen| {
            let held = seen.node.holds.iter().filter(|held| claim.is(held));
            held.map(move |held| (seen, held))
        });
        said.max_by_key(|(_, held)| held.since_ms)
    }

    /// What nodes that are up say of an instance that they cannot go on with.
    pub(super) fn blocked(&self, instance: &str, execution_id: u64) -> Vec<Finding> {
        let is_it = |one: &&BlockedInstance| {
            one.instance_id == instance && one.execution_id == execution_id
        };
        let mut findings = Vec::new();
        for node in self.up() {
            let reported = node.blocked.iter().find(is_it);
            findings.extend(reported.map(|one| Finding::Blocked {
                node: node.name.clone(),
                report: one.report.clone(),
                attempts: one.attempts,
            }));
        }
        findings
    }
}

/// Ready work of a handler: nodes that have its code are busy, or there is none.
pub(super) fn ready_for(
    (around, now_ms): (&Surroundings, u64),
    kind: HandlerKind,
    name: &str,
    version: Option<&str>,
) -> Option<Finding> {
    let ready = around.ready.iter().find(|work| {
        work.kind == kind && work.name == name && work.version.as_deref() == version
    })?;
    let (name, version) = (ready.name.clone(), ready.version.clone());
    let (count, since_ms) = (ready.count, ready.ready_since_ms);
    // Every node has the engine's own activities, and none lists them.
    let is_engines = kind == HandlerKind::Activity && name.starts_with(SYSCALL_PREFIX);
    let has_it = |node: &NodeInfo| is_engines || node.has(kind, &name, version.as_deref());
    if around.nodes.is_some() && !around.up().any(has_it) {
        return Some(Finding::NoNodeHasIt {
            kind,
            name,
            version,
            count,
            since_ms,
            nodes: around.up().count() as u64,
        });
    }
    Some(if now_ms.saturating_sub(since_ms) < UNCLAIMED_MS {
        Finding::InLine {
            kind,
            name,
            version,
            count,
            since_ms,
        }
    } else {
        Finding::NotClaimed {
            kind,
            name,
            version,
            count,
            since_ms,
        }
    })
}

#[cfg(test)]
mod tests {
    use duroxide_core::replay::SYSCALL_AWAIT_INSTANCE;

    use super::*;

    fn finding(name: &str, nodes: Vec<SeenNode>) -> Finding {
        let ready = ReadyWork {
            kind: HandlerKind::Activity,
            name: name.to_owned(),
            version: None,
            count: 1,
            ready_since_ms: 0,
        };
        let around = Surroundings {
            ready: vec![ready],
            nodes: Some(nodes),
            seen: HashSet::new(),
        };
        ready_for((&around, 1), HandlerKind::Activity, name, None).expect("it is ready")
    }

    #[test]
    fn every_node_has_the_activities_of_the_engine_though_none_lists_them() {
        let up = || vec![SeenNode::new(NodeInfo::new("1", "node"), 0, false)];
        let own = finding(SYSCALL_AWAIT_INSTANCE, up());
        assert!(matches!(own, Finding::InLine { .. }), "{own:?}");
        let missing = finding("charge", up());
        assert!(matches!(missing, Finding::NoNodeHasIt { nodes: 1, .. }));
        let nobody = finding(SYSCALL_AWAIT_INSTANCE, Vec::new());
        assert!(matches!(nobody, Finding::NoNodeHasIt { nodes: 0, .. }));
    }

    fn activity() -> ScheduledActivityIdentifier {
        ScheduledActivityIdentifier {
            instance: "i".to_owned(),
            execution_id: 1,
            activity_id: 2,
        }
    }

    /// A node that holds an attempt of the activity since a time.
    fn node(name: &str, attempt: u32, since_ms: u64) -> SeenNode {
        let mut node = NodeInfo::new(name, name);
        let held = HeldActivity::new(activity(), attempt, since_ms);
        node.holds.push(held);
        SeenNode::new(node, since_ms, false)
    }

    /// The node that holds the second attempt of an activity that was scheduled at 10,000 ms.
    fn holder(nodes: Vec<SeenNode>) -> Option<String> {
        let around = Surroundings {
            ready: Vec::new(),
            nodes: Some(nodes),
            seen: HashSet::new(),
        };
        let claim = Claim {
            activity: &activity(),
            scheduled_ms: 10_000,
            attempt: 2,
        };
        let found = around.holder(claim);
        found.map(|(seen, _)| seen.node.name.clone())
    }

    #[test]
    fn a_node_that_lost_its_lease_and_does_not_know_is_not_named() {
        let nodes = vec![node("late", 1, 12_000), node("now", 2, 40_000)];
        assert_eq!(holder(nodes).as_deref(), Some("now"));
        assert_eq!(holder(vec![node("late", 1, 12_000)]), None);
    }

    #[test]
    fn a_node_that_holds_the_activity_of_an_earlier_life_is_not_named() {
        assert_eq!(holder(vec![node("earlier", 2, 8_000)]), None);
        let close = holder(vec![node("clock behind", 2, 9_950)]);
        assert_eq!(close.as_deref(), Some("clock behind"));
    }

    #[test]
    fn of_two_nodes_the_one_that_claimed_last_is_named() {
        let nodes = vec![
            node("gave it back", 2, 12_000),
            node("has it", 2, 13_000),
            node("gave it back, too", 2, 11_000),
        ];
        assert_eq!(holder(nodes).as_deref(), Some("has it"));
    }
}
