//! How many.

use duroxide_core::provider::{CountBy, InstanceQuery, InstanceStatus};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, kinds};

async fn counts<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    query: &InstanceQuery,
    by: CountBy,
) -> Vec<(String, u64)> {
    let counts = bench.admin().count_instances(query, by).await;
    let counts = counts.expect("a count").into_iter();
    counts.map(|one| (one.key, one.count)).collect()
}

fn pairs(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    let owned = |(key, count): &(&str, u64)| ((*key).to_owned(), *count);
    expected.iter().map(owned).collect()
}

/// A count is of everything that the query admits, whatever its page; nothing is a count too.
pub async fn counts_take_no_notice_of_pages<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let small = InstanceQuery::new().with_page_size(2);
    let none = counts(&bench, &small, CountBy::Nothing).await;
    assert_eq!(none, pairs(&[("", 0)]));
    for n in 0..5 {
        bench.create(&format!("counted-{n}")).await;
    }
    let total = counts(&bench, &small, CountBy::Nothing).await;
    assert_eq!(total, pairs(&[("", 5)]));
    let page = bench.admin().query_instances(&small).await.expect("a page");
    let later = small.after(page.next.expect("there is more"));
    let total = counts(&bench, &later, CountBy::Nothing).await;
    assert_eq!(total, pairs(&[("", 5)]), "with a cursor");
}

/// By status, name and version; equal groups by their key.
pub async fn counts_are_grouped_largest_first<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = |name: &str, version: &str| {
        let started = Commit::to(1).event(1, kinds::started_as(name, version));
        started.named(name, version)
    };
    bench.create_with("a", first("order", "1.0.0")).await;
    bench.create_with("b", first("order", "2.0.0")).await;
    bench
        .create_with("c", first("invoice", "2.0.0").failed("no"))
        .await;
    bench
        .create_with("d", first("cart", "3.0.0").completed("ok"))
        .await;

    let all = InstanceQuery::new();
    let by_status = counts(&bench, &all, CountBy::Status).await;
    let expected = pairs(&[("Running", 2), ("Completed", 1), ("Failed", 1)]);
    assert_eq!(by_status, expected);
    let by_name = counts(&bench, &all, CountBy::Name).await;
    assert_eq!(by_name, pairs(&[("order", 2), ("cart", 1), ("invoice", 1)]));
    let by_version = counts(&bench, &all, CountBy::Version).await;
    let expected = pairs(&[("2.0.0", 2), ("1.0.0", 1), ("3.0.0", 1)]);
    assert_eq!(by_version, expected);
    let failed = all.with_status(InstanceStatus::Failed);
    let failed_by_name = counts(&bench, &failed, CountBy::Name).await;
    assert_eq!(failed_by_name, pairs(&[("invoice", 1)]), "filtered");
}
