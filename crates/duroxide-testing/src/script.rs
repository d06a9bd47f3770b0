//! What activities do in a test: the real thing, a stub, or a failure at a certain call.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use duroxide_core::OrchestrationContext;
use duroxide_runtime::registry::{ActivityRegistry, OrchestrationRegistry};
use duroxide_runtime::{ActivityContext, ActivityHandler};

/// One call of an activity.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActivityCall {
    /// Registered name.
    pub name: String,
    /// Number of calls of this name, this one included.
    pub number: u32,
    /// Instance that scheduled it.
    pub instance_id: String,
    /// Its input.
    pub input: String,
    /// Number of this attempt of the call, counted from 1: a worker died, or lost its lease, in those before.
    pub attempt: u32,
    /// The tag that routed it.
    pub tag: Option<String>,
    /// The session it belongs to.
    pub session_id: Option<String>,
    /// Name of the worker that runs it.
    pub worker_id: String,
}

type Answer = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;
type Stub = Arc<dyn Fn(ActivityCall) -> Answer + Send + Sync>;
type ChildStub = Arc<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// What one activity does.
#[derive(Default, Clone)]
struct Part {
    stub: Option<Stub>,
    failures: BTreeMap<u32, String>,
}

/// What all activities do, and what they were asked.
#[derive(Default)]
pub(crate) struct Script {
    parts: HashMap<String, Part>,
    children: HashMap<String, ChildStub>,
    calls: Mutex<Vec<ActivityCall>>,
}

impl Script {
    pub(crate) fn stub(
        &mut self,
        name: &str,
        stub: impl Fn(&ActivityCall) -> Result<String, String> + Send + Sync + 'static,
    ) {
        self.stub_async(name, move |call| std::future::ready(stub(&call)));
    }

    pub(crate) fn stub_async<Fut>(
        &mut self,
        name: &str,
        stub: impl Fn(ActivityCall) -> Fut + Send + Sync + 'static,
    ) where
        Fut: Future<Output = Result<String, String>> + Send + 'static,
    {
        let stub: Stub = Arc::new(move |call| Box::pin(stub(call)));
        self.parts.entry(name.to_owned()).or_default().stub = Some(stub);
    }

    pub(crate) fn stub_child(
        &mut self,
        name: &str,
        stub: impl Fn(&str) -> Result<String, String> + Send + Sync + 'static,
    ) {
        self.children.insert(name.to_owned(), Arc::new(stub));
    }

    /// A registry in which stubs take the place of orchestrations, in all their versions.
    pub(crate) fn stage_children(&self, real: &OrchestrationRegistry) -> OrchestrationRegistry {
        let mut staged = OrchestrationRegistry::builder_from(real);
        let mut names: Vec<&String> = self.children.keys().collect();
        names.sort();
        for name in names {
            let versions = real.list_versions(name).into_iter();
            let mut versions: Vec<String> = versions.map(|version| version.to_string()).collect();
            if versions.is_empty() {
                versions.push("1.0.0".to_owned());
            }
            staged = staged.without(name);
            for version in versions {
                let stub = Arc::clone(&self.children[name]);
                let handler =
                    move |_: OrchestrationContext, input: String| std::future::ready(stub(&input));
                staged = staged.register_versioned(name.clone(), version, handler);
            }
        }
        staged
            .build_result()
            .unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    pub(crate) fn fail(&mut self, name: &str, call: u32, error: &str) {
        self.parts
            .entry(name.to_owned())
            .or_default()
            .failures
            .insert(call, error.to_owned());
    }

    pub(crate) fn calls(&self, name: &str) -> Vec<ActivityCall> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .filter(|call| call.name == name)
            .cloned()
            .collect()
    }

    fn note(&self, name: &str, ctx: &ActivityContext, input: &str) -> ActivityCall {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let before = calls.iter().filter(|call| call.name == name).count();
        let call = ActivityCall {
            name: name.to_owned(),
            number: u32::try_from(before + 1).unwrap_or(u32::MAX),
            instance_id: ctx.instance_id().to_owned(),
            input: input.to_owned(),
            attempt: ctx.attempt(),
            tag: ctx.tag().map(str::to_owned),
            session_id: ctx.session_id().map(str::to_owned),
            worker_id: ctx.worker_id().to_owned(),
        };
        calls.push(call.clone());
        call
    }

    /// A registry in which every activity plays its part and every call is noted.
    pub(crate) fn stage(script: &Arc<Self>, real: &ActivityRegistry) -> ActivityRegistry {
        let mut names: Vec<String> = real.list_names();
        names.extend(script.parts.keys().cloned());
        names.sort();
        names.dedup();
        let mut builder = ActivityRegistry::builder();
        for name in names {
            let real = real.resolve_handler(&name).map(|(_, handler)| handler);
            let (script, part) = (
                Arc::clone(script),
                script.parts.get(&name).cloned().unwrap_or_default(),
            );
            let known = name.clone();
            builder = builder.register(name, move |ctx: ActivityContext, input: String| {
                let call = script.note(&known, &ctx, &input);
                let (part, real) = (part.clone(), real.clone());
                async move { part.play(call, real, ctx, input).await }
            });
        }
        builder.build()
    }
}

impl Part {
    async fn play(
        self,
        call: ActivityCall,
        real: Option<Arc<dyn ActivityHandler>>,
        ctx: ActivityContext,
        input: String,
    ) -> Result<String, String> {
        if let Some(error) = self.failures.get(&call.number) {
            return Err(error.clone());
        }
        match (self.stub, real) {
            (Some(stub), _) => stub(call).await,
            (None, Some(real)) => real.invoke(ctx, input).await,
            (None, None) => Err(format!(
                "activity '{}' has neither a stub nor a real handler",
                call.name
            )),
        }
    }
}
