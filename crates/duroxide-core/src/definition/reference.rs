//! Definitions whose code is elsewhere: a name and types, nothing more.

use std::fmt;
use std::marker::PhantomData;

use super::{Activity, Orchestration, Payload};

/// An activity that is registered elsewhere, or under the published interface.
///
/// ```
/// use duroxide_core::{ActivityRef, OrchestrationContext};
///
/// const MEASURE: ActivityRef<String, usize> = ActivityRef::new("measure");
///
/// async fn example(ctx: OrchestrationContext, text: String) -> Result<usize, String> {
///     Ok(ctx.call(MEASURE, &text).await?)
/// }
/// ```
pub struct ActivityRef<I, O, E = String> {
    name: &'static str,
    types: PhantomData<fn(I) -> (O, E)>,
}

impl<I, O, E> ActivityRef<I, O, E> {
    /// The activity of this name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            types: PhantomData,
        }
    }
}

impl<I: Payload, O: Payload, E: Payload> Activity for ActivityRef<I, O, E> {
    type Input = I;
    type Output = O;
    type Error = E;

    fn name(&self) -> &'static str {
        self.name
    }
}

/// An orchestration that is registered elsewhere, or under the published interface.
///
/// ```
/// use duroxide_core::{OrchestrationContext, OrchestrationRef};
///
/// const INVOICE: OrchestrationRef<u64, String> = OrchestrationRef::new("invoice");
///
/// async fn example(ctx: OrchestrationContext, order: u64) -> Result<String, String> {
///     Ok(ctx.child(INVOICE, &order).await?)
/// }
/// ```
pub struct OrchestrationRef<I, O, E = String> {
    name: &'static str,
    version: Option<&'static str>,
    types: PhantomData<fn(I) -> (O, E)>,
}

impl<I, O, E> OrchestrationRef<I, O, E> {
    /// The orchestration of this name, in the version that the policy chooses.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            version: None,
            types: PhantomData,
        }
    }

    /// Exactly this version of it.
    #[must_use]
    pub const fn with_version(mut self, version: &'static str) -> Self {
        self.version = Some(version);
        self
    }
}

impl<I: Payload, O: Payload, E: Payload> Orchestration for OrchestrationRef<I, O, E> {
    type Input = I;
    type Output = O;
    type Error = E;

    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> Option<&'static str> {
        self.version
    }
}

impl<I, O, E> Clone for ActivityRef<I, O, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O, E> Copy for ActivityRef<I, O, E> {}

impl<I, O, E> fmt::Debug for ActivityRef<I, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActivityRef").field(&self.name).finish()
    }
}

impl<I, O, E> Clone for OrchestrationRef<I, O, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O, E> Copy for OrchestrationRef<I, O, E> {}

impl<I, O, E> fmt::Debug for OrchestrationRef<I, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OrchestrationRef").field(&self.name).finish()
    }
}
