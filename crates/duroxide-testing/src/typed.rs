//! The harness by definitions: stubs, runs and calls that are checked at compile time.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{
    Activity, Arguments, Inputs, Orchestration, OrchestrationError, Payload, ToActivity,
    ToOrchestration, Undecodable, codec,
};
use duroxide_runtime::{ActivityContext, Handlers, OrchestrationStatus};
use duroxide_store::MemoryProvider;
use serde::Serialize;

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
            stored(stub(decoded(&call.name, &call.input)?))
        });
        self
    }

    /// Replaces an activity, by its definition, by anything that takes its time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use duroxide::prelude::*;
    /// use duroxide::testing::{Harness, block_on};
    ///
    /// #[duroxide::activity]
    /// async fn translate(text: String) -> Result<String, String> {
    ///     Err(format!("nobody translates {text} here"))
    /// }
    ///
    /// #[duroxide::orchestration]
    /// async fn letter(ctx: OrchestrationContext, text: String) -> Result<String, String> {
    ///     let hour = Duration::from_secs(3_600);
    ///     match ctx.timeout(hour, ctx.call(translate, &text)).await {
    ///         Ok(translated) => Ok(translated?),
    ///         Err(_too_late) => Ok(text),
    ///     }
    /// }
    ///
    /// block_on(async {
    ///     let mut harness = Harness::builder()
    ///         .handlers(Handlers::new().register(translate).register(letter))
    ///         .stub_async_of(translate, |text| async move {
    ///             tokio::time::sleep(Duration::from_secs(7_200)).await;
    ///             Ok(format!("{text}, translated"))
    ///         })
    ///         .start()
    ///         .await;
    ///     assert_eq!(harness.execute(letter, "good morning").await, Ok("good morning".to_owned()));
    /// });
    /// ```
    pub fn stub_async_of<Via, T, A, Fut>(
        mut self,
        activity: T,
        stub: impl Fn(A::Input) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        T: ToActivity<Via, Activity = A>,
        A: Activity,
        Fut: Future<Output = Result<A::Output, A::Error>> + Send + 'static,
    {
        let name = activity.to_activity().name();
        self.script.stub_async(name, move |call| {
            let answering = decoded(&call.name, &call.input).map(&stub);
            async move {
                match answering {
                    Ok(answer) => stored(answer.await),
                    Err(misfit) => Err(misfit),
                }
            }
        });
        self
    }

    /// Fails the n-th call of an activity, counted from 1, with an error of its own type. Other calls are not touched.
    ///
    /// ```
    /// use duroxide::prelude::*;
    /// use duroxide::testing::{Harness, block_on};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Debug, Serialize, Deserialize)]
    /// enum BankError {
    ///     Busy,
    ///     Declined,
    /// }
    ///
    /// impl Retryable for BankError {
    ///     fn is_retryable(&self) -> bool {
    ///         matches!(self, Self::Busy)
    ///     }
    /// }
    ///
    /// #[duroxide::activity]
    /// async fn charge(cents: u64) -> Result<u64, BankError> {
    ///     if cents == 0 { Err(BankError::Declined) } else { Ok(cents) }
    /// }
    ///
    /// #[duroxide::orchestration]
    /// async fn pay(ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
    ///     let paid = ctx.call(charge, cents).retry(RetryPolicy::exponential(3)).await;
    ///     paid.map_err(|error| format!("{error:?}"))
    /// }
    ///
    /// block_on(async {
    ///     let code = || Handlers::new().register(charge).register(pay);
    ///     let busy = Harness::builder().handlers(code()).fail_of(charge, 1, BankError::Busy);
    ///     assert_eq!(busy.start().await.execute(pay, 5).await, Ok(5)); // the second attempt was taken
    ///
    ///     let declined = Harness::builder().handlers(code()).fail_of(charge, 1, BankError::Declined);
    ///     assert!(declined.start().await.execute(pay, 5).await.is_err()); // nobody tries that again
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// When the error does not encode.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers write the error in place"
    )]
    pub fn fail_of<Via, T, A>(mut self, activity: T, call: u32, error: A::Error) -> Self
    where
        T: ToActivity<Via, Activity = A>,
        A: Activity,
    {
        let name = activity.to_activity().name();
        let error = codec::encode(&error).unwrap_or_else(|misfit| panic!("{misfit}"));
        self.script.fail(name, call, &error);
        self
    }

    /// Replaces an orchestration, in all its versions, by its definition: a child whose code is not under test.
    ///
    /// ```
    /// use duroxide::prelude::*;
    /// use duroxide::testing::{Harness, block_on};
    ///
    /// const SHIPPING: OrchestrationRef<String, u32> = OrchestrationRef::new("shipping");
    ///
    /// #[duroxide::orchestration]
    /// async fn order(ctx: OrchestrationContext, item: String) -> Result<u32, String> {
    ///     Ok(ctx.child(SHIPPING, &item).await.map_err(|error| error.to_string())?)
    /// }
    ///
    /// block_on(async {
    ///     let mut harness = Harness::builder()
    ///         .handlers(Handlers::new().register(order))
    ///         .stub_child_of(SHIPPING, |item| Ok(u32::try_from(item.len()).unwrap_or(0)))
    ///         .start()
    ///         .await;
    ///     assert_eq!(harness.execute(order, "piano").await, Ok(5));
    /// });
    /// ```
    pub fn stub_child_of<Via, T, O>(
        mut self,
        orchestration: T,
        stub: impl Fn(O::Input) -> Result<O::Output, O::Error> + Send + Sync + 'static,
    ) -> Self
    where
        T: ToOrchestration<Via, Orchestration = O>,
        O: Orchestration,
    {
        let name = orchestration.to_orchestration().name();
        self.script
            .stub_child(name, move |input| stored(stub(decoded(name, input)?)));
        self
    }
}

