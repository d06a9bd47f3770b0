//! Several processes on one file. The children are this test binary itself; a variable names the file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use duroxide_core::provider::{Provider, TagFilter};

use crate::support::*;

const FILE: &str = "DUROXIDE_SQLITE_TEST_FILE";
const ITEMS: u64 = 400;

pub(crate) fn child(test: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

pub(crate) fn file_of_parent() -> PathBuf {
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

/// How many POSIX locks this process holds on a file, as the system tells.
#[cfg(target_os = "linux")]
fn locks_on(path: &Path) -> usize {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata(path).unwrap().ino();
    let (pid, inode) = (std::process::id().to_string(), format!(":{inode}"));
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let is_ours = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1) == Some(&"POSIX")
            && words.get(4) == Some(&pid.as_str())
            && words.get(5).is_some_and(|file| file.ends_with(&inode))
    };
    locks.lines().filter(is_ours).count()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn opening_and_closing_a_store_takes_no_lock_from_another_one_on_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    create(&store, "a").await;
    let held = locks_on(&path);
    assert!(held > 0, "an open database is locked");
    for _ in 0..3 {
        let second = file_store(&path).await;
        assert_eq!(second.read("a").await.unwrap().len(), 1);
        second.close().await;
    }
    assert!(locks_on(&path) > 0, "the first store still has its lock");
    create(&store, "b").await;
}

#[tokio::test]
async fn claims_are_answered_beside_a_process_that_never_stops_writing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = file_store(&path).await;
    let mut peer = child("processes::child_that_never_stops_writing", &path);
    while shell(&path)
        .query_row("SELECT COUNT(*) FROM worker_queue", [], |row| {
            row.get::<_, i64>(0)
        })
        .is_ok_and(|written| written < 100)
    {
        tokio::task::yield_now().await;
    }
    for n in 0..30 {
        let instance = format!("i{n}");
        send(&store, start(&instance)).await;
        let began = std::time::Instant::now();
        let (item, token, _) = fetch(&store).await.expect("the start is there");
        assert_eq!(item.instance, instance);
        ack(&store, &token, 1, vec![started(&instance)], named()).await;
        let taken = began.elapsed();
        assert!(taken < Duration::from_secs(5), "{taken:?}");
    }
    peer.kill().unwrap();
    peer.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by its parent test"]
async fn child_that_never_stops_writing() {
    let store = std::sync::Arc::new(file_store(&file_of_parent()).await);
    let writers = (0..8_u64).map(|writer| {
        let store = std::sync::Arc::clone(&store);
        tokio::spawn(async move {
            for id in 1.. {
                let one = activity("busy", writer << 32 | id);
                store.enqueue_for_worker(one).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}
