//! All cases as data. In: the list. Out: something a runner can go through.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::{Capability, ProviderFactory, cases as groups};

/// One behaviour that a provider must show.
#[derive(Clone, Copy)]
pub struct Case {
    /// The group it belongs to.
    pub module: &'static str,
    /// Its function.
    pub name: &'static str,
    /// Its needs beyond the required methods.
    pub requires: &'static [Capability],
    /// Runs it on a fresh store; panics if the behaviour is not shown.
    pub run: fn(Arc<dyn ProviderFactory>) -> BoxFuture<'static, ()>,
}

impl Case {
    /// `module::function`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}::{}", self.module, self.name)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("path", &self.path())
            .field("requires", &self.requires)
            .finish_non_exhaustive()
    }
}

/// Calls one function of the list in its shape.
macro_rules! call {
    ($module:ident $name:ident $factory:ident) => {
        groups::$module::$name(&*$factory).await
    };
    ($module:ident $name:ident $factory:ident provider) => {
        groups::$module::$name(&*$factory.create_provider().await).await
    };
    ($module:ident $name:ident $factory:ident threshold) => {{
        let threshold = $factory.short_poll_threshold();
        groups::$module::$name(&*$factory.create_provider().await, threshold).await
    }};
    ($module:ident $name:ident $factory:ident stamped) => {
        for stamp in STAMPS {
            groups::$module::$name(&*$factory, stamp).await
        }
    };
}

/// Version stamps that the stamped case is run with.
const STAMPS: [&str; 2] = ["0.1.31", "0.2.0"];

macro_rules! as_cases {
    ([] $($module:ident { $($name:ident $([$($need:ident),*])? $($shape:ident)?;)* })*) => {
        vec![$($(Case {
            module: stringify!($module),
            name: stringify!($name),
            requires: &[$($(Capability::$need),*)?],
            run: |factory| Box::pin(async move { call!($module $name factory $($shape)?) }),
        },)*)*]
    };
}

/// Every case of the kit, in the order of the list.
///
/// ```
/// let cases = duroxide_validation::cases();
/// assert!(cases.iter().any(|case| case.path() == "atomicity::test_concurrent_ack_prevention"));
/// ```
#[must_use]
pub fn cases() -> Vec<Case> {
    crate::for_each_case! { [as_cases!] [] }
}
