//! Cases: entries.

use super::Harness;
use crate::atomic::{Batch, Operation, Query};

/// Entries are ordered by the bytes of their keys.
pub async fn entries_come_back_by_key_page_by_page(harness: &impl Harness) {
    let store = harness.store();
    for key in ["b", "a", "c", "B", "ä"] {
        store.put("s", key, key.into()).await.expect("put");
    }
    store.put("s", "a", b"changed".to_vec()).await.expect("put");
    let all = store.entries("s").await.expect("entries");
    let keys: Vec<_> = all.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["B", "a", "b", "c", "ä"]);
    assert_eq!(all[1].value, b"changed");
    let page = Query::Entries {
        scope: "s".to_owned(),
        after: Some("a".to_owned()),
        limit: 2,
    };
    let page = store.query_one(page).await.and_then(|a| a.into_entries());
    let page = page.expect("entries");
    let keys: Vec<_> = page.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["b", "c"]);
    assert!(store.delete("s", "b").await.expect("delete"));
    assert!(!store.delete("s", "b").await.expect("delete"));
    assert_eq!(store.get("s", "b").await.expect("get"), None);
}

/// No character is special, and scope and key do not run into each other.
pub async fn any_text_is_a_scope_and_a_key(harness: &impl Harness) {
    let store = harness.store();
    let texts = [
        "", "/", "a/b", "a", "b/c", "\0", "a\0", "😀", "'; --", "\u{202e}",
    ];
    for scope in texts {
        for key in texts {
            let value = format!("{scope}|{key}").into_bytes();
            store.put(scope, key, value).await.expect("put");
        }
    }
    for scope in texts {
        assert_eq!(store.entries(scope).await.expect("entries").len(), 10);
        for key in texts {
            let value = store.get(scope, key).await.expect("get");
            assert_eq!(value, Some(format!("{scope}|{key}").into_bytes()));
        }
    }
}

/// Scopes that begin alike are different scopes.
pub async fn deleting_a_scope_leaves_other_scopes_alone(harness: &impl Harness) {
    let store = harness.store();
    for (scope, key) in [("a", "1"), ("a", "2"), ("aa", "1"), ("a/", "1")] {
        store.put(scope, key, Vec::new()).await.expect("put");
    }
    let scope = "a".to_owned();
    let counts = store
        .commit(Batch::of([Operation::DeleteScope { scope }]))
        .await;
    assert_eq!(counts.expect("commit"), [2]);
    assert!(store.entries("a").await.expect("entries").is_empty());
    assert_eq!(store.get("aa", "1").await.expect("get"), Some(Vec::new()));
    assert_eq!(store.get("a/", "1").await.expect("get"), Some(Vec::new()));
}
