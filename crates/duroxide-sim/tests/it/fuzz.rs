//! Fuzzing: what is stored is damaged by chance, and nothing panics, hangs, or answers with something that nobody
//! stored. In: events and messages as they are stored, whole files. Out: an error or a value, never a panic.
//!
//! Each target runs for `FUZZ_SECONDS` seconds, 2 unless it says otherwise. A failure names its seed.

mod code;

use std::path::Path;
use std::time::{Duration, Instant};

use duroxide_core::provider::{TagFilter, TurnClaim};
use duroxide_core::{Event, EventKind, WorkItem};
use duroxide_runtime::Client;
use duroxide_sim::rng::Rng;

use crate::power_loss::worker::Kind;

fn rounds() -> impl Iterator<Item = u64> {
    let seconds = std::env::var("FUZZ_SECONDS").ok();
    let seconds = seconds.map_or(2, |text| text.parse().expect("FUZZ_SECONDS is a number"));
    let until = Instant::now() + Duration::from_secs(seconds);
    (0..).take_while(move |_| Instant::now() < until)
}

/// A few changes: bits flipped, bytes removed, doubled, replaced by bytes of meaning.
fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..1 + rng.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.below(bytes.len());
        match rng.below(5) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => drop(bytes.remove(at)),
            2 => bytes[at] = *rng.pick(b"{}[]\",:0-9eE.\\u\0\xff"),
            3 => bytes.truncate(at),
            _ => {
                let end = (at + 1 + rng.below(16)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
}

/// What still decodes is written and read again as the same.
fn decodes_or_not<T>(bytes: &[u8])
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    if let Ok(value) = serde_json::from_slice::<T>(bytes) {
        let written = serde_json::to_string(&value).expect("what was read can be written");
        let again: T = serde_json::from_str(&written).expect("what was written can be read");
        let written_again = serde_json::to_string(&again).expect("what was read can be written");
        assert_eq!(written, written_again);
    }
}

fn events() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../duroxide-core/tests/histories");
    let mut events = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the recorded histories are there") {
        let path = entry.expect("a file of the folder").path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let text = std::fs::read_to_string(path).expect("a history can be read");
            let json: serde_json::Value = serde_json::from_str(&text).expect("a history is JSON");
            collect(&json, &mut events);
        }
    }
    assert!(events.len() > 100, "only {} events", events.len());
    events
}

/// Every object that is an event, wherever it is.
fn collect(json: &serde_json::Value, events: &mut Vec<Vec<u8>>) {
    if serde_json::from_value::<Event>(json.clone()).is_ok() {
        events.push(json.to_string().into_bytes());
        return;
    }
    match json {
        serde_json::Value::Array(all) => all.iter().for_each(|one| collect(one, events)),
        serde_json::Value::Object(all) => all.values().for_each(|one| collect(one, events)),
        _ => {}
    }
}

#[test]
fn a_damaged_event_is_an_error_or_a_value() {
    let events = events();
    for seed in rounds() {
        let mut rng = Rng::new(seed);
        let mut bytes = rng.pick(&events).clone();
        damage(&mut rng, &mut bytes);
        decodes_or_not::<Event>(&bytes);
    }
}

/// One message of each kind.
const MESSAGES: [&str; 11] = [
    r#"{"StartOrchestration":{"instance":"i","orchestration":"o","input":"{}","version":"1.0.0","parent_instance":"p","parent_id":7,"parent_execution_id":1,"execution_id":1}}"#,
    r#"{"ActivityExecute":{"instance":"i","execution_id":1,"id":7,"name":"a","input":"x","session_id":"s","tag":"t"}}"#,
    r#"{"ActivityCompleted":{"instance":"i","execution_id":1,"id":7,"result":"\u0000\udbff\udfff"}}"#,
    r#"{"ActivityFailed":{"instance":"i","execution_id":1,"id":7,"details":{"Application":{"kind":"ActivityFailed","message":"m","retryable":false}}}}"#,
    r#"{"TimerFired":{"instance":"i","execution_id":1,"id":7,"fire_at_ms":18446744073709551615}}"#,
    r#"{"ExternalRaised":{"instance":"i","name":"go","data":"{}"}}"#,
    r#"{"SubOrchCompleted":{"parent_instance":"p","parent_execution_id":1,"parent_id":7,"result":"r"}}"#,
    r#"{"SubOrchFailed":{"parent_instance":"p","parent_execution_id":1,"parent_id":7,"details":{"Application":{"kind":{"Cancelled":{"reason":"r"}},"message":"","retryable":false}}}}"#,
    r#"{"CancelInstance":{"instance":"i","reason":"enough"}}"#,
    r#"{"ContinueAsNew":{"instance":"i","orchestration":"o","input":"x","version":null,"parent_instance":"p","parent_id":7,"parent_execution_id":2,"carry_forward_events":[["q","m"]],"initial_custom_status":"s"}}"#,
    r#"{"QueueMessage":{"instance":"i","name":"q","data":"x"}}"#,
];

