//! A claim takes a bounded number of messages in all, however many instances have a full mailbox; the rest comes with
//! the next claims.

use std::time::Duration;

use duroxide_core::WorkItem;
use duroxide_core::provider::{
    CLAIM_BYTES_IN_ALL_MAX, CLAIM_BYTES_MAX, CLAIM_MESSAGES_IN_ALL_MAX, CLAIM_MESSAGES_MAX,
    ClaimedTurn, TurnClaim,
};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Rounds, Turn, items};

/// Together they hold more than a claim may take in all, and than one more instance may bring.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// More of the instances than there are, for longer than a case takes.
fn ask<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> TurnClaim {
    TurnClaim {
        max: 64,
        lock_timeout: Duration::from_secs(600),
        ..bench.ask()
    }
}

/// Running instances, each with these messages in its mailbox.
async fn full_mailboxes<F: ProviderFactory + ?Sized>(
    factory: &F,
    messages: impl Fn(&str) -> Vec<WorkItem>,
) -> Bench<'_, F> {
    let bench = Bench::open(factory).await;
    for name in NAMES {
        bench.start(name).await;
    }
    // All are claimed before the first of them has messages and is claimed again.
    for turn in claim_all(&bench, |_| {}).await {
        let mut first = Commit::first();
        first.messages = messages(&turn.item.instance);
        bench.commit(&Turn::from(&turn), first).await;
    }
    bench
}

/// Claims until nothing is left, and shows each claim.
async fn claim_all<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    look: impl Fn(&[ClaimedTurn]),
) -> Vec<ClaimedTurn> {
    let mut all = Vec::new();
    let mut rounds = Rounds::default();
    loop {
        rounds.next();
        let claimed = bench.claim_turns(ask(bench)).await;
        look(&claimed);
        if claimed.is_empty() {
            assert_eq!(all.len(), NAMES.len(), "every instance is claimed once");
            return all;
        }
        all.extend(claimed);
    }
}

/// Each instance got exactly these messages, as a first attempt, and has no other.
async fn took_everything<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    turns: &[ClaimedTurn],
    messages: impl Fn(&str) -> Vec<WorkItem>,
) {
    for turn in turns {
        let expected = messages(&turn.item.instance);
        assert!(turn.item.messages == expected, "all, in order");
        assert_eq!(turn.attempt_count, 1, "none was tried before");
        bench.commit(&Turn::from(turn), Commit::to(1)).await;
    }
    bench.idle("everything was taken").await;
}

/// One claim takes a bounded number of messages in all, however many instances have a full mailbox. What it leaves
/// comes with the next claims at once, in order and as a first attempt, and none is lost.
pub async fn one_claim_takes_a_bounded_number_of_messages_in_all<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let messages = |name: &str| -> Vec<WorkItem> {
        let ids = 1..=CLAIM_MESSAGES_MAX as u64;
        ids.map(|id| items::activity_done(name, id)).collect()
    };
    let bench = full_mailboxes(factory, messages).await;
    let turns = claim_all(&bench, |claimed| {
        let taken: usize = claimed.iter().map(|turn| turn.item.messages.len()).sum();
        let most = CLAIM_MESSAGES_IN_ALL_MAX + CLAIM_MESSAGES_MAX;
        assert!(taken <= most, "one claim took {taken} messages");
    })
    .await;
    took_everything(&bench, &turns, messages).await;
}

/// One claim takes a bounded number of bytes of messages in all, however many instances have large ones. What it leaves
/// comes with the next claims at once.
pub async fn one_claim_takes_a_bounded_number_of_bytes_in_all<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    // Two of them are within the bound of one instance.
    let text = "x".repeat(CLAIM_BYTES_MAX / 2 - 64 * 1024);
    let messages = |name: &str| vec![items::signal_with(name, "large", &text); 2];
    let bench = full_mailboxes(factory, messages).await;
    let turns = claim_all(&bench, |claimed| {
        let taken = claimed.iter().map(|turn| turn.item.messages.len());
        let bytes = taken.sum::<usize>() * text.len();
        let most = CLAIM_BYTES_IN_ALL_MAX + CLAIM_BYTES_MAX;
        assert!(bytes <= most, "one claim took {bytes} bytes");
    })
    .await;
    took_everything(&bench, &turns, messages).await;
}
