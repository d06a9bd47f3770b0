//! What the full matrix does not show, and why.

/// Cases that no mutant fails, each with the reason.
pub(super) const BITELESS: &[(&str, &str)] = &[
    (
        "deletion::test_delete_nonexistent_instance",
        "the trait refuses it before the store is asked",
    ),
    (
        "long_polling::test_short_poll_returns_immediately",
        "only stores that do not wait are asked, and the reference store waits",
    ),
    (
        "long_polling::test_short_poll_work_item_returns_immediately",
        "only stores that do not wait are asked, and the reference store waits",
    ),
];

/// Mutants that the same cases catch, each group with the reason. The names of a group are sorted.
pub(super) const TWINS: &[(&[&str], &str)] = &[
    (
        &["AlwaysMore", "PagesLoseTies"],
        "one case walks all pages; it fails because they do not end, or because an instance is missing",
    ),
    (
        &["AnsweredWaitsAreOpen", "WaitsHaveNoKind"],
        "one case asks for every kind of wait, open and answered",
    ),
    (
        &["ClosedStoreDeletes", "ClosedStoreIsLabelled"],
        "one case tries everything that operators change",
    ),
    (
        &["ClosedStoreListens", "ClosedStoreTakesBack"],
        "one case tries everything that the holder of a lease changes",
    ),
    (
        &["FamilyForgetsTheUnborn", "FamilyTellsChildrenFirst"],
        "one case compares the whole list of a family",
    ),
    (
        &["SnapshotForgetsChanges", "SnapshotIsOfTheCurrentExecution"],
        "one case compares a restored instance with the first one",
    ),
];
