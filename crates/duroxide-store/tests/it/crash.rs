//! Kill -9 in a loop: what was acknowledged is there, what was not is there as a whole or not at all.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use duroxide_store::redb::{Durability, RedbOptions, RedbStore};
use duroxide_store::{
    AtomicOps, Batch, Claim, EventLog, MessageQueue, MetadataStore, NewMessage, Operation, Query,
    Queue, Record,
};

const PARCELS: Queue = Queue::single("parcels");
const FILE: &str = "DUROXIDE_STORE_CRASH_FILE";
const RELAXED: &str = "DUROXIDE_STORE_CRASH_RELAXED";

/// What a child said before it was killed.
#[derive(Debug, Default)]
struct Acknowledged {
    written: BTreeSet<u64>,
    completed: BTreeSet<u64>,
}

/// Runs the child on the file and kills it after so many acknowledgements.
fn run_and_kill(file: &Path, relaxed: bool, after: usize, all: &mut Acknowledged) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "crash::child", "--nocapture"])
        .env(FILE, file)
        .env(RELAXED, if relaxed { "yes" } else { "no" })
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut heard = 0;
    for line in lines {
        // The last line may be cut off by the kill; a cut line has no end mark and is not an acknowledgement.
        let line = line.unwrap();
        let mut words = line.split(' ').skip_while(|word| !word.ends_with(':'));
        let (Some(what), Some(number), Some(".")) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let number = number.parse().unwrap();
        match what {
            "written:" => all.written.insert(number),
            "completed:" => all.completed.insert(number),
            other => panic!("unexpected word {other}"),
        };
        heard += 1;
        if heard == after {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(heard >= after, "the child ended by itself after {heard}");
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
    let mut all = Acknowledged::default();
    for round in 0..10 {
        run_and_kill(&file, false, 5 + 17 * round, &mut all);
        let store = RedbStore::open(&file).unwrap();
        let [events, entries, messages] = numbers_in(&store).await;
        assert_eq!(events, entries, "a batch was torn in round {round}");
        let lost: Vec<_> = all.written.difference(&events).collect();
        assert!(lost.is_empty(), "round {round} lost {lost:?}");
        let back: Vec<_> = all.completed.intersection(&messages).collect();
        assert!(back.is_empty(), "round {round} brought back {back:?}");
        assert!(messages.is_subset(&events));
    }
    assert!(
        all.completed.len() > 50,
        "the child also completed messages"
    );
}

#[tokio::test]
async fn a_relaxed_store_is_never_torn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let mut all = Acknowledged::default();
    for round in 0..3 {
        run_and_kill(&file, true, 300, &mut all);
        let store = RedbStore::open(&file).unwrap();
        let [events, entries, messages] = numbers_in(&store).await;
        assert_eq!(events, entries, "a batch was torn in round {round}");
        assert!(messages.is_subset(&events));
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

/// The process that is killed: writes and completes as fast as it can, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the tests above, in a process of its own"]
async fn child() {
    let options = RedbOptions {
        durability: match std::env::var(RELAXED).as_deref() {
            Ok("yes") => Durability::Relaxed,
            _ => Durability::Full,
        },
        ..RedbOptions::default()
    };
    let store = RedbStore::open_with(std::env::var(FILE).unwrap(), options).unwrap();
    let first = store.partition("log", 1).await.unwrap().last + 1;
    let writers = (0..4).map(|lane| {
        let store = store.clone();
        tokio::spawn(async move {
            for number in (first + lane..).step_by(4) {
                write(&store, number).await;
                say("written:", number);
                if number % 2 == 0 {
                    complete_one(&store).await;
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

async fn complete_one(store: &RedbStore) {
    for claimed in store.claim(Claim::one(PARCELS, 60_000)).await.unwrap() {
        let text = String::from_utf8(claimed.messages[0].payload.clone()).unwrap();
        store.complete(&claimed.token).await.unwrap();
        say("completed:", text.parse().unwrap());
    }
}

fn say(what: &str, number: u64) {
    let mut out = std::io::stdout().lock();
    writeln!(out, " {what} {number} .").unwrap();
    out.flush().unwrap();
}