#[test]
fn one_message_of_each_kind_is_damaged() {
    let mut kinds: Vec<&str> = MESSAGES
        .iter()
        .map(|text| serde_json::from_str::<WorkItem>(text).expect("a message"))
        .map(|item| item.kind_name())
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), MESSAGES.len(), "{kinds:?}");
}

#[test]
fn a_damaged_message_is_an_error_or_a_value() {
    for seed in rounds() {
        let mut rng = Rng::new(seed);
        let mut bytes = rng.pick(&MESSAGES).as_bytes().to_vec();
        damage(&mut rng, &mut bytes);
        decodes_or_not::<WorkItem>(&bytes);
        decodes_or_not::<EventKind>(&bytes);
    }
}

/// Urls of files, with everything that a url may have.
const URLS: [&str; 6] = [
    "sqlite:orders.db",
    "sqlite::memory:",
    "sqlite:///var/lib/orders.db?mode=ro",
    "sqlite:a%20b%2fc.db?mode=rwc&cache=shared",
    "sqlite:file:orders.db?mode=rw",
    "sqlite://localhost/orders.db",
];

#[test]
fn a_damaged_url_is_an_error_or_names_a_file() {
    for seed in rounds() {
        let mut rng = Rng::new(seed);
        let mut bytes = rng.pick(&URLS).as_bytes().to_vec();
        damage(&mut rng, &mut bytes);
        let url = String::from_utf8_lossy(&bytes).into_owned();
        if let Ok(parsed) = duroxide_sqlite::SqliteUrl::parse(&url) {
            let again = duroxide_sqlite::SqliteUrl::parse(&parsed.existing());
            let again = again.unwrap_or_else(|error| panic!("{url:?}: {error}"));
            assert_eq!(again.file(), parsed.file(), "{url:?}, seed {seed}");
        }
    }
}

/// A folder with a store that has a few instances, closed.
fn filled(kind: Kind, folder: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(crate::power_loss::worker::work(kind, folder, 2));
}

/// Flips bits of a file, and asks everything of the store in it. Every answer will do; a panic or no answer will not.
fn is_asked(kind: Kind) {
    crate::quiet();
    let folder = tempfile::tempdir().expect("a folder can be made");
    filled(kind, folder.path());
    let file = folder.path().join(kind.file());
    let whole = std::fs::read(&file).expect("the file of the store");
    for seed in rounds() {
        let mut rng = Rng::new(seed);
        let mut bytes = whole.clone();
        for _ in 0..1 + rng.below(8) {
            let at = rng.below(bytes.len());
            bytes[at] ^= 1 << rng.below(8);
        }
        let image = tempfile::tempdir().expect("a folder can be made");
        std::fs::write(image.path().join(kind.file()), bytes).expect("a file can be written");
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let asked = std::thread::spawn(move || {
            ask(kind, image.path());
            drop(done);
        });
        let waited = is_done.recv_timeout(Duration::from_secs(60));
        assert_eq!(
            waited,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected),
            "seed {seed} hangs"
        );
        if let Err(panic) = asked.join() {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            eprintln!("{kind:?} panics, seed {seed}: {text:?}");
            panic!("{kind:?} panics, seed {seed}");
        }
    }
}

fn ask(kind: Kind, folder: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(async {
        let Ok(store) = kind.open(folder, None).await else {
            return;
        };
        let admin = store
            .as_management_capability()
            .expect("both stores have it");
        let listed = admin.list_instances().await.unwrap_or_default();
        let client = Client::new(std::sync::Arc::clone(&store));
        for id in listed.iter().take(4) {
            let _status = client.get_orchestration_status(id).await;
            let _history = store.read(id).await;
            let _values = client.get_kv_all_values(id).await;
            let _deleted = client.delete_instance(id, true).await;
        }
        let _depths = admin.get_queue_depths().await;
        let _started = client.start_orchestration("new", "work", "").await;
        let lease = Duration::from_secs(1);
        let _turns = store
            .claim_turns(TurnClaim::new(10, lease, Duration::ZERO))
            .await;
        let _work = store
            .fetch_work_item(lease, Duration::ZERO, None, &TagFilter::DefaultOnly)
            .await;
    });
}

#[test]
fn a_sqlite_file_with_flipped_bits_is_an_error_or_a_store() {
    is_asked(Kind::Sqlite);
}

#[test]
fn a_redb_file_with_flipped_bits_is_an_error_or_a_store() {
    is_asked(Kind::Redb);
}
