//! `docs/cli.md` says what the binary does: every command has a section, and every example runs.

use std::path::Path;

use crate::support::{Kind, Store, answer, binary};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_command_is_documented() {
    let page = page();
    let help = answer(binary().arg("--help").output().unwrap()).out;
    let commands = help.split("Commands:").nth(1).unwrap();
    let commands = commands.split("Options:").next().unwrap();
    for line in commands.lines().filter(|line| line.starts_with("  ")) {
        let name = line.split_whitespace().next().unwrap();
        if line.starts_with("   ") || name == "help" {
            continue;
        }
        assert!(
            page.contains(&format!("`duroxide {name}")),
            "{name} has no example"
        );
    }
}

/// The examples are those of one store; each must succeed, in the order of the page.
#[tokio::test(flavor = "multi_thread")]
async fn every_example_runs() {
    let store = Store::filled(Kind::Sqlite).await;
    let page = page();
    let mut ran = 0;
    for line in page.lines() {
        let Some(command) = line.strip_prefix("$ duroxide ") else {
            continue;
        };
        let words: Vec<&str> = command.split_whitespace().collect();
        let told = store.run(&words);
        let expected = match words[0] {
            // The page says that these wait for, or show, something that failed.
            "wait" if words.contains(&"refused") => 5,
            _ => 0,
        };
        assert_eq!(told.code, expected, "{command}: {told:?}");
        ran += 1;
    }
    assert!(ran > 20, "the page has examples: {ran}");
}
