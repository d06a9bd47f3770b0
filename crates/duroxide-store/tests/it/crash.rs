//! Kill -9 in a loop: what was acknowledged is there, what was not is there as a whole or not at all.
//!
//! A kill ends the process, not the operating system: what the process had written to the file is there afterwards,
//! flushed to disk or not. So these tests show what a store had handed to the operating system when it acknowledged,
//! and that no batch is torn. They cannot show that it asked for a flush; only a machine that loses its power can.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use duroxide_store::redb::{Durability, RedbOptions, RedbStore};
use duroxide_store::{
    AtomicOps, Batch, Claim, EventLog, MessageQueue, MetadataStore, NewMessage, Operation, Query,
    Queue, Record,
};

const PARCELS: Queue = Queue::single("parcels");
const FILE: &str = "DUROXIDE_STORE_CRASH_FILE";
const RELAXED: &str = "DUROXIDE_STORE_CRASH_RELAXED";
/// How long a relaxed store may keep an acknowledged write to itself.
const FLUSH_AFTER: Duration = Duration::from_millis(50);

/// One line of a child.
#[derive(Debug, Clone, Copy)]
struct Acknowledged {
    what: What,
    number: u64,
    /// Since the child began.
    at: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Written,
    Completed,
}

impl Acknowledged {
    /// Reads a line. The last one may be cut off by the kill; it has no end mark then and is not an acknowledgement.
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ').skip_while(|word| !word.ends_with(':'));
        let (what, number, at) = (words.next()?, words.next()?, words.next()?);
        let "." = words.next()? else {
            return None;
        };
        Some(Self {
            what: match what {
                "written:" => What::Written,
                "completed:" => What::Completed,
                other => panic!("unexpected word {other}"),
            },
            number: number.parse().unwrap(),
            at: Duration::from_micros(at.parse().unwrap()),
        })
    }
}

fn numbers(heard: &[Acknowledged], what: What) -> BTreeSet<u64> {
    let those = heard.iter().filter(|one| one.what == what);
    those.map(|one| one.number).collect()
}

/// Runs the child on the file and kills it once enough was heard. Returns all that it said.
fn run_and_kill(
    file: &Path,
    relaxed: bool,
    enough: impl Fn(&[Acknowledged]) -> bool,
) -> Vec<Acknowledged> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "crash::child", "--nocapture"])
        .env(FILE, file)
        .env(RELAXED, if relaxed { "yes" } else { "no" })
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut heard = Vec::new();
    let mut killed = false;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let Some(one) = Acknowledged::read(&line.unwrap()) else {
            continue;
        };
        heard.push(one);
        if !killed && enough(&heard) {
            child.kill().unwrap();
            killed = true;
        }
    }
    child.wait().unwrap();
    assert!(killed, "the child ended by itself after {}", heard.len());
    heard
}

/// What a relaxed store must have flushed before it acknowledged the last of these, one after another.
///
/// One thread writes and flushes. It counts from the first write that is not flushed, which the acknowledgement after
/// it proves to be counted. A write that was asked for once the time was over ends with a flush, and the
/// acknowledgement after that one proves that the flush is done.
fn flushed(heard: &[Acknowledged]) -> &[Acknowledged] {
    let Some(overdue) = heard.iter().rev().nth(2) else {
        return &[];
    };
    let counted = heard.iter().skip(1);
    let old = counted.take_while(|next| next.at + FLUSH_AFTER <= overdue.at);
    &heard[..old.count()]
}

async fn numbers_in(store: &RedbStore) -> [BTreeSet<u64>; 3] {
    let events = store.events("log", 1, 0).await.unwrap();
    let entries = store.entries("seen").await.unwrap();
    let messages = Query::Messages {
        queue: PARCELS,
        group: None,
        after: 0,
        limit: usize::MAX,
    };
    let messages = store.query_one(messages).await.unwrap().into_messages();
    let number = |bytes: &[u8]| -> u64 { std::str::from_utf8(bytes).unwrap().parse().unwrap() };
    [
        events.iter().map(|event| event.number).collect(),
        entries.iter().map(|entry| number(&entry.value)).collect(),
        messages
            .unwrap()
            .iter()
            .map(|m| number(&m.payload))
            .collect(),
    ]
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_by_ten_kills() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let mut all = Vec::new();
    for round in 0..10 {
        let enough = |heard: &[Acknowledged]| heard.len() >= 5 + 17 * round;
        all.extend(run_and_kill(&file, false, enough));
        let store = RedbStore::open(&file).unwrap();
        let [events, entries, messages] = numbers_in(&store).await;
        assert_eq!(events, entries, "a batch was torn in round {round}");
        let written = numbers(&all, What::Written);
        let lost: Vec<_> = written.difference(&events).collect();
        assert!(lost.is_empty(), "round {round} lost {lost:?}");
        let completed = numbers(&all, What::Completed);
        let back: Vec<_> = completed.intersection(&messages).collect();
        assert!(back.is_empty(), "round {round} brought back {back:?}");
        assert!(messages.is_subset(&events));
    }
    assert!(
        numbers(&all, What::Completed).len() > 50,
        "the child also completed messages"
    );
}

