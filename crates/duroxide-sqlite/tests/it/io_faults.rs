//! Writes and syncs that fail in the middle of commits, in a child process under load: nothing is acknowledged that is
//! not kept, errors say that trying again makes sense, and once the fault is over the same process goes on.
//!
//! The faults come from the system, not from us: `strace` lets chosen calls fail, `prlimit` forbids files to grow.
//! Where these tools are missing or not allowed, the tests say so and are skipped.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duroxide_core::provider::Provider;
use duroxide_sqlite::{SqliteOptions, SqliteProvider};

use crate::support::*;

const FILE: &str = "DUROXIDE_SQLITE_FAULTY_FILE";
/// Which options the child opens the file with.
const MODE: &str = "DUROXIDE_SQLITE_FAULTY_MODE";
const CHILD: &str = "io_faults::child_that_writes_until_all_is_kept";
const CALLERS: u64 = 8;
const ITEMS: u64 = 240;
/// Large enough that a few dozen fill what a limited file may hold.
const INPUT_BYTES: usize = 20_000;

/// Every write of the child, as it reported them.
#[derive(Default)]
struct Reported {
    kept: HashMap<u64, u32>,
    failures: u32,
    /// Failures that said that the commit may have happened.
    uncertain: u32,
}

impl Reported {
    fn add(&mut self, line: &str) {
        if let Some(id) = line.strip_prefix("kept ") {
            *self.kept.entry(id.parse().unwrap()).or_default() += 1;
        } else if line.starts_with("failed ") {
            self.failures += 1;
            self.uncertain += u32::from(line.contains("the disk failed during a commit"));
        }
    }
}

/// How the log is checkpointed while calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Not at all: the log is too short.
    Default,
    /// Often, by a thread beside the writer and by the writer.
    Beside,
    /// Often, by the writer alone.
    Alone,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Default, Self::Beside, Self::Alone];

    fn options(self) -> SqliteOptions {
        let mut options = SqliteOptions::default();
        if self != Self::Default {
            options.tuning.checkpoint_pages = Some(40);
        }
        options.tuning.writer_checkpoints_alone = self == Self::Alone;
        options
    }
}

/// The child, started by another program.
fn child_behind(words: &[&str], path: &Path, mode: Mode) -> Command {
    let mut all = words.iter().map(std::ffi::OsString::from);
    let mut command = Command::new(all.next().expect("a program"));
    command
        .args(all)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", CHILD, "--ignored", "--nocapture"])
        .env(FILE, path)
        .env(MODE, format!("{mode:?}"))
        .stdout(Stdio::piped());
    command
}

/// An empty store, closed, so that the faults meet commits and not the opening.
async fn prepared(folder: &Path) -> PathBuf {
    let path = folder.join("a.db");
    drop(SqliteProvider::new(&url(&path), None).await.unwrap());
    path
}

/// What was acknowledged is there, and the file is sound.
async fn nothing_is_lost(path: &Path, reported: &Reported) {
    assert_eq!(reported.kept.len() as u64, ITEMS, "everything got through");
    let file = shell(path);
    let check: String = file
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
    drop(file);
    let store = SqliteProvider::new(&url(path), None).await.unwrap();
    let mut found: HashMap<u64, u32> = HashMap::new();
    while let Some((item, token, _)) = fetch_work(&store).await {
        if let duroxide_core::WorkItem::ActivityExecute { id, .. } = item {
            *found.entry(id).or_default() += 1;
        }
        store.ack_work_item(&token, None).await.unwrap();
    }
    // A write that failed and was tried again may be there twice: the failure does not say whether it was kept.
    for (id, times) in &reported.kept {
        let there = found.get(id).copied().unwrap_or(0);
        assert!(there >= *times, "write {id} was acknowledged and is gone");
    }
    assert_eq!(found.len() as u64, ITEMS, "and nothing was made up");
}

fn strace_works() -> bool {
    let probe = Command::new("strace")
        .args([
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "inject=sync:error=EIO",
            "true",
        ])
        .output();
    probe.is_ok_and(|output| output.status.success())
}

/// A contributor may run the tests without a tool; a build server may not.
fn skip(why: &str) {
    assert!(
        !std::env::var("CI").is_ok_and(|ci| ci == "true"),
        "{why}: run `cargo xtask setup`"
    );
    eprintln!("SKIPPED: {why}; `cargo xtask setup` installs what is missing");
}

/// Runs the child to its end while chosen calls fail, with each way to checkpoint.
async fn under_injected(fault: &str) {
    for mode in Mode::ALL {
        under_injected_in(fault, mode).await;
    }
}

