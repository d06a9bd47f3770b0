//! What activities do in a test: the real thing, a stub, or a failure at a certain call.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use duroxide_runtime::registry::ActivityRegistry;
use duroxide_runtime::{ActivityContext, ActivityHandler};

/// One call of an activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityCall {
    /// Registered name.
    pub name: String,
    /// How many calls of this name there were, this one included.
    pub number: u32,
    /// Who scheduled it.
    pub instance_id: String,
    /// Its input.
    pub input: String,
}

type Stub = Arc<dyn Fn(&ActivityCall) -> Result<String, String> + Send + Sync>;

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
    calls: Mutex<Vec<ActivityCall>>,
}

impl Script {
    pub(crate) fn stub(
        &mut self,
        name: &str,
        stub: impl Fn(&ActivityCall) -> Result<String, String> + Send + Sync + 'static,
    ) {
        self.parts.entry(name.to_owned()).or_default().stub = Some(Arc::new(stub));
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
            (Some(stub), _) => stub(&call),
            (None, Some(real)) => real.invoke(ctx, input).await,
            (None, None) => Err(format!(
                "activity '{}' has neither a stub nor a real handler",
                call.name
            )),
        }
    }
}