#[tokio::test]
async fn a_relaxed_store_loses_at_most_the_writes_of_the_last_moment() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    for round in 0..3 {
        let heard = run_and_kill(&file, true, |heard| flushed(heard).len() >= 100);
        let store = RedbStore::open(&file).unwrap();
        let [events, entries, messages] = numbers_in(&store).await;
        assert_eq!(events, entries, "a batch was torn in round {round}");
        assert!(messages.is_subset(&events));
        let last = events.last().copied().unwrap_or_default();
        let all_before: BTreeSet<u64> = (1..=last).collect();
        assert_eq!(
            events, all_before,
            "round {round} lost what lies before something kept"
        );
        let flushed = flushed(&heard);
        let written = numbers(flushed, What::Written);
        let lost: Vec<_> = written.difference(&events).collect();
        assert!(lost.is_empty(), "round {round} lost {lost:?}, kept {last}");
        let completed = numbers(flushed, What::Completed);
        let back: Vec<_> = completed.intersection(&messages).collect();
        assert!(back.is_empty(), "round {round} brought back {back:?}");
    }
}

#[tokio::test]
async fn closing_a_relaxed_store_flushes_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let options = RedbOptions {
        durability: Durability::Relaxed,
        ..RedbOptions::default()
    };
    let store = RedbStore::open_with(&file, options).unwrap();
    store.put("s", "k", vec![7]).await.unwrap();
    drop(store);
    let store = RedbStore::open(&file).unwrap();
    assert_eq!(store.get("s", "k").await.unwrap(), Some(vec![7]));
}

#[tokio::test]
async fn leases_and_attempts_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let store = RedbStore::open(&file).unwrap();
    let message = NewMessage::new("g", "x");
    store.enqueue(&PARCELS, message).await.unwrap();
    let claimed = store.claim(Claim::one(PARCELS, 60_000)).await.unwrap();
    drop(store);
    let store = RedbStore::open(&file).unwrap();
    let again = store.claim(Claim::one(PARCELS, 60_000)).await.unwrap();
    assert!(again.is_empty(), "the lease still holds");
    let lease = store.lease(&claimed[0].token).await.unwrap().unwrap();
    assert!(lease.valid);
    store
        .release(&claimed[0].token, duroxide_store::After::Now, false)
        .await
        .unwrap();
    let again = store.claim(Claim::one(PARCELS, 60_000)).await.unwrap();
    assert_eq!(again[0].messages[0].attempts, 2);
}

#[test]
fn a_file_is_open_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let store = RedbStore::open(&file).unwrap();
    assert!(RedbStore::open(&file).is_err());
    drop(store);
    RedbStore::open(&file).unwrap();
}

/// The process that is killed: writes and completes as fast as it can, and says so. A relaxed store is written to by
/// one task, so that the order of the writes is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the tests above, in a process of its own"]
async fn child() {
    let relaxed = std::env::var(RELAXED).is_ok_and(|relaxed| relaxed == "yes");
    let (durability, lanes) = if relaxed {
        (Durability::Relaxed, 1)
    } else {
        (Durability::Full, 4)
    };
    let options = RedbOptions {
        durability,
        ..RedbOptions::default()
    };
    let store = RedbStore::open_with(std::env::var(FILE).unwrap(), options).unwrap();
    let first = store.partition("log", 1).await.unwrap().last + 1;
    let begun = Instant::now();
    let writers = (0..lanes).map(|lane| {
        let store = store.clone();
        tokio::spawn(async move {
            for number in (first + lane..).step_by(usize::try_from(lanes).unwrap()) {
                write(&store, number).await;
                say("written:", number, begun);
                if number % 2 == 0 {
                    complete_one(&store, begun).await;
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

async fn write(store: &RedbStore, number: u64) {
    let text = number.to_string();
    let record = Record {
        number,
        data: text.clone().into_bytes(),
    };
    let batch = Batch::of([
        Operation::Append {
            entity: "log".into(),
            partition: 1,
            events: vec![record],
        },
        Operation::Put {
            scope: "seen".into(),
            key: text.clone(),
            value: text.clone().into_bytes(),
        },
        Operation::Enqueue {
            queue: PARCELS,
            message: NewMessage::new("g", text),
        },
    ]);
    store.commit(batch).await.unwrap();
}

async fn complete_one(store: &RedbStore, begun: Instant) {
    for claimed in store.claim(Claim::one(PARCELS, 60_000)).await.unwrap() {
        let text = String::from_utf8(claimed.messages[0].payload.clone()).unwrap();
        store.complete(&claimed.token).await.unwrap();
        say("completed:", text.parse().unwrap(), begun);
    }
}

fn say(what: &str, number: u64, begun: Instant) {
    let at = begun.elapsed().as_micros();
    let mut out = std::io::stdout().lock();
    writeln!(out, " {what} {number} {at} .").unwrap();
    out.flush().unwrap();
}
