//! Questions about many instances: which, in which order, page by page, and how many.

mod counting;
mod criteria;
mod paging;
mod waiting;

pub use counting::*;
pub use criteria::*;
pub use paging::*;
pub use waiting::*;

use duroxide_core::provider::{InstanceQuery, InstanceSummary, Page};

use crate::ProviderFactory;
use crate::fixture::Bench;

async fn page<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    query: &InstanceQuery,
) -> Page<InstanceSummary> {
    let page = bench.admin().query_instances(query).await;
    page.expect("a query is answered")
}

async fn ids<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    query: &InstanceQuery,
) -> Vec<String> {
    ids_on(&page(bench, query).await)
}

/// The same, sorted: for cases that ask which and not in which order.
async fn found<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    query: &InstanceQuery,
) -> Vec<String> {
    let mut ids = ids(bench, query).await;
    ids.sort();
    ids
}

fn ids_on(page: &Page<InstanceSummary>) -> Vec<String> {
    let id = |summary: &InstanceSummary| summary.instance_id.clone();
    page.items.iter().map(id).collect()
}
