//! What a Duroxide storage provider must do, runnable by anyone.
//!
//! Write a [`ProviderFactory`], then either put [`conformance!`] into a test crate (one test per case) or call
//! [`run_all_validations`] (one report). The published paths are kept in [`provider_validations`],
//! [`provider_validation`], [`provider_stress_tests`] and [`provider_stress_test`].

mod capability;
mod cases;
mod doors;
mod factory;
mod fixture;
mod forward;
mod list;
mod macros;
mod probe;
mod published;
mod registry;
mod runner;
mod stress;
mod time;
mod waiting;

pub use capability::Capability;
pub use factory::{ClockSkew, ProviderFactory, TestClock};
/// Messages and events with filled-in parts, which the tests of stores share with the cases.
#[doc(hidden)]
pub use fixture::{items, kinds};
pub use published::{
    provider_stress_test, provider_stress_tests, provider_validation, provider_validations,
};
pub use registry::{Case, cases};
pub use runner::{Outcome, Report, Verdict, run_all_validations, run_as_test, run_case, run_cases};
pub use time::pass_time;
