//! The code of a program: definitions with their bodies, and the state they share. In: what the author registers. Out:
//! two registries, or every mistake at once. A program and its tests can build the same collection.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use duroxide_core::{
    Activity, Inputs, Misfit, Orchestration, OrchestrationBody, OrchestrationContext, ToActivity,
    ToOrchestration, TypedOrchestration, codec,
};

use crate::activity::{ActivityContext, ActivityHandler};
use crate::declared::Declared;
use crate::registry::{
    ActivityRegistry, ActivityRegistryBuilder, OrchestrationRegistry, OrchestrationRegistryBuilder,
};
use crate::state::{Needed, States};

/// The code of an [`Activity`].
pub trait ActivityBody: Activity {
    /// State that it asks for.
    fn needs() -> Vec<Needed> {
        Vec::new()
    }

    /// Runs it.
    fn run(
        &self,
        ctx: ActivityContext,
        states: &States,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send + 'static;
}

/// The code of an [`Activity`] as an [`ActivityHandler`]: input, output and error travel as text.
#[derive(Debug, Clone)]
pub struct TypedActivity<A> {
    activity: A,
    states: Arc<States>,
}

#[async_trait]
impl<A: ActivityBody> ActivityHandler for TypedActivity<A> {
    async fn invoke(&self, ctx: ActivityContext, input: String) -> Result<String, String> {
        let name = self.activity.name();
        let input =
            Inputs::decode(&input).map_err(|error| Misfit::Input.of_activity(name, &error))?;
        match self.activity.run(ctx, &self.states, input).await {
            Ok(output) => {
                codec::encode(&output).map_err(|error| Misfit::Output.of_activity(name, &error))
            }
            Err(error) => Err(codec::encode(&error)
                .unwrap_or_else(|error| Misfit::Error.of_activity(name, &error))),
        }
    }
}

/// A definition with a function as its body; see [`activity_fn`] and [`orchestration_fn`].
#[derive(Clone)]
pub struct Code<D, F> {
    definition: D,
    body: F,
}

impl<D: fmt::Debug, F> fmt::Debug for Code<D, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Code").field(&self.definition).finish()
    }
}

/// An activity with a function as its body, without any macro.
///
/// ```
/// use duroxide::{ActivityContext, ActivityRef, Handlers, activity_fn};
///
/// const MEASURE: ActivityRef<String, usize> = ActivityRef::new("measure");
///
/// async fn measure(_ctx: ActivityContext, text: String) -> Result<usize, String> {
///     Ok(text.len())
/// }
///
/// let handlers = Handlers::new().register(activity_fn(MEASURE, measure));
/// assert!(handlers.build().is_ok());
/// ```
pub fn activity_fn<A, F, Fut>(definition: A, body: F) -> Code<A, F>
where
    A: Activity,
    F: Fn(ActivityContext, A::Input) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<A::Output, A::Error>> + Send + 'static,
{
    Code { definition, body }
}

/// An orchestration with a function as its body, without any macro.
///
/// ```
/// use duroxide::{Handlers, OrchestrationContext, OrchestrationRef, orchestration_fn};
///
/// const DOUBLE: OrchestrationRef<u64, u64> = OrchestrationRef::new("double");
///
/// let double = orchestration_fn(DOUBLE, |_ctx: OrchestrationContext, n: u64| async move { Ok(2 * n) });
/// assert!(Handlers::new().register(double).build().is_ok());
/// ```
pub fn orchestration_fn<O, F, Fut>(definition: O, body: F) -> Code<O, F>
where
    O: Orchestration,
    F: Fn(OrchestrationContext, O::Input) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O::Output, O::Error>> + Send + 'static,
{
    Code { definition, body }
}

impl<A: Activity, F: Clone + Send + Sync + 'static> Activity for Code<A, F> {
    type Input = A::Input;
    type Output = A::Output;
    type Error = A::Error;

    fn name(&self) -> &'static str {
        self.definition.name()
    }

    fn is_retryable(error: &Self::Error) -> bool {
        A::is_retryable(error)
    }
}

