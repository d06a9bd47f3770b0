//! Fuzzing of what code is given: ids, typed values and histories. In: right ones, damaged by chance. Out: a refusal,
//! or a value that means the same whenever it is read. Never a panic, and no replay without an end.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use duroxide_core::codec::{decode, encode};
use duroxide_core::provider::Provider;
use duroxide_core::replay::Execution;
use duroxide_core::{
    Event, FnOrchestration, OrchestrationContext, OrchestrationHandler, build_child_instance_id,
    check_instance_id, uses_reserved_marker,
};
use duroxide_runtime::Client;
use duroxide_sim::rng::Rng;
use duroxide_store::MemoryProvider;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{damage, rounds};

/// No replay of a few events takes this long.
const REPLAY_MAX: Duration = Duration::from_secs(60);

const IDS: [&str; 6] = [
    "order-7",
    "order-7::sub::4",
    "sub::2",
    "a:b::c:",
    "\u{e9}\u{df}-\u{65e5}\u{672c}",
    "x",
];

#[test]
fn a_damaged_id_is_refused_or_comes_back_as_it_was() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime can be built");
    for seed in rounds() {
        let mut rng = Rng::new(seed);
        let mut bytes = rng.pick(&IDS).as_bytes().to_vec();
        if rng.chance(50) {
            bytes = bytes.repeat(rng.below(600));
        }
        damage(&mut rng, &mut bytes);
        let id = String::from_utf8_lossy(&bytes).into_owned();
        let (is_taken, claimed) = runtime.block_on(started_and_claimed(&id));
        let expected = is_taken.then(|| id.clone());
        assert_eq!(claimed, expected, "{id:?}, seed {seed}");
        assert!(!is_taken || check_instance_id(&id).is_ok(), "{id:?}");
        assert!(uses_reserved_marker(&build_child_instance_id(
            &id, "sub::2"
        )));
    }
}

/// Whether an instance of this id can be started, and the id that a claim finds after that.
async fn started_and_claimed(id: &str) -> (bool, Option<String>) {
    let store: Arc<dyn Provider> = Arc::new(MemoryProvider::new());
    let client = Client::new(Arc::clone(&store));
    let started = client.start_orchestration(id, "orchestration", "").await;
    let claim = store.fetch_orchestration_item(Duration::from_secs(1), Duration::ZERO, None);
    let claimed = claim.await.expect("a claim is answered");
    let claimed = claimed.map(|(item, _, _)| item.instance);
    (started.is_ok(), claimed)
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Nothing,
    #[serde(rename = "null")]
    Null,
    Pair(i64, String),
    Fields {
        zebra: u64,
        ant: Option<String>,
    },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    amount: u64,
    shapes: Vec<Shape>,
    #[serde(flatten)]
    rest: BTreeMap<String, i64>,
}

const VALUES: [&str; 8] = [
    "plain",
    "null",
    "\"null\"",
    "-9007199254740993",
    "[\"a\",\"\\u0000\\ud83d\\ude00\"]",
    "{\"Pair\":[-1,\"x\"]}",
    "{\"Fields\":{\"zebra\":18446744073709551615,\"ant\":null}}",
    "{\"amount\":7,\"shapes\":[\"Nothing\",\"null\",{\"Pair\":[1,\"\"]}],\"zebra\":1,\"ant\":-2}",
];

/// What can be read as a value of this type is written, and read again as the same.
fn means_the_same<T>(text: &str, seed: u64)
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let Ok(value) = decode::<T>(text) else {
        return;
    };
    let written = encode(&value);
    let written = written.unwrap_or_else(|error| panic!("{value:?}, seed {seed}: {error}"));
    let again = decode::<T>(&written);
    assert_eq!(again.as_ref(), Ok(&value), "{written:?}, seed {seed}");
    assert_eq!(encode(&value), Ok(written), "seed {seed}");
}

