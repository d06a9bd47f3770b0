//! Key-values, one call at a time: set, read, cleared, as clients see them after the commit of the turn.

use super::get;
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, kinds};

/// A value that was set is read.
pub async fn test_kv_set_and_get<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("kv", Commit::first().and(kinds::kv_set("k", "v")))
        .await;
    assert_eq!(get(&bench, "kv", "k").await.as_deref(), Some("v"));
}

/// The second value wins.
pub async fn test_kv_overwrite<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("k", "1"))
        .and(kinds::kv_set("k", "2"));
    bench.create_with("kv", first).await;
    assert_eq!(get(&bench, "kv", "k").await.as_deref(), Some("2"));
    bench
        .nudge("kv", Commit::to(1).event(4, kinds::kv_set("k", "3")))
        .await;
    assert_eq!(get(&bench, "kv", "k").await.as_deref(), Some("3"));
}

/// A cleared key is gone, the others stay.
pub async fn test_kv_clear_single<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("k", "v"))
        .and(kinds::kv_set("other", "w"));
    bench.create_with("kv", first).await;
    bench
        .nudge("kv", Commit::to(1).event(4, kinds::kv_clear("k")))
        .await;
    assert_eq!(get(&bench, "kv", "k").await, None);
    assert_eq!(get(&bench, "kv", "other").await.as_deref(), Some("w"));
}

/// All keys are gone.
pub async fn test_kv_clear_all<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .and(kinds::kv_set("a", "1"))
        .and(kinds::kv_set("b", "2"));
    bench.create_with("kv", first).await;
    bench
        .nudge("kv", Commit::to(1).event(4, kinds::kv_clear_all()))
        .await;
    assert_eq!(get(&bench, "kv", "a").await, None);
    assert_eq!(get(&bench, "kv", "b").await, None);
}

/// A key that was never set is not there.
pub async fn test_kv_get_nonexistent<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("kv").await;
    assert_eq!(get(&bench, "kv", "never").await, None);
}

/// A stranger has no keys, which is no error.
pub async fn test_kv_get_unknown_instance<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    assert_eq!(get(&bench, "nobody", "k").await, None);
}

/// Clearing what is not there is fine.
pub async fn test_kv_clear_nonexistent_key<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("kv", Commit::first().and(kinds::kv_clear("never")))
        .await;
    assert_eq!(get(&bench, "kv", "never").await, None);
}

/// Clear all, then set, in one commit: the new key stays.
pub async fn test_kv_set_after_clear<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("kv", Commit::first().and(kinds::kv_set("old", "1")))
        .await;
    let commit = Commit::to(1)
        .event(3, kinds::kv_clear_all())
        .and(kinds::kv_set("new", "2"));
    bench.nudge("kv", commit).await;
    assert_eq!(get(&bench, "kv", "old").await, None);
    assert_eq!(get(&bench, "kv", "new").await.as_deref(), Some("2"));
}

/// The empty text is a value.
pub async fn test_kv_empty_value<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("kv", Commit::first().and(kinds::kv_set("k", "")))
        .await;
    assert_eq!(get(&bench, "kv", "k").await.as_deref(), Some(""));
}

/// A value of 16 KiB comes back as it was.
pub async fn test_kv_large_value<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let value: String = ('a'..='z').cycle().take(16 * 1024).collect();
    bench
        .create_with("kv", Commit::first().and(kinds::kv_set("k", &value)))
        .await;
    assert_eq!(get(&bench, "kv", "k").await, Some(value));
}

/// Keys may hold anything.
pub async fn test_kv_special_chars_in_key<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let keys = [
        "two words",
        "鍵",
        "a.b.c",
        "path/to/key",
        "🔑",
        "it's \"quoted\"",
        "100%_sure",
    ];
    let mut first = Commit::first();
    for key in keys {
        first = first.and(kinds::kv_set(key, &format!("value of {key}")));
    }
    bench.create_with("kv", first).await;
    for key in keys {
        assert_eq!(
            get(&bench, "kv", key).await,
            Some(format!("value of {key}"))
        );
    }
}

/// Instances do not share keys.
pub async fn test_kv_instance_isolation<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for (instance, value) in [("one", "1"), ("two", "2")] {
        let first = Commit::first().and(kinds::kv_set("k", value));
        bench.create_with(instance, first).await;
    }
    assert_eq!(get(&bench, "one", "k").await.as_deref(), Some("1"));
    assert_eq!(get(&bench, "two", "k").await.as_deref(), Some("2"));
}

/// Clearing one instance leaves the other.
pub async fn test_kv_clear_isolation<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for instance in ["one", "two"] {
        let first = Commit::first().and(kinds::kv_set("k", "v"));
        bench.create_with(instance, first).await;
    }
    bench
        .nudge("one", Commit::to(1).event(3, kinds::kv_clear_all()))
        .await;
    assert_eq!(get(&bench, "one", "k").await, None);
    assert_eq!(get(&bench, "two", "k").await.as_deref(), Some("v"));
}
