//! Registering activities.

use std::sync::Arc;

use duroxide_core::codec;
use duroxide_core::replay::SYSCALL_PREFIX;
use serde::{Serialize, de::DeserializeOwned};

use super::{ActivityRegistry, DEFAULT_VERSION, RegistryBuilder};
use crate::activity::{ActivityContext, ActivityHandler, FnActivity};

const NOUN: &str = "activity";

impl RegistryBuilder<dyn ActivityHandler> {
    /// Registers an activity.
    #[must_use]
    pub fn register<F, Fut>(mut self, name: impl Into<String>, f: F) -> Self
    where
        F: Fn(ActivityContext, String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.add_activity(&name.into(), Arc::new(FnActivity(f)));
        self
    }

    /// Registers an activity with typed input and output.
    #[must_use]
    pub fn register_typed<In, Out, F, Fut>(mut self, name: impl Into<String>, f: F) -> Self
    where
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
        F: Fn(ActivityContext, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, String>> + Send + 'static,
    {
        let (name, f) = (name.into(), Arc::new(f));
        let named = name.clone();
        let handler = FnActivity(move |ctx: ActivityContext, input: String| {
            let f = Arc::clone(&f);
            let decoded = codec::decode(&input)
                .map_err(|e| format!("the input of activity '{named}' does not decode: {e}"));
            async move {
                let input = decoded?;
                codec::encode(&f(ctx, input).await?)
            }
        });
        self.add_activity(&name, Arc::new(handler));
        self
    }

    /// Registers several activities of one closure type.
    #[must_use]
    pub fn register_all<F, Fut>(self, items: Vec<(&str, F)>) -> Self
    where
        F: Fn(ActivityContext, String) -> Fut + Send + Sync + Clone + 'static,
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.register_all_handlers(items, |builder, name, f| builder.register(name, f))
    }

    /// Adds all activities of another registry.
    #[must_use]
    pub fn merge(self, other: ActivityRegistry) -> Self {
        self.merge_registry(other, NOUN)
    }

    /// Adds all that another builder has.
    pub(crate) fn and(self, other: Self) -> Self {
        self.with_all_of(other, NOUN)
    }

    /// The older name of [`Registry::builder_from`](super::Registry::builder_from).
    #[must_use]
    pub fn from_registry(registry: &ActivityRegistry) -> Self {
        Self::of(registry)
    }

    /// Adds an activity by its definition.
    pub(crate) fn with_definition(mut self, name: &str, handler: Arc<dyn ActivityHandler>) -> Self {
        self.add_activity(name, handler);
        self
    }

    /// Adds an activity of the engine itself, under a reserved name.
    pub(crate) fn with_built_in(mut self, name: &str, handler: Arc<dyn ActivityHandler>) -> Self {
        self.add(NOUN, name, DEFAULT_VERSION, handler);
        self
    }

    fn add_activity(&mut self, name: &str, handler: Arc<dyn ActivityHandler>) {
        if name.starts_with(SYSCALL_PREFIX) {
            self.refuse(format!(
                "activity name '{name}' uses reserved prefix '{SYSCALL_PREFIX}'"
            ));
        } else {
            self.add(NOUN, name, DEFAULT_VERSION, handler);
        }
    }
}