#[test]
fn a_damaged_typed_value_is_an_error_or_means_the_same_when_it_is_read_again() {
    for seed in rounds() {
        let mut rng = Rng::new(seed);
        let mut bytes = rng.pick(&VALUES).as_bytes().to_vec();
        damage(&mut rng, &mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        means_the_same::<String>(&text, seed);
        means_the_same::<Option<String>>(&text, seed);
        means_the_same::<i64>(&text, seed);
        means_the_same::<u64>(&text, seed);
        means_the_same::<Vec<String>>(&text, seed);
        means_the_same::<Shape>(&text, seed);
        means_the_same::<Order>(&text, seed);
    }
}

/// Every list of events in the recorded histories.
fn histories() -> Vec<Vec<Event>> {
    fn collect(json: &serde_json::Value, found: &mut Vec<Vec<Event>>) {
        match serde_json::from_value::<Vec<Event>>(json.clone()) {
            Ok(events) if !events.is_empty() => return found.push(events),
            _ => {}
        }
        match json {
            serde_json::Value::Array(all) => all.iter().for_each(|one| collect(one, found)),
            serde_json::Value::Object(all) => all.values().for_each(|one| collect(one, found)),
            _ => {}
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../duroxide-core/tests/histories");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the recorded histories are there") {
        let path = entry.expect("a file of the folder").path();
        let is_json = path
            .extension()
            .is_some_and(|extension| extension == "json");
        if is_json {
            let text = std::fs::read_to_string(path).expect("a history can be read");
            let json = serde_json::from_str(&text).expect("a history is JSON");
            collect(&json, &mut found);
        }
    }
    assert!(found.len() > 10, "only {} histories", found.len());
    found
}

/// A few changes that leave events: some are gone, doubled, elsewhere, of another number, or damaged and yet readable.
fn damage_history(rng: &mut Rng, events: &mut Vec<Event>) {
    for _ in 0..1 + rng.below(4) {
        if events.is_empty() {
            return;
        }
        let at = rng.below(events.len());
        let other = rng.below(events.len());
        match rng.below(6) {
            0 => drop(events.remove(at)),
            1 => events.insert(other, events[at].clone()),
            2 => events.swap(at, other),
            3 => events[at].event_id = rng.below(12) as u64,
            4 => events[at].source_event_id = rng.chance(800).then(|| rng.below(12) as u64),
            _ => {
                let mut bytes = serde_json::to_vec(&events[at]).expect("an event can be written");
                damage(rng, &mut bytes);
                if let Ok(event) = serde_json::from_slice(&bytes) {
                    events[at] = event;
                }
            }
        }
    }
}

/// Code that asks for something of each kind, in an order that some histories begin with.
fn codes() -> Vec<Arc<dyn OrchestrationHandler>> {
    let activities = |ctx: OrchestrationContext, input: String| async move {
        let first = ctx.schedule_activity("A", input).await?;
        let both = vec![
            ctx.schedule_activity("B", first.clone()),
            ctx.schedule_activity("C", first),
        ];
        let both: Result<Vec<String>, String> = ctx.join(both).await.into_iter().collect();
        Ok(both?.join(","))
    };
    let waits = |ctx: OrchestrationContext, _: String| async move {
        let timer = ctx.schedule_timer(Duration::from_secs(1));
        ctx.select2(ctx.schedule_wait("go"), timer).await;
        let message = ctx.dequeue_event("q1").await;
        ctx.set_kv_value("seen", message.clone());
        ctx.set_custom_status("seen");
        ctx.continue_as_new(message).await
    };
    let children = |ctx: OrchestrationContext, input: String| async move {
        drop(ctx.schedule_activity("A", "dropped"));
        ctx.schedule_sub_orchestration("child", input).await
    };
    vec![
        Arc::new(FnOrchestration(activities)),
        Arc::new(FnOrchestration(waits)),
        Arc::new(FnOrchestration(children)),
    ]
}

#[test]
fn a_damaged_history_is_replayed_or_refused() {
    let (begun, seeds) = mpsc::channel::<u64>();
    let replays = std::thread::spawn(move || {
        let histories = histories();
        for seed in rounds() {
            if begun.send(seed).is_err() {
                return;
            }
            let mut rng = Rng::new(seed);
            let mut events = rng.pick(&histories).clone();
            damage_history(&mut rng, &mut events);
            for code in codes() {
                // Either will do.
                let _loaded = Execution::load(&events, code, HashMap::new());
            }
        }
    });
    let mut last = 0;
    loop {
        match seeds.recv_timeout(REPLAY_MAX) {
            Ok(seed) => last = seed,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("seed {last} is replayed without end"),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    assert!(replays.join().is_ok(), "replay panics, seed {last}");
}
