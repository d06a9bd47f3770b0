//! Key-values of an instance: what clients see, what a turn is given, and how long they live.

mod basics;
mod delta;
mod executions;
mod lifetime;
mod snapshot;

pub use basics::*;
pub use delta::*;
pub use executions::*;
pub use lifetime::*;
pub use snapshot::*;

use std::collections::BTreeMap;

use crate::ProviderFactory;
use crate::fixture::{Bench, items};

/// One value as a client reads it.
async fn get<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    instance: &str,
    key: &str,
) -> Option<String> {
    let one = bench.store.get_kv_value(instance, key).await;
    let one = one.expect("a key can be read");
    let all = bench.store.get_kv_all_values(instance).await;
    let all = all.expect("keys can be read");
    assert_eq!(one.as_ref(), all.get(key), "both reads agree on `{key}`");
    one
}

/// The snapshot that the next turn of the instance is given.
async fn snapshot<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    instance: &str,
) -> BTreeMap<String, String> {
    bench.send(items::signal(instance, "look")).await;
    let turn = bench.turn_of(instance).await;
    bench.abandon_uncounted(&turn).await;
    let entries = turn.item.kv_snapshot.into_iter();
    entries.map(|(key, entry)| (key, entry.value)).collect()
}

fn pairs(expected: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    expected.iter().map(own).collect()
}
