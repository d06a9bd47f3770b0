//! Nodes as a store knows them: who runs on it, with which code, seen when. Pure data; runtimes write it, operators
//! read it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{HandlerKind, ScheduledActivityIdentifier};

/// What a node says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct NodeInfo {
    /// One life of a runtime: another one, also of the same program, has another id.
    pub id: String,
    /// The name that its program chose, or host and process.
    pub name: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// The version of the engine.
    pub engine_version: String,
    /// Time at which it started, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// The orchestrations that it has, each with its versions. Empty if it runs no orchestrations.
    pub orchestrations: BTreeMap<String, Vec<String>>,
    /// The activities that it has. Empty if it runs no activities.
    pub activities: Vec<String>,
    /// The instances that it cannot go on with for now, a hundred at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<BlockedInstance>,
    /// The activities that it has claimed and not finished, those held longest first, a hundred at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<HeldActivity>,
}

/// An instance that a node cannot go on with for now: its code does not fit the history, or the store refuses its
/// turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedInstance {
    /// The instance.
    pub instance_id: String,
    /// Its current execution.
    pub execution_id: u64,
    /// The name of its handler.
    pub orchestration_name: String,
    /// Obstacle: what is recorded against what the code attempted, or what the store said.
    pub report: String,
    /// The number of tries so far.
    pub attempts: u32,
}

/// An activity that a node has claimed and not finished. The store has the last word: its lease may be lost, and the
/// node may not know that yet.
///
/// ```
/// use duroxide_core::provider::{HeldActivity, NodeInfo, ScheduledActivityIdentifier};
/// let charge = ScheduledActivityIdentifier { instance: "order-7".into(), execution_id: 1, activity_id: 2 };
/// let mut node = NodeInfo::new("n1", "worker-1");
/// node.holds.push(HeldActivity::new(charge, 1, 1_700_000_000_000));
/// assert_eq!(node.holds[0].instance_id, "order-7");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HeldActivity {
    /// The instance that scheduled it.
    pub instance_id: String,
    /// The execution that scheduled it.
    pub execution_id: u64,
    /// The event that scheduled it.
    pub activity_id: u64,
    /// The number of this attempt, as the store counted it with the claim.
    pub attempt: u32,
    /// Time at which the node claimed it, in milliseconds since the Unix epoch.
    pub since_ms: u64,
}

impl HeldActivity {
    /// An attempt of an activity that a node claimed at this time.
    #[must_use]
    pub fn new(activity: ScheduledActivityIdentifier, attempt: u32, since_ms: u64) -> Self {
        Self {
            instance_id: activity.instance,
            execution_id: activity.execution_id,
            activity_id: activity.activity_id,
            attempt,
            since_ms,
        }
    }
}

impl NodeInfo {
    /// A node without any code.
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            ..Self::default()
        }
    }

    /// Whether it has a handler; of any version if none is asked for.
    ///
    /// ```
    /// use duroxide_core::provider::{HandlerKind, NodeInfo};
    /// let mut node = NodeInfo::new("n1", "worker-1");
    /// node.orchestrations.insert("order".into(), vec!["1.0.0".into()]);
    /// assert!(node.has(HandlerKind::Orchestration, "order", None));
    /// assert!(!node.has(HandlerKind::Orchestration, "order", Some("2.0.0")));
    /// assert!(!node.has(HandlerKind::Activity, "order", None));
    /// ```
    #[must_use]
    pub fn has(&self, kind: HandlerKind, name: &str, version: Option<&str>) -> bool {
        match (kind, version) {
            (HandlerKind::Activity, _) => self.activities.iter().any(|it| it == name),
            (HandlerKind::Orchestration, None) => self.orchestrations.contains_key(name),
            (HandlerKind::Orchestration, Some(version)) => {
                let versions = self.orchestrations.get(name);
                versions.is_some_and(|all| all.iter().any(|it| it == version))
            }
        }
    }
}

/// When a store gives up on a silent node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeTerm {
    /// A node that has not announced itself for this long counts as gone.
    pub gone_after: Duration,
    /// A node that has been gone for this long is removed from the list.
    pub forgotten_after: Duration,
}

/// A node as a store has seen it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SeenNode {
    /// Its last announcement.
    pub node: NodeInfo,
    /// Time of that announcement, by the clock of the store.
    pub last_seen_ms: u64,
    /// It has not been heard from for too long: it died, or it cannot reach the store.
    pub is_gone: bool,
}

impl SeenNode {
    /// A node that was last heard from at this time; stores make it.
    #[must_use]
    pub fn new(node: NodeInfo, last_seen_ms: u64, is_gone: bool) -> Self {
        Self {
            node,
            last_seen_ms,
            is_gone,
        }
    }
}
