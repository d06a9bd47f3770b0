//! A dispatcher is given only histories it can replay.

mod damaged;
mod pinning;
mod selection;

pub use damaged::*;
pub use pinning::*;
pub use selection::*;

use duroxide_core::provider::{DispatcherCapabilityFilter, SemverRange};
use semver::Version;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

fn range(min: &str, max: &str) -> SemverRange {
    let parse = |text| Version::parse(text).expect("cases name valid versions");
    SemverRange::new(parse(min), parse(max))
}

fn versions(min: &str, max: &str) -> DispatcherCapabilityFilter {
    DispatcherCapabilityFilter {
        supported_duroxide_versions: vec![range(min, max)],
    }
}

/// An instance pinned to this version, with a message waiting.
async fn ready<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, instance: &str, pinned: &str) {
    bench
        .create_with(instance, Commit::first().pinned(pinned))
        .await;
    bench.send(items::signal(instance, "go")).await;
}
