//! Definitions: activities and orchestrations as values that carry their name and their types.
//!
//! In: what the attributes `#[duroxide::activity]` and `#[duroxide::orchestration]` generate, or what an author writes
//! by hand. Out: what calls, children, clients and tests check against at compile time. Nothing runs here.

mod arguments;
mod error;
mod function;
mod misfit;
mod reference;
mod retry;

use serde::{Serialize, de::DeserializeOwned};

pub use arguments::{Arguments, Inputs};
pub use error::{ActivityError, Elapsed, OrchestrationError, Timeout, Undecodable};
pub use function::{Body, Itself, ToActivity, ToOrchestration};
pub use misfit::Misfit;
pub use reference::{ActivityRef, OrchestrationRef};
pub use retry::{Retry, Retryable};

/// A value that can be stored: every type that derives serde's `Serialize` and `Deserialize`, borrows nothing and may
/// move between threads.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored",
    label = "inputs, outputs and errors of durable calls are stored",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it, and let it own what it holds"
)]
pub trait Payload: Serialize + DeserializeOwned + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Send + 'static> Payload for T {}

/// An activity by name and types. The attribute `#[duroxide::activity]` makes such a type, named like the function;
/// [`ActivityRef`] is one for an activity whose code is elsewhere.
///
/// ```
/// use duroxide_core::{Activity, OrchestrationContext};
///
/// /// By hand, without the attribute.
/// #[derive(Clone, Copy)]
/// struct Measure;
/// impl Activity for Measure {
///     type Input = String;
///     type Output = usize;
///     type Error = String;
///     fn name(&self) -> &'static str {
///         "measure"
///     }
/// }
///
/// async fn example(ctx: OrchestrationContext, text: String) -> Result<usize, String> {
///     Ok(ctx.call(Measure, &text).await?)
/// }
/// ```
pub trait Activity: Clone + Send + Sync + 'static {
    /// What it takes: `()` for nothing, a tuple for several things.
    type Input: Payload;
    /// What it gives.
    type Output: Payload;
    /// Its own error.
    type Error: Payload;

    /// The name it is registered and recorded under.
    fn name(&self) -> &'static str;

    /// Whether an attempt that failed with this error may be made again. Policies can only be stricter.
    fn is_retryable(_error: &Self::Error) -> bool {
        true
    }
}

/// An orchestration by name, version and types. The attribute `#[duroxide::orchestration]` makes such a type, named
/// like the function; [`OrchestrationRef`] is one for an orchestration whose code is elsewhere.
pub trait Orchestration: Clone + Send + Sync + 'static {
    /// What it takes: `()` for nothing, a tuple for several things.
    type Input: Payload;
    /// What it gives.
    type Output: Payload;
    /// Its own error.
    type Error: Payload;

    /// The name it is registered and recorded under.
    fn name(&self) -> &'static str;

    /// The version it states. A start of a definition with a version starts that version; without one, the version that
    /// the registry's policy chooses, which is the latest unless the program chose another one.
    fn version(&self) -> Option<&'static str> {
        None
    }

    /// Whether a child that failed with this error may be started again. Policies can only be stricter.
    fn is_retryable(_error: &Self::Error) -> bool {
        true
    }

    /// A number that follows from the code of its function, comments and layout left out; the attribute computes it.
    /// `None` for code that the attribute has not seen. `duroxide::testing::assert_manifest` notices by it that code
    /// has changed.
    fn fingerprint(&self) -> Option<u64> {
        None
    }
}
