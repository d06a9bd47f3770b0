//! Handlers by name and version. In: what the author registers. Out: the handler a start or a turn asks for.

mod activities;
mod builder;
mod orchestrations;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use duroxide_core::OrchestrationHandler;
use duroxide_core::defect::Defect;
use semver::Version;

use crate::activity::ActivityHandler;

pub use builder::RegistryBuilder;

/// Orchestrations by name and version.
pub type OrchestrationRegistry = Registry<dyn OrchestrationHandler>;
/// Collects orchestrations.
pub type OrchestrationRegistryBuilder = RegistryBuilder<dyn OrchestrationHandler>;
/// Activities by name.
pub type ActivityRegistry = Registry<dyn ActivityHandler>;
/// Collects activities.
pub type ActivityRegistryBuilder = RegistryBuilder<dyn ActivityHandler>;

/// Version of a handler that was registered without one.
pub(crate) const DEFAULT_VERSION: Version = Version::new(1, 0, 0);

/// Which version a start without one gets.
#[derive(Clone, Debug)]
pub enum VersionPolicy {
    /// The highest one.
    Latest,
    /// This one.
    Exact(Version),
}

type Versions<H> = BTreeMap<Version, Arc<H>>;

/// Handlers by name and version. Clones are cheap and share their policies.
///
/// ```
/// use duroxide::{ActivityContext, ActivityRegistry, OrchestrationContext, OrchestrationRegistry};
///
/// async fn greet(_ctx: ActivityContext, name: String) -> Result<String, String> {
///     Ok(format!("Hello, {name}!"))
/// }
/// async fn hello(ctx: OrchestrationContext, name: String) -> Result<String, String> {
///     ctx.schedule_activity("greet", name).await
/// }
///
/// let activities = ActivityRegistry::builder().register("greet", greet).build_result();
/// assert!(activities.is_ok_and(|registry| registry.has("greet")));
///
/// let twice = OrchestrationRegistry::builder().register("hello", hello).register("hello", hello).build_result();
/// assert!(twice.is_err_and(|mistakes| mistakes.contains("duplicate")));
/// ```
pub struct Registry<H: ?Sized> {
    handlers: Arc<HashMap<String, Versions<H>>>,
    policies: Arc<RwLock<HashMap<String, VersionPolicy>>>,
}

impl<H: ?Sized> Registry<H> {
    /// Begins an empty registry.
    #[must_use]
    pub fn builder() -> RegistryBuilder<H> {
        RegistryBuilder::default()
    }

    /// Begins a registry with the handlers and policies of another one, which stays as it is.
    #[must_use]
    pub fn builder_from(registry: &Self) -> RegistryBuilder<H> {
        RegistryBuilder::of(registry)
    }

    /// The handler that the policy of this name chooses.
    #[must_use]
    pub fn resolve_handler(&self, name: &str) -> Option<(Version, Arc<H>)> {
        let policy = self.policy(name);
        let versions = self.handlers.get(name);
        let found = match policy {
            VersionPolicy::Latest => versions
                .and_then(BTreeMap::last_key_value)
                .map(|(v, h)| (v.clone(), Arc::clone(h))),
            VersionPolicy::Exact(version) => versions
                .and_then(|vs| vs.get(&version).cloned())
                .map(|handler| (version, handler)),
        };
        if found.is_none() {
            self.note_miss(name, "by policy");
        }
        found
    }

    /// The version that the policy of this name chooses.
    #[must_use]
    pub fn resolve_version(&self, name: &str) -> Option<Version> {
        self.resolve_handler(name).map(|(version, _)| version)
    }

    /// The handler of exactly this version, whatever the policy says.
    #[must_use]
    pub fn resolve_handler_exact(&self, name: &str, version: &Version) -> Option<Arc<H>> {
        let found = self.handlers.get(name).and_then(|vs| vs.get(version));
        if found.is_none() {
            self.note_miss(name, &version.to_string());
        }
        found.cloned()
    }

    /// The handler that a history or message names by its version's text.
    pub(crate) fn resolve_recorded(&self, name: &str, version: &str) -> Option<(Version, Arc<H>)> {
        if Defect::LatestVersionReplays.is_on() {
            return self.resolve_handler(name);
        }
        let version = Version::parse(version).ok()?;
        let handler = self.resolve_handler_exact(name, &version)?;
        Some((version, handler))
    }

    /// The handler that a start asks for: of the version it names, or of the one that the policy chooses.
    pub(crate) fn resolve_start(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Option<(Version, Arc<H>)> {
        match version {
            Some(version) => self.resolve_recorded(name, version),
            None => self.resolve_handler(name),
        }
    }

    /// Changes the policy of a name, at once and for all clones, running runtimes included.
    pub fn set_version_policy(&self, name: &str, policy: VersionPolicy) {
        self.policies
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), policy);
    }

    /// All names, in no particular order.
    #[must_use]
    pub fn list_names(&self) -> Vec<String> {
        self.handlers.keys().cloned().collect()
    }

    /// All versions of a name, ascending.
    #[must_use]
    pub fn list_versions(&self, name: &str) -> Vec<Version> {
        self.handlers
            .get(name)
            .map(|versions| versions.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Whether a name is registered.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.handlers.contains_key(name)
    }

    /// How many names are registered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.handlers.len()
    }

    fn policy(&self, name: &str) -> VersionPolicy {
        self.policies
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
            .unwrap_or(VersionPolicy::Latest)
    }

    fn note_miss(&self, name: &str, version: &str) {
        tracing::debug!(
            target: "duroxide::runtime::registry",
            name,
            version,
            registered = ?self,
            "no handler registered"
        );
    }
}

impl<H: ?Sized> Clone for Registry<H> {
    fn clone(&self) -> Self {
        Self {
            handlers: Arc::clone(&self.handlers),
            policies: Arc::clone(&self.policies),
        }
    }
}

impl<H: ?Sized> Default for Registry<H> {
    fn default() -> Self {
        Self {
            handlers: Arc::default(),
            policies: Arc::default(),
        }
    }
}

impl<H: ?Sized> fmt::Debug for Registry<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: BTreeMap<&String, Vec<String>> = self
            .handlers
            .iter()
            .map(|(name, versions)| (name, versions.keys().map(ToString::to_string).collect()))
            .collect();
        f.debug_map().entries(names).finish()
    }
}
