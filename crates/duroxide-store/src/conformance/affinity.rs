//! Cases: messages bound to a key that one owner holds at a time.

use super::{Desk, Harness, LEASE_MS, SINGLES, pass_ms, texts};
use crate::atomic::Operation;
use crate::lease::After;
use crate::message::NewMessage;

const KEY_MS: u64 = 10_000;

async fn put_bound(desk: &Desk, key: &str, text: &str) {
    desk.put_message(NewMessage {
        affinity: Some(key.to_owned()),
        ..NewMessage::new("a", text)
    })
    .await;
}

/// While the key is held, others and callers without a name pass it by; free messages are for everybody.
pub async fn messages_bound_to_a_key_go_to_one_owner(harness: &impl Harness) {
    let desk = Desk::new(harness, SINGLES);
    put_bound(&desk, "k", "1").await;
    put_bound(&desk, "k", "2").await;
    put_bound(&desk, "l", "3").await;
    desk.put("a", "4").await;
    let anna = desk.claim_as("anna", KEY_MS).await.expect("claim");
    assert_eq!(texts(&anna), ["1"]);
    let bert = desk.claim_as("bert", KEY_MS).await.expect("claim");
    assert_eq!(texts(&bert), ["3"], "held keys are passed by");
    assert_eq!(texts(&desk.take().await), ["4"], "no name, no keys");
    assert!(desk.claim().await.is_none());
    assert!(desk.claim_as("bert", KEY_MS).await.is_none());
    let second = desk.claim_as("anna", KEY_MS).await.expect("claim");
    assert_eq!(texts(&second), ["2"], "several of one key at once");
    let released = desk.store.release(&anna.token, After::Now, false).await;
    released.expect("release");
    assert!(desk.claim_as("bert", KEY_MS).await.is_none());
    let again = desk.claim_as("anna", KEY_MS).await.expect("claim");
    assert_eq!(texts(&again), ["1"]);
}

/// With what its former owner left unfinished; who still holds a message can complete it.
pub async fn a_lapsed_key_can_be_taken_over(harness: &impl Harness) {
    let desk = Desk::new(harness, SINGLES);
    put_bound(&desk, "k", "1").await;
    put_bound(&desk, "k", "2").await;
    let anna = desk.claim_as("anna", 1_000).await.expect("claim");
    pass_ms(harness, 1_000).await;
    let bert = desk.claim_as("bert", KEY_MS).await.expect("claim");
    assert_eq!(texts(&bert), ["2"]);
    assert!(desk.claim_as("anna", KEY_MS).await.is_none());
    let done = desk.complete(&anna.token).await;
    done.expect("the lease of a message does not depend on the key");
    desk.complete(&bert.token).await.expect("complete");
    put_bound(&desk, "k", "3").await;
    assert!(desk.claim_as("anna", KEY_MS).await.is_none());
    assert!(desk.claim_as("bert", KEY_MS).await.is_some());
}

async fn renew(desk: &Desk, owners: &[&str], idle_ms: u64) -> u64 {
    desk.apply(Operation::RenewAffinities {
        queue: SINGLES,
        owners: owners.iter().map(|&owner| owner.to_owned()).collect(),
        lease_ms: KEY_MS,
        idle_ms,
    })
    .await
}

/// Claiming, renewing and completing a message keep its key active; keys whose lease has run out and idle keys are not
/// renewed.
pub async fn only_active_keys_are_renewed(harness: &impl Harness) {
    let desk = Desk::new(harness, SINGLES);
    put_bound(&desk, "k", "1").await;
    put_bound(&desk, "l", "2").await;
    let one = desk.claim_as("anna", KEY_MS).await.expect("claim");
    desk.claim_as("bert", KEY_MS).await.expect("claim");
    assert_eq!(renew(&desk, &[], KEY_MS).await, 0);
    assert_eq!(renew(&desk, &["anna"], 0).await, 0);
    assert_eq!(renew(&desk, &["anna"], 1_000).await, 1);
    assert_eq!(renew(&desk, &["anna", "bert", "carl"], 1_000).await, 2);
    pass_ms(harness, LEASE_MS - 500).await;
    assert_eq!(renew(&desk, &["anna"], 1_000).await, 0, "idle");
    let renewed = desk.store.renew(&one.token, LEASE_MS).await;
    renewed.expect("a valid lease can be renewed");
    assert_eq!(renew(&desk, &["anna"], 1_000).await, 1);
    pass_ms(harness, 1_000).await;
    desk.complete(&one.token).await.expect("complete");
    assert_eq!(renew(&desk, &["anna"], 1_000).await, 1);
    pass_ms(harness, KEY_MS).await;
    assert_eq!(
        renew(&desk, &["anna"], 2 * KEY_MS).await,
        0,
        "it has run out"
    );
}

/// A key is needed while it is held or a message carries it, leased or not.
pub async fn keys_that_nobody_needs_are_swept(harness: &impl Harness) {
    let desk = Desk::new(harness, SINGLES);
    let sweep = || desk.apply(Operation::SweepAffinities { queue: SINGLES });
    put_bound(&desk, "k", "1").await;
    let claimed = desk.claim_as("anna", 1_000).await.expect("claim");
    assert_eq!(sweep().await, 0, "held");
    pass_ms(harness, 1_001).await;
    assert_eq!(sweep().await, 0, "a message carries it");
    desk.complete(&claimed.token).await.expect("complete");
    assert_eq!(sweep().await, 1);
    assert_eq!(sweep().await, 0);
}
