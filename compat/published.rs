//! What the programs share that write stores of the published crate: instances in every state, and what arrives while
//! nothing runs. In: a client of a store. Out: histories and messages. `compat/published-file` and
//! `compat/published-schema` include it.

use std::time::Duration;

use duroxide::Client;

/// Instances of every kind: id, handler, input.
const STARTS: [(&str, &str, &str); 8] = [
    ("completed", "echoes", "hello"),
    ("failed", "refuses", "hello"),
    ("holding", "holds", "tight"),
    ("sleeping", "sleeps", "rested"),
    ("asking", "asks", "they said"),
    ("reading", "reads", ""),
    ("counting", "counts", "1"),
    ("raising", "raises", "it said"),
];

/// How many events the history of each has that does not end, once it can come no further.
const EVENTS: [(&str, usize); 7] = [
    ("holding", 4),
    ("sleeping", 2),
    ("asking", 3),
    ("reading", 4),
    ("counting", 3),
    ("raising", 2),
    ("raising::sub::2", 3),
];

/// Starts all of them and `more` (id, handler, input, events), and waits until each has come as far as it can.
pub async fn run(client: &Client, more: &[(&str, &str, &str, usize)]) {
    let others = more.iter().map(|(id, name, input, _)| (*id, *name, *input));
    for (id, name, input) in STARTS.into_iter().chain(others) {
        client.start_orchestration(id, name, input).await.expect("a start");
    }
    client.enqueue_event("reading", "letters", "first").await.expect("a letter");
    let minute = Duration::from_secs(60);
    for id in ["completed", "failed"] {
        client.wait_for_orchestration(id, minute).await.expect("an end");
    }
    let others = more.iter().map(|(id, _, _, events)| (*id, *events));
    for (id, events) in EVENTS.into_iter().chain(others) {
        loop {
            let execution = if id == "counting" { 3 } else { 1 };
            let history = client.read_execution_history(id, execution).await;
            if history.is_ok_and(|history| history.len() >= events) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// What arrives while nothing runs waits in the queues.
pub async fn leave(client: &Client) {
    client.start_orchestration("unbegun", "echoes", "late").await.expect("a start");
    client.enqueue_event("reading", "letters", "second").await.expect("a letter");
    client.raise_event("asking", "answer", "yes").await.expect("a signal");
}
