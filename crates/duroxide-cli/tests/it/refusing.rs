//! What goes wrong, and the exit code that says so.

use crate::support::{Kind, Store, answer, binary};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_told() {
    for kind in [Kind::Sqlite, Kind::Redb] {
        let store = Store::empty(kind).await;
        for arguments in [
            &["show", "nobody"][..],
            &["history", "nobody"],
            &["tree", "nobody"],
            &["explain", "nobody"],
            &["signal", "nobody", "go"],
            &["kv", "nobody", "key"],
            &["dead-letters", "show", "7"],
            &["delete", "nobody", "--yes"],
        ] {
            let refused = store.run(arguments);
            assert_eq!(refused.code, 3, "{arguments:?}: {refused:?}");
            assert!(refused.err.starts_with("error: "), "{refused:?}");
        }
        let late = store.run(&["wait", "nobody", "--timeout", "20ms"]);
        assert_eq!(late.code, 4, "{late:?}");
        let told = store.run(&["show", "nobody", "--json"]);
        let error: serde_json::Value = serde_json::from_str(&told.err).unwrap();
        assert_eq!(error["exit_code"], 3);
        let empty = store.run(&["list"]);
        assert_eq!(
            (empty.code, empty.err.as_str()),
            (0, "no instance matches\n")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_not_there_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    for scheme in ["sqlite", "redb"] {
        let path = folder.path().join(format!("missing.{scheme}"));
        let address = format!("{scheme}:{}", path.display());
        for arguments in [&["list"][..], &["start", "order", "a"]] {
            let output = binary()
                .args(["--store", &address])
                .args(arguments)
                .output();
            let refused = answer(output.unwrap());
            assert_eq!(refused.code, 8, "{refused:?}");
            assert!(!path.exists());
        }
    }
    let nameless = answer(binary().arg("list").output().unwrap());
    assert_eq!(nameless.code, 2, "{nameless:?}");
    let strange = answer(
        binary()
            .args(["-s", "mysql://u:pw@h/d", "list"])
            .output()
            .unwrap(),
    );
    assert_eq!(strange.code, 8, "{strange:?}");
    assert!(!strange.err.contains("pw"), "no password: {strange:?}");
}

#[test]
fn completions_need_no_store() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = answer(binary().args(["completions", shell]).output().unwrap());
        assert_eq!(script.code, 0, "{script:?}");
        assert!(script.out.contains("dead-letters"), "{shell}");
    }
}
