//! One instance as data: taken from one store, restored in another, it is the same and goes on.

mod equal;
mod family;
mod goes_on;
mod refused;

pub use equal::*;
pub use family::*;
pub use goes_on::*;
pub use refused::*;

use duroxide_core::provider::{InstanceSnapshot, Restoring};

use crate::ProviderFactory;
use crate::fixture::Bench;

async fn snapshot<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: &str) -> InstanceSnapshot {
    let taken = bench.admin().snapshot_instance(id).await;
    taken.expect("an answer").expect("the store can do that")
}

async fn restore<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    snapshot: &InstanceSnapshot,
) -> Restoring {
    let restored = bench.admin().restore_instance(snapshot, None).await;
    restored.expect("an answer").expect("the store can do that")
}

/// Another store that holds these instances as the first one does, and nothing else.
async fn moved<'a, F: ProviderFactory + ?Sized>(
    bench: &Bench<'a, F>,
    ids: &[&str],
) -> Bench<'a, F> {
    let other = Bench::open(bench.factory).await;
    for id in ids {
        let taken = snapshot(bench, id).await;
        assert!(!taken.is_empty(), "there is something of `{id}`");
        assert_eq!(restore(&other, &taken).await, Restoring::Done);
        assert_eq!(snapshot(&other, id).await, taken, "`{id}` is the same");
    }
    other
}