impl<A, F, Fut> ActivityBody for Code<A, F>
where
    A: Activity,
    F: Fn(ActivityContext, A::Input) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<A::Output, A::Error>> + Send + 'static,
{
    fn run(
        &self,
        ctx: ActivityContext,
        _states: &States,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send + 'static {
        (self.body)(ctx, input)
    }
}

impl<O: Orchestration, F: Clone + Send + Sync + 'static> Orchestration for Code<O, F> {
    type Input = O::Input;
    type Output = O::Output;
    type Error = O::Error;

    fn name(&self) -> &'static str {
        self.definition.name()
    }

    fn version(&self) -> Option<&'static str> {
        self.definition.version()
    }

    fn is_retryable(error: &Self::Error) -> bool {
        O::is_retryable(error)
    }
}

impl<O, F, Fut> OrchestrationBody for Code<O, F>
where
    O: Orchestration,
    F: Fn(OrchestrationContext, O::Input) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O::Output, O::Error>> + Send + 'static,
{
    fn run(
        &self,
        ctx: OrchestrationContext,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send + 'static {
        (self.body)(ctx, input)
    }
}

/// Something that can be registered: an activity or an orchestration with its body. `Kind` tells the two apart and is
/// found by the compiler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be registered",
    note = "register what `#[duroxide::activity]` or `#[duroxide::orchestration]` made, or use `activity_fn` or `orchestration_fn`"
)]
pub trait Register<Kind> {
    /// Adds it.
    fn add_to(self, handlers: &mut Handlers);
}

/// The kind of activities.
#[derive(Debug)]
pub struct OfActivity;
/// The kind of orchestrations.
#[derive(Debug)]
pub struct OfOrchestration;

impl<Via, T: ToActivity<Via>> Register<(OfActivity, Via)> for T
where
    T::Activity: ActivityBody,
{
    fn add_to(self, handlers: &mut Handlers) {
        let activity = self.to_activity();
        handlers.declared.push(Declared::activity(&activity));
        handlers.activities.push(Waiting {
            name: activity.name(),
            needs: T::Activity::needs(),
            make: Box::new(|states| Arc::new(TypedActivity { activity, states })),
        });
    }
}

impl<Via, T: ToOrchestration<Via>> Register<(OfOrchestration, Via)> for T
where
    T::Orchestration: OrchestrationBody,
{
    fn add_to(self, handlers: &mut Handlers) {
        let orchestration = self.to_orchestration();
        handlers
            .declared
            .push(Declared::orchestration(&orchestration));
        let builder = std::mem::take(&mut handlers.orchestrations);
        let (name, version) = (orchestration.name(), orchestration.version());
        let handler = Arc::new(TypedOrchestration(orchestration));
        handlers.orchestrations = builder.with_definition(name, version, handler);
    }
}

type Make = Box<dyn FnOnce(Arc<States>) -> Arc<dyn ActivityHandler> + Send>;

/// An activity that waits for the state to be complete.
struct Waiting {
    name: &'static str,
    needs: Vec<Needed>,
    make: Make,
}

/// The code of a program, and the state that its activities share.
///
/// ```
/// use duroxide::{ActivityContext, ActivityRef, Handlers, activity_fn};
///
/// const GREET: ActivityRef<String, String> = ActivityRef::new("greet");
///
/// /// The program starts with this, and so do its tests.
/// fn code() -> Handlers {
///     Handlers::new().register(activity_fn(GREET, |_ctx: ActivityContext, name: String| async move {
///         Ok(format!("Hello, {name}!"))
///     }))
/// }
/// assert!(code().build().is_ok());
/// ```
#[derive(Default)]
#[must_use]
pub struct Handlers {
    states: States,
    activities: Vec<Waiting>,
    plain_activities: ActivityRegistryBuilder,
    orchestrations: OrchestrationRegistryBuilder,
    declared: Vec<Declared>,
    mistakes: Vec<String>,
}

