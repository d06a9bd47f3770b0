//! Collecting handlers. Mistakes are collected too, and reported together by `build_result`.

use std::collections::HashMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use semver::Version;

use super::{Registry, VersionPolicy, Versions};

/// Collects handlers for a [`Registry`].
pub struct RegistryBuilder<H: ?Sized> {
    handlers: HashMap<String, Versions<H>>,
    policies: HashMap<String, VersionPolicy>,
    errors: Vec<String>,
}

impl<H: ?Sized> RegistryBuilder<H> {
    pub(super) fn of(registry: &Registry<H>) -> Self {
        let policies = registry
            .policies
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        Self {
            handlers: HashMap::clone(&registry.handlers),
            policies,
            errors: Vec::new(),
        }
    }

    /// The registry. Registrations that were refused are logged as errors; see
    /// [`build_result`](Self::build_result) to fail instead.
    #[must_use]
    pub fn build(self) -> Registry<H> {
        for error in &self.errors {
            tracing::error!(target: "duroxide::runtime::registry", "registration ignored: {error}");
        }
        self.into_registry()
    }

    /// The registry, or every refused registration.
    ///
    /// # Errors
    ///
    /// All mistakes, joined with `"; "`.
    pub fn build_result(self) -> Result<Registry<H>, String> {
        if self.errors.is_empty() {
            Ok(self.into_registry())
        } else {
            Err(self.errors.join("; "))
        }
    }

    fn into_registry(self) -> Registry<H> {
        Registry {
            handlers: Arc::new(self.handlers),
            policies: Arc::new(RwLock::new(self.policies)),
        }
    }

    /// Adds all handlers and policies of another registry; `noun` names what they are in errors.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "the published signature")]
    pub fn merge_registry(mut self, other: Registry<H>, noun: &str) -> Self {
        for (name, versions) in other.handlers.iter() {
            for (version, handler) in versions {
                let mine = self.handlers.entry(name.clone()).or_default();
                if mine.contains_key(version) {
                    self.errors
                        .push(format!("duplicate {noun} in merge: {name}@{version}"));
                } else {
                    mine.insert(version.clone(), Arc::clone(handler));
                }
            }
        }
        let theirs = Self::of(&other).policies;
        for (name, policy) in theirs {
            match self.policies.get(&name) {
                Some(mine) if !same_policy(mine, &policy) => self.errors.push(format!(
                    "conflicting {noun} version policy in merge: {name}"
                )),
                _ => {
                    self.policies.insert(name, policy);
                }
            }
        }
        self
    }

    /// Adds all that another builder has, its mistakes too; `noun` names what they are in errors.
    pub(super) fn with_all_of(mut self, mut other: Self, noun: &str) -> Self {
        self.errors.append(&mut other.errors);
        self.merge_registry(other.into_registry(), noun)
    }

    /// Registers many handlers with one function.
    #[must_use]
    pub fn register_all_handlers<F: Clone>(
        self,
        items: Vec<(&str, F)>,
        register_fn: impl Fn(Self, &str, F) -> Self,
    ) -> Self {
        items
            .into_iter()
            .fold(self, |builder, (name, f)| register_fn(builder, name, f))
    }

    /// Takes all versions of a name out again; its policy stays.
    ///
    /// ```
    /// use duroxide::{OrchestrationContext, OrchestrationRegistry};
    ///
    /// async fn hello(_: OrchestrationContext, name: String) -> Result<String, String> {
    ///     Ok(name)
    /// }
    ///
    /// let all = OrchestrationRegistry::builder().register("hello", hello).build();
    /// assert!(!OrchestrationRegistry::builder_from(&all).without("hello").build().has("hello"));
    /// ```
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.handlers.remove(name);
        self
    }

    /// Adds a handler unless the name has this version already.
    pub(super) fn add(&mut self, noun: &str, name: &str, version: Version, handler: Arc<H>) {
        match self
            .handlers
            .entry(name.to_owned())
            .or_default()
            .entry(version)
        {
            Entry::Vacant(place) => {
                place.insert(handler);
            }
            Entry::Occupied(taken) => {
                let error = format!("duplicate {noun} registration: {name}@{}", taken.key());
                self.refuse(error);
            }
        }
    }

    pub(super) fn refuse(&mut self, error: String) {
        self.errors.push(error);
    }

    pub(super) fn latest(&self, name: &str) -> Option<&Version> {
        self.handlers
            .get(name)
            .and_then(|versions| versions.keys().next_back())
    }

    pub(super) fn choose(&mut self, name: String, policy: VersionPolicy) {
        self.policies.insert(name, policy);
    }
}

fn same_policy(a: &VersionPolicy, b: &VersionPolicy) -> bool {
    match (a, b) {
        (VersionPolicy::Latest, VersionPolicy::Latest) => true,
        (VersionPolicy::Exact(a), VersionPolicy::Exact(b)) => a == b,
        (VersionPolicy::Latest, VersionPolicy::Exact(_))
        | (VersionPolicy::Exact(_), VersionPolicy::Latest) => false,
    }
}

impl<H: ?Sized> Default for RegistryBuilder<H> {
    fn default() -> Self {
        Self {
            handlers: HashMap::new(),
            policies: HashMap::new(),
            errors: Vec::new(),
        }
    }
}

impl<H: ?Sized> fmt::Debug for RegistryBuilder<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryBuilder")
            .field("names", &self.handlers.len())
            .field("errors", &self.errors)
            .finish_non_exhaustive()
    }
}
