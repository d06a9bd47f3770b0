//! The harness by definitions: stubs, runs and calls that are checked at compile time.

use std::sync::Arc;

use duroxide_core::{
    Activity, Arguments, Inputs, Orchestration, OrchestrationError, ToActivity, ToOrchestration,
    Undecodable, codec,
};
use duroxide_runtime::{ActivityContext, Handlers, OrchestrationStatus};
use duroxide_store::MemoryProvider;

use crate::builder::HarnessBuilder;
use crate::harness::Harness;

/// A context for unit tests that call an activity as the function it is; see
/// [`ActivityContext::for_unit_test`].
#[must_use]
pub fn activity_context<Via>(activity: impl ToActivity<Via>) -> ActivityContext {
    let name = activity.to_activity().name();
    ActivityContext::for_unit_test(name, Arc::new(MemoryProvider::new()))
}

impl HarnessBuilder {
    /// The code under test, as the program has it.
    ///
    /// # Panics
    ///
    /// When the code is not complete, or contradicts itself.
    pub fn handlers(mut self, handlers: Handlers) -> Self {
        let (activities, orchestrations) = handlers
            .build()
            .unwrap_or_else(|mistakes| panic!("{mistakes}"));
        self.activities = activities;
        self.orchestrations = orchestrations;
        self
    }

    /// Replaces an activity, by its definition.
    ///
    /// # Panics
    ///
    /// When it is called with an input that does not decode, or its answer does not encode.
    pub fn stub_of<Via, T, A>(
        mut self,
        activity: T,
        stub: impl Fn(A::Input) -> Result<A::Output, A::Error> + Send + Sync + 'static,
    ) -> Self
    where
        T: ToActivity<Via, Activity = A>,
        A: Activity,
    {
        let name = activity.to_activity().name();
        self.script.stub(name, move |call| {
            let input = Inputs::decode(&call.input)
                .map_err(|e| format!("the input of '{}' does not decode: {e}", call.name))?;
            match stub(input) {
                Ok(output) => codec::encode(&output),
                Err(error) => Err(codec::encode(&error)?),
            }
        });
        self
    }
}

impl Harness {
    /// Starts an orchestration by its definition and waits for its end, however long it sleeps. Then every turn of it, and
    /// of its children, is executed again, many times, and must decide the same.
    ///
    /// # Errors
    ///
    /// How it ended without a value.
    ///
    /// # Panics
    ///
    /// If it does not end, or if a turn decides something else when it is run again.
    pub async fn execute<Via, T, O>(
        &mut self,
        orchestration: T,
        input: impl Arguments<O::Input>,
    ) -> Result<O::Output, OrchestrationError<O::Error>>
    where
        T: ToOrchestration<Via, Orchestration = O>,
        O: Orchestration,
    {
        self.runs += 1;
        let id = format!("run-{}", self.runs);
        let started = self.client().start(orchestration, input).id(&id).await;
        started.unwrap_or_else(|error| panic!("{error}"));
        let status = self.wait(&id).await;
        self.assert_tree_deterministic(&id).await;
        match status {
            OrchestrationStatus::Completed { output: text, .. } => codec::decode(&text)
                .map_err(|error| OrchestrationError::Undecodable(Undecodable { text, error })),
            OrchestrationStatus::Failed { details, .. } => Err(OrchestrationError::of(details)),
            OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. } => {
                unreachable!("the wait ended with the instance")
            }
        }
    }

    /// Inputs of an activity so far, in the order of its calls.
    ///
    /// # Panics
    ///
    /// If one does not decode.
    #[must_use]
    pub fn inputs_of<Via, T, A>(&self, activity: T) -> Vec<A::Input>
    where
        T: ToActivity<Via, Activity = A>,
        A: Activity,
    {
        let calls = self.calls(activity.to_activity().name()).into_iter();
        calls
            .map(|call| Inputs::decode(&call.input).unwrap_or_else(|error| panic!("{error}")))
            .collect()
    }
}
