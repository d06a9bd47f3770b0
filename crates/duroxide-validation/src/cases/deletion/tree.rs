//! Parents and children.

use super::{gone, grow_tree};
use crate::ProviderFactory;
use crate::fixture::Bench;

/// Descendants cannot be deleted by themselves, not even by force; the root takes all of them.
pub async fn test_cascade_delete_hierarchy<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    grow_tree(&bench).await;
    for (child, force) in [("left", false), ("left", true), ("leaf", true)] {
        let error = bench.admin().delete_instance(child, force).await;
        let text = error.expect_err("it is a child").message.to_lowercase();
        assert!(
            ["sub-orchestration", "root", "parent"]
                .iter()
                .any(|w| text.contains(w)),
            "the message points to the root: {text}"
        );
    }
    let deleted = bench.admin().delete_instance("root", false).await;
    assert_eq!(deleted.expect("all completed").instances_deleted, 4);
    for instance in ["root", "left", "right", "leaf"] {
        gone(&bench, instance).await;
    }
}

/// Children are listed one level deep; leaves and strangers have none.
pub async fn test_list_children<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    grow_tree(&bench).await;
    for (parent, expected) in [
        ("root", vec!["left", "right"]),
        ("left", vec!["leaf"]),
        ("leaf", vec![]),
        ("nobody", vec![]),
    ] {
        let mut children = bench
            .admin()
            .list_children(parent)
            .await
            .expect("a listing");
        children.sort();
        assert_eq!(children, expected, "children of {parent}");
    }
}

/// A root has no parent, a child has one, a stranger is an error.
pub async fn test_delete_get_parent_id<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    grow_tree(&bench).await;
    let admin = bench.admin();
    assert_eq!(admin.get_parent_id("root").await.expect("known"), None);
    let parent = admin.get_parent_id("leaf").await.expect("known");
    assert_eq!(parent.as_deref(), Some("left"));
    let error = admin.get_parent_id("nobody").await.expect_err("unknown");
    assert!(error.message.contains("not found"), "{error}");
}

/// A tree names every descendant, the root first.
pub async fn test_delete_get_instance_tree<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    grow_tree(&bench).await;
    let tree = bench
        .admin()
        .get_instance_tree("root")
        .await
        .expect("a tree");
    assert_eq!(tree.root_id, "root");
    assert_eq!(tree.all_ids.first().map(String::as_str), Some("root"));
    assert_eq!(tree.size(), 4);
    assert!(!tree.is_root_only());
    let place = |id: &str| tree.all_ids.iter().position(|known| known == id);
    assert!(place("left") < place("leaf"), "parents first: {tree:?}");
    let mut ids = tree.all_ids.clone();
    ids.sort();
    assert_eq!(ids, ["leaf", "left", "right", "root"]);

    let leaf = bench
        .admin()
        .get_instance_tree("leaf")
        .await
        .expect("a tree");
    assert!(leaf.is_root_only());
    assert_eq!(leaf.size(), 1);
}
