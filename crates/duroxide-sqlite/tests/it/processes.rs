//! Several processes on one file. The children are this test binary itself; a variable names the file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use duroxide_core::provider::{Provider, TagFilter};

use crate::support::*;

const FILE: &str = "DUROXIDE_SQLITE_TEST_FILE";
const ITEMS: u64 = 400;

fn child(test: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

fn file_of_parent() -> PathBuf {
    PathBuf::from(std::env::var_os(FILE).expect("started by a test"))
}

#[tokio::test]
async fn four_processes_share_the_work_without_doing_anything_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let children: Vec<Child> = (0..4)
        .map(|_| child("processes::child_that_works", &path))
        .collect();
    let store = file_store(&path).await;
    for id in 1..=ITEMS {
        store.enqueue_for_worker(activity("a", id)).await.unwrap();
    }
    let mut done = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        done.extend(
            text.lines()
                .filter_map(|line| line.strip_prefix("did ")?.parse::<u64>().ok()),
        );
    }
    assert_eq!(done.len() as u64, ITEMS);
    assert_eq!(done.iter().collect::<HashSet<_>>().len() as u64, ITEMS);
    let check: String = shell(&path)
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
}

#[tokio::test]
#[ignore = "run by its parent test"]
async fn child_that_works() {
    let store = file_store(&file_of_parent()).await;
    let claim =
        || store.fetch_work_item(LEASE, Duration::from_secs(2), None, &TagFilter::DefaultOnly);
    while let Some((item, token, _)) = claim().await.unwrap() {
        store.ack_work_item(&token, None).await.unwrap();
        if let duroxide_core::WorkItem::ActivityExecute { id, .. } = item {
            println!("did {id}");
        }
    }
}

#[tokio::test]
async fn what_a_killed_process_acknowledged_is_still_there() {
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let mut acknowledged = 0;
    for round in 0..5 {
        let mut victim = child("processes::child_that_is_killed", &path);
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        let wanted = 10 + 7 * round;
        let mut seen = 0;
        while seen < wanted {
            let line = lines.next().expect("the child writes for ever").unwrap();
            if line.starts_with("wrote") {
                seen += 1;
            }
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        acknowledged += seen;
        let store = file_store(&path).await;
        let depth = admin(&store).get_queue_depths().await.unwrap().worker_queue;
        assert!(depth >= acknowledged, "{depth} of {acknowledged}");
        acknowledged = depth;
    }
    let check: String = shell(&path)
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
}

#[tokio::test]
#[ignore = "run by its parent test"]
async fn child_that_is_killed() {
    let store = file_store(&file_of_parent()).await;
    for id in 0.. {
        store.enqueue_for_worker(activity("a", id)).await.unwrap();
        println!("wrote {id}");
    }
}
