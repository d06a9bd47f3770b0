//! What new code means for the instances of a store, in figures and in words.

use std::collections::BTreeMap;
use std::fmt;

use duroxide_core::replay::Divergence;
use duroxide_runtime::registry::OrchestrationRegistry;
use semver::Version;

/// A handler by name and version.
pub type HandlerVersion = (String, String);

/// A handler that something asks for, in a version or in any.
pub(super) type Begins = (String, Option<String>);

/// What stands for a version that was left open.
pub(super) const ANY_VERSION: &str = "in any version";

/// What new code means for the instances of a store.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StoreReport {
    /// Running instances that were replayed, and fit.
    pub fitting: usize,
    /// Instances whose history the code does not fit, with the report.
    pub diverging: Vec<(String, Divergence)>,
    /// Instances whose handler, or its version, the code does not have.
    pub without_code: Vec<(String, HandlerVersion)>,
    /// Instances that could not be read, and why.
    pub unreadable: Vec<(String, String)>,
    /// How many running instances need each version of each handler; one that is between two executions needs the
    /// version of the next.
    pub needed: BTreeMap<HandlerVersion, usize>,
    /// How many instances wait to be claimed, by the handler and the version that they need; starts that are still
    /// queued are among them, and running instances that have messages. A start that leaves its version open has
    /// `None`.
    pub queued: BTreeMap<(String, Option<String>), u64>,
    /// How many starts have not begun, by the handler and the version that they name: queued ones, those whose delay is
    /// not over, and those whose first turn ran while the report was made.
    pub not_begun: BTreeMap<(String, Option<String>), u64>,
    /// Handlers that queued instances and starts that have not begun wait for, and the code does not have.
    pub queued_without_code: Vec<(String, Option<String>)>,
    /// Whether the store does not say what is queued: then it is not known which starts need which version.
    pub is_queue_unseen: bool,
}

impl StoreReport {
    /// Whether every running instance and every start that the store holds can go on with the code.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.diverging.is_empty()
            && self.without_code.is_empty()
            && self.unreadable.is_empty()
            && self.queued_without_code.is_empty()
            && !self.is_queue_unseen
    }

    /// The versions of a handler that running instances and starts that have not begun need, oldest first. What is not
    /// here can be removed from the code.
    #[must_use]
    pub fn versions_needed(&self, name: &str) -> Vec<&str> {
        let running = self.needed.keys().filter(|(own, _)| own == name);
        let queued = self.queued.keys().chain(self.not_begun.keys());
        let queued = queued.filter(|(own, _)| own == name);
        let mut versions: Vec<&str> = running
            .map(|(_, version)| version.as_str())
            .chain(queued.filter_map(|(_, version)| version.as_deref()))
            .collect();
        versions.sort_by_key(|version| (Version::parse(version).ok(), *version));
        versions.dedup();
        versions
    }
}

impl StoreReport {
    /// Notes once that the code does not have what something waits for.
    pub(super) fn note_missing(&mut self, code: &OrchestrationRegistry, begins: &Begins) {
        let (name, version) = begins;
        let is_known = self.queued_without_code.contains(begins);
        if !is_known && !has(code, name, version.as_deref()) {
            self.queued_without_code.push(begins.clone());
        }
    }
}

impl fmt::Display for StoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bad = self.diverging.len() + self.without_code.len() + self.unreadable.len();
        writeln!(
            f,
            "{} running instances fit the code, {bad} do not",
            self.fitting
        )?;
        for ((name, version), count) in &self.needed {
            writeln!(f, "{count} need {name} {version}")?;
        }
        for ((name, version), count) in &self.queued {
            let version = version.as_deref().unwrap_or(ANY_VERSION);
            writeln!(f, "{count} wait in the queue for {name} {version}")?;
        }
        for ((name, version), count) in &self.not_begun {
            let version = version.as_deref().unwrap_or(ANY_VERSION);
            writeln!(f, "{count} have not begun with {name} {version}")?;
        }
        for (name, version) in &self.queued_without_code {
            let version = version.as_deref().unwrap_or(ANY_VERSION);
            writeln!(f, "the queue: the code has no {name} {version}")?;
        }
        if self.is_queue_unseen {
            writeln!(f, "the store does not say which starts are queued")?;
        }
        for (instance, (name, version)) in &self.without_code {
            writeln!(f, "{instance}: the code has no {name} {version}")?;
        }
        for (instance, report) in &self.diverging {
            writeln!(f, "{instance}: {report}")?;
        }
        for (instance, why) in &self.unreadable {
            writeln!(f, "{instance}: {why}")?;
        }
        Ok(())
    }
}

/// Whether the code has a handler in a version, or in any if none is named.
pub(super) fn has(code: &OrchestrationRegistry, name: &str, version: Option<&str>) -> bool {
    match version {
        None => code.has(name),
        Some(version) => {
            Version::parse(version).is_ok_and(|it| code.resolve_handler_exact(name, &it).is_some())
        }
    }
}
