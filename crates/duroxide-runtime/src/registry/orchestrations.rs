//! Registering orchestrations.

use std::sync::Arc;

use duroxide_core::{FnOrchestration, OrchestrationContext, OrchestrationHandler, codec};
use semver::Version;
use serde::{Serialize, de::DeserializeOwned};

use super::{DEFAULT_VERSION, OrchestrationRegistry, RegistryBuilder, VersionPolicy};

const NOUN: &str = "orchestration";

impl RegistryBuilder<dyn OrchestrationHandler> {
    /// Registers an orchestration as version 1.0.0.
    #[must_use]
    pub fn register<F, Fut>(mut self, name: impl Into<String>, f: F) -> Self
    where
        F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.add(
            NOUN,
            &name.into(),
            DEFAULT_VERSION,
            Arc::new(FnOrchestration(f)),
        );
        self
    }

    /// Registers an orchestration with typed input and output as version 1.0.0.
    #[must_use]
    pub fn register_typed<In, Out, F, Fut>(mut self, name: impl Into<String>, f: F) -> Self
    where
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
        F: Fn(OrchestrationContext, In) -> Fut + Send + Sync + Clone + 'static,
        Fut: Future<Output = Result<Out, String>> + Send + 'static,
    {
        self.add(NOUN, &name.into(), DEFAULT_VERSION, typed(f));
        self
    }

    /// Registers a version of an orchestration. It must be later than those present.
    #[must_use]
    pub fn register_versioned<F, Fut>(
        mut self,
        name: impl Into<String>,
        version: impl AsRef<str>,
        f: F,
    ) -> Self
    where
        F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.add_version(&name.into(), version.as_ref(), Arc::new(FnOrchestration(f)));
        self
    }

    /// Registers a version of a typed orchestration. It must be later than those present.
    #[must_use]
    pub fn register_versioned_typed<In, Out, F, Fut>(
        mut self,
        name: impl Into<String>,
        version: impl AsRef<str>,
        f: F,
    ) -> Self
    where
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
        F: Fn(OrchestrationContext, In) -> Fut + Send + Sync + Clone + 'static,
        Fut: Future<Output = Result<Out, String>> + Send + 'static,
    {
        self.add_version(&name.into(), version.as_ref(), typed(f));
        self
    }

    /// Registers several orchestrations of one closure type as version 1.0.0.
    #[must_use]
    pub fn register_all<F, Fut>(self, items: Vec<(&str, F)>) -> Self
    where
        F: Fn(OrchestrationContext, String) -> Fut + Send + Sync + Clone + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.register_all_handlers(items, |builder, name, f| builder.register(name, f))
    }

    /// Chooses which version of a name starts without one get.
    #[must_use]
    pub fn set_policy(mut self, name: impl Into<String>, policy: VersionPolicy) -> Self {
        self.choose(name.into(), policy);
        self
    }

    /// Adds all orchestrations and policies of another registry.
    #[must_use]
    pub fn merge(self, other: OrchestrationRegistry) -> Self {
        self.merge_registry(other, NOUN)
    }

    /// Adds all that another builder has.
    pub(crate) fn and(self, other: Self) -> Self {
        self.with_all_of(other, NOUN)
    }

    /// Adds an orchestration by its definition, in any order of versions.
    pub(crate) fn with_definition(
        mut self,
        name: &str,
        version: Option<&str>,
        handler: Arc<dyn OrchestrationHandler>,
    ) -> Self {
        match version.map_or(Ok(DEFAULT_VERSION), Version::parse) {
            Ok(version) => self.add(NOUN, name, version, handler),
            Err(e) => {
                let version = version.unwrap_or_default();
                self.refuse(format!(
                    "invalid orchestration version for {name}: '{version}' is not semver: {e}"
                ));
            }
        }
        self
    }

    fn add_version(&mut self, name: &str, version: &str, handler: Arc<dyn OrchestrationHandler>) {
        let version = match Version::parse(version) {
            Ok(version) => version,
            Err(e) => {
                self.refuse(format!(
                    "invalid orchestration version for {name}: '{version}' is not semver: {e}"
                ));
                return;
            }
        };
        if self.latest(name) == Some(&version) {
            self.add(NOUN, name, version, handler);
            return;
        }
        match self.latest(name) {
            Some(latest) if &version < latest => {
                let error = format!(
                    "non-monotonic orchestration version for {name}: {version} is not later than existing latest {latest}"
                );
                self.refuse(error);
            }
            _ => self.add(NOUN, name, version, handler),
        }
    }
}

fn typed<In, Out, F, Fut>(f: F) -> Arc<dyn OrchestrationHandler>
where
    In: DeserializeOwned + Send + 'static,
    Out: Serialize + Send + 'static,
    F: Fn(OrchestrationContext, In) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output = Result<Out, String>> + Send + 'static,
{
    Arc::new(FnOrchestration(
        move |ctx: OrchestrationContext, input: String| {
            let f = f.clone();
            async move {
                let input = codec::decode(&input)
                    .map_err(|e| format!("the input of the orchestration does not decode: {e}"))?;
                codec::encode(&f(ctx, input).await?)
            }
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::OrchestrationRegistryBuilder;

    async fn noop(_ctx: OrchestrationContext, input: String) -> Result<String, String> {
        Ok(input)
    }

    fn errors(builder: OrchestrationRegistryBuilder) -> String {
        builder.build_result().map(|_| ()).unwrap_err()
    }

    #[test]
    fn a_typed_duplicate_is_refused_like_any_other() {
        async fn typed_noop(_ctx: OrchestrationContext, n: u32) -> Result<u32, String> {
            Ok(n)
        }
        let builder = OrchestrationRegistry::builder()
            .register("a", noop)
            .register_typed("a", typed_noop);
        assert!(errors(builder).contains("duplicate orchestration registration: a@1.0.0"));
    }

    #[test]
    fn an_older_or_invalid_version_is_refused_without_a_panic() {
        let builder = OrchestrationRegistry::builder()
            .register_versioned("a", "2.0.0", noop)
            .register_versioned("a", "1.0.0", noop)
            .register_versioned("b", "two", noop);
        let text = errors(builder);
        assert!(
            text.contains("non-monotonic orchestration version for a"),
            "{text}"
        );
        assert!(text.contains("'two' is not semver"), "{text}");
    }

    #[test]
    fn merging_keeps_policies_and_reports_conflicts() {
        let one = OrchestrationRegistry::builder()
            .register("a", noop)
            .register_versioned("a", "2.0.0", noop)
            .set_policy("a", VersionPolicy::Exact(DEFAULT_VERSION))
            .build();
        let merged = OrchestrationRegistry::builder().merge(one.clone()).build();
        assert_eq!(merged.resolve_version("a"), Some(DEFAULT_VERSION));
        let conflicting = OrchestrationRegistry::builder()
            .set_policy("a", VersionPolicy::Latest)
            .merge(one);
        assert!(errors(conflicting).contains("conflicting orchestration version policy"));
    }
}