impl Handlers {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a value to all activities that ask for its type.
    pub fn state<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.shared_state(Arc::new(value))
    }

    /// Gives a value that the program shares with its activities; also as `Arc<dyn Mailer>`, for `State<dyn Mailer>`.
    pub fn shared_state<T: Send + Sync + ?Sized + 'static>(mut self, value: Arc<T>) -> Self {
        if !self.states.insert(value) {
            let name = std::any::type_name::<T>();
            self.mistakes.push(format!("two states of type {name}"));
        }
        self
    }

    /// Adds an activity or an orchestration.
    pub fn register<Kind>(mut self, code: impl Register<Kind>) -> Self {
        code.add_to(&mut self);
        self
    }

    /// Adds the code and the state of another collection. What both have is a mistake, which [`build`](Self::build)
    /// reports.
    ///
    /// ```
    /// # use duroxide::{ActivityContext, ActivityRef, Handlers, activity_fn};
    /// # const GREET: ActivityRef<String, String> = ActivityRef::new("greet");
    /// # fn greetings() -> Handlers {
    /// #     Handlers::new().register(activity_fn(GREET, |_ctx: ActivityContext, name: String| async move { Ok(name) }))
    /// # }
    /// let all = Handlers::new().state("EUR".to_owned()).and(greetings());
    /// assert!(all.build().is_ok());
    /// assert!(greetings().and(greetings()).build().is_err());
    /// ```
    pub fn and(mut self, other: Self) -> Self {
        if let Some(name) = self.states.extend(other.states) {
            self.mistakes.push(format!("two states of type {name}"));
        }
        self.activities.extend(other.activities);
        self.plain_activities = self.plain_activities.and(other.plain_activities);
        self.orchestrations = self.orchestrations.and(other.orchestrations);
        self.declared.extend(other.declared);
        self.mistakes.extend(other.mistakes);
        self
    }

    /// Adds activities that are registered in the published way.
    pub fn activities(mut self, activities: ActivityRegistry) -> Self {
        self.plain_activities = self.plain_activities.merge(activities);
        self
    }

    /// Adds orchestrations that are registered in the published way, with their policies.
    pub fn orchestrations(mut self, orchestrations: OrchestrationRegistry) -> Self {
        self.orchestrations = self.orchestrations.merge(orchestrations);
        self
    }

    /// What is registered by definition, in order of kind, name and version. What was registered in the published way
    /// has no definition and is not listed.
    #[must_use]
    pub fn declared(&self) -> Vec<Declared> {
        let mut declared = self.declared.clone();
        declared.sort();
        declared
    }

    /// The registries.
    ///
    /// # Errors
    ///
    /// All mistakes, joined with `"; "`: two handlers of one name, a version that is none, state that is missing.
    pub fn build(mut self) -> Result<(ActivityRegistry, OrchestrationRegistry), String> {
        for activity in &self.activities {
            let missing = activity.needs.iter().filter_map(|n| self.states.lacks(n));
            self.mistakes.extend(missing.map(|state| {
                let name = activity.name;
                format!("activity '{name}' asks for State<{state}>, which was not given: call `.state(…)`")
            }));
        }
        let states = Arc::new(self.states);
        let mut activities = self.plain_activities;
        for activity in self.activities {
            let handler = (activity.make)(Arc::clone(&states));
            activities = activities.with_definition(activity.name, handler);
        }
        let activities = activities.build_result();
        let orchestrations = self.orchestrations.build_result();
        match (activities, orchestrations, self.mistakes.is_empty()) {
            (Ok(activities), Ok(orchestrations), true) => Ok((activities, orchestrations)),
            (activities, orchestrations, _) => {
                self.mistakes.extend(activities.err());
                self.mistakes.extend(orchestrations.err());
                Err(self.mistakes.join("; "))
            }
        }
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.activities.iter().map(|a| a.name).collect();
        f.debug_struct("Handlers")
            .field("activities", &names)
            .field("orchestrations", &self.orchestrations)
            .finish_non_exhaustive()
    }
}