/// The input of a stub, or why it does not decode.
fn decoded<I: Payload>(name: &str, input: &str) -> Result<I, String> {
    Inputs::decode(input).map_err(|e| format!("the input of '{name}' does not decode: {e}"))
}

/// What a handler with this result leaves.
fn stored<O: Payload, E: Payload>(result: Result<O, E>) -> Result<String, String> {
    match result {
        Ok(output) => codec::encode(&output),
        Err(error) => Err(codec::encode(&error)?),
    }
}

impl Harness {
    /// Starts an orchestration by its definition and waits for its end, however long it sleeps. Then every turn of it,
    /// and of its children, is executed again, many times, and must decide the same.
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

    /// Sends a message after a time, as [`Client::send`](duroxide_runtime::Client::send) does. The test fails if it is
    /// refused.
    ///
    /// ```
    /// use std::time::Duration;
    /// use duroxide::prelude::*;
    /// use duroxide::testing::{Harness, block_on};
    ///
    /// #[duroxide::orchestration]
    /// async fn approval(ctx: OrchestrationContext) -> Result<bool, String> {
    ///     Ok(ctx.receive::<bool>("approved").await?)
    /// }
    ///
    /// block_on(async {
    ///     let mut harness = Harness::builder().handlers(Handlers::new().register(approval)).start().await;
    ///     let order = harness.client().start(approval, ()).id("order-7").await.unwrap();
    ///     harness.send_after(Duration::from_secs(3_600), "order-7", "approved", true);
    ///     harness.wait("order-7").await;
    ///     assert_eq!(order.result().await.unwrap(), true);
    /// });
    /// ```
    pub fn send_after<T>(&self, delay: Duration, instance: &str, queue: &str, message: T)
    where
        T: Serialize + Send + Sync + 'static,
    {
        let (instance, queue) = (instance.to_owned(), queue.to_owned());
        self.after(delay, move |client| async move {
            let sent = client.send(&instance, &queue, &message).await;
            sent.unwrap_or_else(|error| panic!("{error}"));
        });
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
