//! What a node has code for, as data that a store can compare, index or send to a server.

use std::collections::{BTreeMap, BTreeSet};

/// The orchestrations a node can run, by name and version.
///
/// A store hands an instance only to a caller that has its handler. Waiting for such a caller is not an attempt.
///
/// ```
/// use duroxide_core::provider::OrchestrationHandlers;
/// let handlers = OrchestrationHandlers::default().with("order", "1.0.0").with("order", "1.2.0");
/// assert!(handlers.has("order", "1.2.0"));
/// assert!(!handlers.has("order", "2.0.0"));
/// // A start that names no version leaves the choice to the node.
/// assert!(handlers.starts("order", None) && !handlers.starts("invoice", None));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrchestrationHandlers {
    versions: BTreeMap<String, BTreeSet<String>>,
}

impl OrchestrationHandlers {
    /// The same set and one more handler. The version is the text that a history records.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        let versions = self.versions.entry(name.into()).or_default();
        versions.insert(version.into());
        self
    }

    /// Whether a running execution of this handler can be continued.
    #[must_use]
    pub fn has(&self, name: &str, version: &str) -> bool {
        self.versions
            .get(name)
            .is_some_and(|versions| versions.contains(version))
    }

    /// Whether a start or continue-as-new with this name and version can be carried out.
    #[must_use]
    pub fn starts(&self, name: &str, version: Option<&str>) -> bool {
        match version {
            Some(version) => self.has(name, version),
            None => self.versions.contains_key(name),
        }
    }

    /// All handlers as (name, version), in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.versions.iter().flat_map(|(name, versions)| {
            versions
                .iter()
                .map(move |version| (name.as_str(), version.as_str()))
        })
    }
}

/// What kind of code ready work needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HandlerKind {
    /// An orchestration.
    Orchestration,
    /// An activity.
    Activity,
}

/// Work that is ready and that no node has claimed, for one handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyWork {
    /// The kind of handler.
    pub kind: HandlerKind,
    /// The handler's name.
    pub name: String,
    /// The version that is needed; `None` for an activity, or a start that names no version.
    pub version: Option<String>,
    /// The number of instances or activities that wait.
    pub count: u64,
    /// Time since which the oldest of them is ready, in milliseconds since the Unix epoch.
    pub ready_since_ms: u64,
}
