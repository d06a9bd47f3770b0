//! Order and pages.

use duroxide_core::provider::{InstanceQuery, PageCursor, SortKey, SortOrder};

use super::{ids, ids_on, page};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// Every page of a query, in order.
pub(super) async fn all_pages<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    mut query: InstanceQuery,
) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    loop {
        let found = page(bench, &query).await;
        pages.push(ids_on(&found));
        assert!(pages.len() < 100, "the pages do not end: {pages:?}");
        match found.next {
            Some(next) => query = query.after(next),
            None => return pages,
        }
    }
}

/// Instances of the same moment are neither lost between two pages nor shown twice.
///
/// A page is as large as asked, and the last one says so. Neither the code that instances run nor whether they have
/// ended changes their order.
pub async fn every_instance_is_met_once_page_by_page<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let mut expected = Vec::new();
    for (n, (name, version)) in HANDLERS.iter().cycle().take(7).enumerate() {
        let id = format!("paged-{n}");
        let first = Commit::to(1).event(1, kinds::started_as(name, version));
        let first = first.named(name, version);
        let first = match n % 3 {
            0 => first.completed("ok"),
            1 => first.failed("no"),
            _ => first,
        };
        bench.create_with(&id, first).await;
        expected.push(id);
    }
    for order in [SortOrder::NewestFirst, SortOrder::OldestFirst] {
        for by in [SortKey::Created, SortKey::Updated] {
            let query = InstanceQuery::new().sorted(by, order).with_page_size(3);
            let pages = all_pages(&bench, query).await;
            let sizes: Vec<_> = pages.iter().map(Vec::len).collect();
            assert_eq!(sizes, [3, 3, 1], "{by:?} {order:?}");
            let all = pages.concat();
            let mut met = all.clone();
            met.sort();
            assert_eq!(met, expected, "{by:?} {order:?}");
            let sorted = InstanceQuery::new().sorted(by, order).with_page_size(2);
            // Those of one name, and those of one version, in the order that all have.
            let orders = all_pages(&bench, sorted.clone().with_name("order")).await;
            let is_order = |id: &&String| !id.ends_with(['2', '5']);
            let expected: Vec<_> = all.iter().filter(is_order).cloned().collect();
            assert_eq!(orders.concat(), expected, "{by:?} {order:?}");
            let firsts = all_pages(&bench, sorted.with_version("1.0.0")).await;
            let is_first = |id: &&String| !id.ends_with(['1', '4']);
            let expected: Vec<_> = all.iter().filter(is_first).cloned().collect();
            assert_eq!(firsts.concat(), expected, "{by:?} {order:?}");
        }
    }
    let whole = InstanceQuery::new().with_page_size(7);
    assert_eq!(page(&bench, &whole).await.next, None, "there is no more");
}

/// What the instances of a case run.
const HANDLERS: [(&str, &str); 3] = [("order", "1.0.0"), ("order", "2.0.0"), ("invoice", "1.0.0")];

/// What exists throughout is met exactly once, although others come and go between two pages.
///
/// Also if the instance that a page ended with is gone.
pub async fn pages_stay_whole_while_instances_come_and_go<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for n in 0..6 {
        let id = format!("kept-{n}");
        bench
            .create_with(&id, Commit::first().completed("ok"))
            .await;
        bench.pass(bench.brief()).await;
    }
    let query = InstanceQuery::new().with_page_size(2);
    let first = page(&bench, &query).await;
    assert_eq!(ids_on(&first), ["kept-5", "kept-4"]);
    bench.create("newcomer").await;
    let gone = bench.admin().delete_instance("kept-4", false).await;
    gone.expect("a finished instance can be deleted");
    let next = first.next.expect("there is more");
    let rest = all_pages(&bench, query.after(next)).await.concat();
    assert_eq!(rest, ["kept-3", "kept-2", "kept-1", "kept-0"]);
}

/// By creation or by the last turn, from either end.
pub async fn a_page_follows_the_order_asked_for<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for id in ["first", "second", "third"] {
        bench.create(id).await;
        bench.pass(bench.brief()).await;
    }
    bench.send(items::signal("first", "go")).await;
    bench
        .advance(
            "first",
            Commit::to(1).event(2, kinds::activity_scheduled("a")),
        )
        .await;
    let sorted = |by, order| InstanceQuery::new().sorted(by, order);
    let newest = sorted(SortKey::Created, SortOrder::NewestFirst);
    assert_eq!(ids(&bench, &newest).await, ["third", "second", "first"]);
    let oldest = sorted(SortKey::Created, SortOrder::OldestFirst);
    assert_eq!(ids(&bench, &oldest).await, ["first", "second", "third"]);
    let moved_last = sorted(SortKey::Updated, SortOrder::NewestFirst);
    assert_eq!(ids(&bench, &moved_last).await, ["first", "third", "second"]);
    let moved_first = sorted(SortKey::Updated, SortOrder::OldestFirst);
    assert_eq!(
        ids(&bench, &moved_first).await,
        ["second", "third", "first"]
    );
}

/// A cursor that no store made, or one of another order, is a permanent error and not some page.
pub async fn a_cursor_of_another_order_is_refused<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for id in ["a", "b"] {
        bench.create(id).await;
    }
    let newest = InstanceQuery::new().with_page_size(1);
    let cursor = page(&bench, &newest).await.next.expect("there is more");
    let other = InstanceQuery::new().sorted(SortKey::Created, SortOrder::OldestFirst);
    for query in [
        other.after(cursor),
        InstanceQuery::new().after(PageCursor::from_text("made up")),
    ] {
        let refused = bench.admin().query_instances(&query).await;
        let error = refused.expect_err("the cursor is refused");
        assert!(!error.is_retryable(), "{error}");
    }
}
