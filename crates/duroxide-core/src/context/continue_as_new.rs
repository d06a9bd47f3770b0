//! Ending an execution and beginning the next one with a fresh history.

use std::future::Pending;

use serde::Serialize;

use super::OrchestrationContext;
use super::activities::encoded;
use crate::definition::{Arguments, Orchestration, ToOrchestration};
use crate::durable::NextExecution;

/// What an orchestration returns.
type ResultOf<O> = Result<<O as Orchestration>::Output, <O as Orchestration>::Error>;

impl OrchestrationContext {
    /// Ends this execution and begins another with this input. Use as `return ctx.continue_as_new(next).await;`.
    ///
    /// ```
    /// use duroxide::OrchestrationContext;
    ///
    /// async fn example(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ///     let round: u64 = input.parse().map_err(|e| format!("{e}"))?;
    ///     ctx.schedule_activity("check", input).await?;
    ///     ctx.continue_as_new((round + 1).to_string()).await
    /// }
    /// ```
    #[track_caller]
    pub fn continue_as_new(&self, input: impl Into<String>) -> Pending<Result<String, String>> {
        self.end_with(input.into(), None)
    }

    /// Ends this execution and begins another with typed input.
    #[track_caller]
    pub fn continue_as_new_typed<In: Serialize>(
        &self,
        input: &In,
    ) -> Pending<Result<String, String>> {
        self.end_with(encoded(input), None)
    }

    /// Ends this execution and begins another with an exact version of the handler.
    #[track_caller]
    pub fn continue_as_new_versioned(
        &self,
        version: impl Into<String>,
        input: impl Into<String>,
    ) -> Pending<Result<String, String>> {
        self.end_with(input.into(), Some(version.into()))
    }

    /// Ends this execution and begins another with typed input and an exact version of the handler.
    #[track_caller]
    pub fn continue_as_new_versioned_typed<In: Serialize>(
        &self,
        version: impl Into<String>,
        input: &In,
    ) -> Pending<Result<String, String>> {
        self.end_with(encoded(input), Some(version.into()))
    }

    /// Ends this execution and begins another with this input, checked against the definition of this very
    /// orchestration. The next execution runs the version that the policy chooses. Use as
    /// `return ctx.continue_with(me, &next).await;`.
    ///
    /// # Panics
    ///
    /// When the definition is that of another orchestration, or the input does not serialise, which fails the
    /// orchestration.
    ///
    /// ```
    /// use duroxide_core::{OrchestrationContext, OrchestrationRef};
    ///
    /// const MONITOR: OrchestrationRef<u64, u64> = OrchestrationRef::new("monitor");
    ///
    /// async fn monitor(ctx: OrchestrationContext, round: u64) -> Result<u64, String> {
    ///     if round == 100 {
    ///         return Ok(round);
    ///     }
    ///     ctx.continue_with(MONITOR, round + 1).await
    /// }
    /// ```
    #[track_caller]
    pub fn continue_with<Via, T: ToOrchestration<Via>>(
        &self,
        orchestration: T,
        input: impl Arguments<<T::Orchestration as Orchestration>::Input>,
    ) -> Pending<ResultOf<T::Orchestration>> {
        let orchestration = orchestration.to_orchestration();
        let (own, other) = (&self.shared.identity.name, orchestration.name());
        assert!(
            own == other,
            "continue_with() continues this orchestration, '{own}', and was handed the definition of '{other}'"
        );
        let input = input.encode().unwrap_or_else(|e| panic!("encode: {e}"));
        let _never = self.end_with(input, None);
        std::future::pending()
    }

    /// The decision is taken by the call; the first one of an execution wins. The future never resolves.
    #[track_caller]
    fn end_with(&self, input: String, version: Option<String>) -> Pending<Result<String, String>> {
        self.shared
            .deciding(std::panic::Location::caller())
            .next
            .get_or_insert(NextExecution { input, version });
        std::future::pending()
    }
}
