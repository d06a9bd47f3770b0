//! Which worker gets which tagged activity.

use duroxide_core::WorkItem;
use duroxide_core::provider::TagFilter;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

/// Activities 1 (no tag), 2 (`gpu`), 3 (`cpu`), 4 (no tag), 5 (`gpu`).
async fn mixed<'a>(factory: &'a (dyn ProviderFactory + 'a)) -> Bench<'a, dyn ProviderFactory + 'a> {
    let bench = Bench::open(factory).await;
    for (id, tag) in [
        (1, None),
        (2, Some("gpu")),
        (3, Some("cpu")),
        (4, None),
        (5, Some("gpu")),
    ] {
        bench
            .schedule(items::activity_with("tagged", id, None, tag))
            .await;
    }
    bench
}

async fn drain(bench: &Bench<'_, dyn ProviderFactory + '_>, filter: &TagFilter) -> Vec<u64> {
    let mut ids = Vec::new();
    while let Some(work) = bench.find_tagged(filter).await {
        assert!(
            !ids.contains(&work.id()),
            "activity {} was handed out twice",
            work.id()
        );
        ids.push(work.id());
    }
    ids
}

/// Without tags a worker gets the untagged ones, in order.
pub async fn test_default_only_fetches_untagged(factory: &dyn ProviderFactory) {
    let bench = mixed(factory).await;
    assert_eq!(drain(&bench, &TagFilter::default_only()).await, [1, 4]);
}

/// With a tag a worker gets those, in order, and no untagged ones.
pub async fn test_tags_fetches_only_matching(factory: &dyn ProviderFactory) {
    let bench = mixed(factory).await;
    assert_eq!(drain(&bench, &TagFilter::tags(["gpu"])).await, [2, 5]);
}

/// Untagged ones and one tag, but no other tag.
pub async fn test_default_and_fetches_untagged_and_matching(factory: &dyn ProviderFactory) {
    let bench = mixed(factory).await;
    assert_eq!(
        drain(&bench, &TagFilter::default_and(["gpu"])).await,
        [1, 2, 4, 5]
    );
}

/// Who wants nothing gets nothing, and claims nothing.
pub async fn test_none_filter_returns_nothing(factory: &dyn ProviderFactory) {
    let bench = mixed(factory).await;
    assert!(drain(&bench, &TagFilter::none()).await.is_empty());
    let first = bench
        .find_tagged(&TagFilter::any())
        .await
        .expect("still there");
    assert_eq!((first.id(), first.attempt), (1, 1), "nothing was claimed");
}

/// Any of two tags.
pub async fn test_multi_tag_filter(factory: &dyn ProviderFactory) {
    let bench = mixed(factory).await;
    assert_eq!(
        drain(&bench, &TagFilter::tags(["cpu", "gpu"])).await,
        [2, 3, 5]
    );
}

/// A tag comes back as it was given.
pub async fn test_tag_round_trip_preservation(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    for tag in ["gpu", "Größe/ü 🦀", "a'b\"c"] {
        bench
            .schedule(items::tagged_activity("tagged", 1, tag))
            .await;
        let work = bench.find_tagged(&TagFilter::tags([tag])).await;
        let work = work.unwrap_or_else(|| panic!("`{tag}` is found by its tag"));
        assert_eq!(work.item, items::tagged_activity("tagged", 1, tag));
    }
}

/// Who takes everything gets everything, in order.
pub async fn test_any_filter_fetches_everything(factory: &dyn ProviderFactory) {
    let bench = mixed(factory).await;
    assert_eq!(drain(&bench, &TagFilter::any()).await, [1, 2, 3, 4, 5]);
}

/// Tag and filter hold after an activity was given back.
pub async fn test_tag_survives_abandon_and_refetch(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    bench
        .schedule(items::tagged_activity("tagged", 1, "gpu"))
        .await;
    let gpu = TagFilter::tags(["gpu"]);
    let work = bench.find_tagged(&gpu).await.expect("it is tagged");
    bench.give_back(&work, None, false).await;

    bench.no_work("it is tagged").await;
    let again = bench.find_tagged(&gpu).await.expect("it kept its tag");
    assert_eq!(again.item, work.item);
    assert_eq!(again.attempt, 2);
}

/// Disjoint, overlapping and wider filters share one queue without handing anything out twice.
pub async fn test_multi_runtime_tag_isolation(factory: &dyn ProviderFactory) {
    let bench = mixed(factory).await;
    let cpu = drain(&bench, &TagFilter::tags(["cpu"])).await;
    let overlapping = drain(&bench, &TagFilter::default_and(["cpu"])).await;
    let wider = drain(&bench, &TagFilter::any()).await;
    assert_eq!(cpu, [3]);
    assert_eq!(overlapping, [1, 4]);
    assert_eq!(wider, [2, 5]);
}

/// Tags of activities that a commit scheduled are filtered too.
pub async fn test_tag_preserved_through_ack_orchestration_item(factory: &dyn ProviderFactory) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .work(items::tagged_activity("tagged", 2, "gpu"))
        .work(items::activity("tagged", 3));
    bench.create_with("tagged", first).await;
    let gpu = TagFilter::tags(["gpu"]);
    let work = bench.find_tagged(&gpu).await.expect("it is tagged");
    assert!(matches!(work.item, WorkItem::ActivityExecute { tag: Some(ref t), .. } if t == "gpu"));
    assert_eq!(drain(&bench, &TagFilter::default_only()).await, [3]);
}