/// What the child reported; `None` if nothing could be injected.
async fn under_injected_in(fault: &str, mode: Mode) -> Option<Reported> {
    if !strace_works() {
        skip("strace is not there or may not trace");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = prepared(folder.path()).await;
    let calls = fault.split(':').next().expect("calls, then the error");
    let (trace, inject) = (format!("trace={calls}"), format!("inject={fault}"));
    let words = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        &trace,
        "-e",
        &inject,
    ];
    let Output { status, stdout, .. } = child_behind(&words, &path, mode).output().unwrap();
    let mut reported = Reported::default();
    let text = String::from_utf8(stdout).unwrap();
    text.lines().for_each(|line| reported.add(line));
    assert!(status.success(), "the child ended with {status}\n{text}");
    assert!(reported.failures > 0, "{fault} met no write");
    nothing_is_lost(&path, &reported).await;
    Some(reported)
}

// A commit of all callers makes about a hundred writes, so that some commits fail in their middle and some succeed.

#[tokio::test]
async fn a_disk_that_is_full_now_and_then_loses_nothing() {
    under_injected("pwrite64:error=ENOSPC:when=120+251").await;
}

#[tokio::test]
async fn writes_that_fail_now_and_then_lose_nothing() {
    under_injected("pwrite64:error=EIO:when=90+307").await;
}

#[tokio::test]
async fn syncs_that_fail_now_and_then_are_never_acknowledged() {
    under_injected("fsync,fdatasync:error=EIO:when=4+5").await;
}

#[tokio::test]
async fn a_commit_whose_sync_failed_is_told_as_uncertain() {
    let fault = "fsync,fdatasync:error=EIO:when=4+5";
    if let Some(reported) = under_injected_in(fault, Mode::Default).await {
        assert!(reported.uncertain > 0, "of {} failures", reported.failures);
    }
}

#[tokio::test]
async fn a_file_that_may_not_grow_fails_commits_until_it_may_again() {
    if Command::new("prlimit").arg("--version").output().is_err() {
        skip("prlimit is not there");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = prepared(folder.path()).await;
    // The signal is ignored, so that a write beyond the limit is an error (EFBIG) and not the end.
    let script = "trap '' XFSZ; exec prlimit --fsize=1000000:unlimited \"$@\"";
    let mut child = child_behind(&["sh", "-c", script, "sh"], &path, Mode::Default)
        .spawn()
        .unwrap();
    let mut reported = Reported::default();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        reported.add(&line.unwrap());
        if reported.failures == CALLERS as u32 {
            let process = child.id().to_string();
            let lifted = Command::new("prlimit")
                .args(["--pid", &process, "--fsize=unlimited:unlimited"])
                .status();
            assert!(lifted.unwrap().success(), "the limit is lifted");
        }
    }
    assert!(child.wait().unwrap().success());
    assert!(reported.failures >= CALLERS as u32, "the limit was met");
    nothing_is_lost(&path, &reported).await;
}

/// Writes from several callers at once; each write is tried until it is acknowledged.
#[tokio::test]
#[ignore = "run by its parent test"]
async fn child_that_writes_until_all_is_kept() {
    let path = PathBuf::from(std::env::var_os(FILE).expect("started by a test"));
    let mode = std::env::var(MODE).expect("started by a test");
    let mode = Mode::ALL.into_iter().find(|it| format!("{it:?}") == mode);
    let options = mode.expect("a mode").options();
    let store = Arc::new(
        SqliteProvider::new(&url(&path), Some(options))
            .await
            .unwrap(),
    );
    let next = Arc::new(AtomicU64::new(1));
    let callers = (0..CALLERS).map(|_| {
        let (store, next) = (Arc::clone(&store), Arc::clone(&next));
        tokio::spawn(async move {
            loop {
                let id = next.fetch_add(1, Ordering::SeqCst);
                if id > ITEMS {
                    return;
                }
                write_until_kept(&store, id).await;
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
}

async fn write_until_kept(store: &SqliteProvider, id: u64) {
    for _ in 0..1_000 {
        let item = duroxide_core::WorkItem::ActivityExecute {
            instance: "a".to_owned(),
            execution_id: 1,
            id,
            name: "Act".to_owned(),
            input: "x".repeat(INPUT_BYTES),
            session_id: None,
            tag: None,
        };
        match store.enqueue_for_worker(item).await {
            Ok(()) => return println!("kept {id}"),
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                println!("failed {id}: {error}");
                // Reads do not need the disk to take anything.
                store.read("a").await.unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
    panic!("write {id} never got through");
}
