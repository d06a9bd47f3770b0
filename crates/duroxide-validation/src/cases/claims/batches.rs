//! Several claims in one step.

use std::collections::HashSet;
use std::time::Duration;

use duroxide_core::provider::{
    ClaimedTurn, ClaimedWork, DispatcherCapabilityFilter, SemverRange, TagFilter, TurnClaim,
    WorkClaim,
};
use semver::Version;

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, Turn, items, session};

async fn turns<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    max: usize,
    filter: Option<DispatcherCapabilityFilter>,
) -> Vec<ClaimedTurn> {
    let claim = TurnClaim {
        filter,
        ..TurnClaim::new(max, bench.lock, Duration::ZERO)
    };
    bench
        .store
        .claim_turns(claim)
        .await
        .expect("a claim does not fail")
}

async fn works<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    max: usize,
    owner: Option<&str>,
    tag_filter: TagFilter,
) -> Vec<ClaimedWork> {
    let claim = WorkClaim {
        session: owner.map(|owner| session(owner, bench.lock)),
        tag_filter,
        ..WorkClaim::new(max, bench.lock, Duration::ZERO)
    };
    bench
        .store
        .claim_work(claim)
        .await
        .expect("a claim does not fail")
}

fn ids(works: &[ClaimedWork]) -> Vec<u64> {
    works.iter().map(|w| items::id_of(&w.item)).collect()
}

/// A batch is never larger than asked for, and what it leaves is there for the next.
pub async fn a_batch_of_turns_keeps_its_limit<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for n in 0..5 {
        bench.start(&format!("batch-{n}")).await;
    }
    let mut claimed = HashSet::new();
    let mut tokens = HashSet::new();
    let mut rounds = 0;
    while claimed.len() < 5 {
        let batch = turns(&bench, 3, None).await;
        assert!((1..=3).contains(&batch.len()), "{} of 3", batch.len());
        for turn in batch {
            assert!(claimed.insert(turn.item.instance), "claimed once");
            assert!(
                tokens.insert(turn.lock_token),
                "each with a token of its own"
            );
            assert_eq!(turn.attempt_count, 1);
        }
        rounds += 1;
        assert!(rounds <= 5, "five instances need at most five claims");
    }
    assert!(turns(&bench, 3, None).await.is_empty());
}

/// A store that claims in batches fills them.
pub async fn a_batch_of_turns_is_filled<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for n in 0..5 {
        bench.start(&format!("batch-{n}")).await;
    }
    assert_eq!(turns(&bench, 4, None).await.len(), 4);
    assert_eq!(turns(&bench, 4, None).await.len(), 1);
}

/// Each turn of a batch is committed under its own lease.
pub async fn each_turn_of_a_batch_has_its_own_lease<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for instance in ["a", "b"] {
        bench.start(instance).await;
    }
    let mut claimed = turns(&bench, 2, None).await;
    claimed.extend(turns(&bench, 2, None).await);
    let mut claimed = claimed.into_iter().map(|c| Turn {
        item: c.item,
        token: c.lock_token,
        attempt: c.attempt_count,
    });
    let (one, two) = (
        claimed.next().expect("a turn"),
        claimed.next().expect("a turn"),
    );
    bench.commit(&one, Commit::first()).await;
    bench.abandon(&two, None).await;
    let again = bench.turn_of(&two.item.instance).await;
    assert_eq!(again.attempt, 2);
    assert_eq!(bench.read(&one.item.instance).await.len(), 1);
}

/// A batch holds only what the filter admits.
pub async fn a_batch_of_turns_is_filtered<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for (instance, pinned) in [("old", "1.0.0"), ("new", "2.0.0")] {
        bench
            .create_with(instance, Commit::first().pinned(pinned))
            .await;
    }
    for instance in ["old", "new"] {
        bench.send(items::signal(instance, "go")).await;
    }
    let filter = DispatcherCapabilityFilter {
        supported_duroxide_versions: vec![SemverRange::new(
            Version::new(2, 0, 0),
            Version::new(2, 9, 9),
        )],
    };
    let batch = turns(&bench, 4, Some(filter)).await;
    let claimed: Vec<&str> = batch.iter().map(|t| t.item.instance.as_str()).collect();
    assert_eq!(claimed, ["new"]);
}

/// An empty store makes an empty batch.
pub async fn an_empty_store_makes_an_empty_batch<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    assert!(turns(&bench, 8, None).await.is_empty());
    assert!(works(&bench, 8, None, TagFilter::Any).await.is_empty());
}

/// A claim reports the attempts of each message in the order of the messages.
pub async fn message_attempts_belong_to_their_messages<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench.create("counted").await;
    bench.send(items::signal("counted", "old")).await;
    for _ in 0..2 {
        let turn = bench.turn_of("counted").await;
        bench.abandon(&turn, None).await;
    }
    bench.send(items::signal("counted", "new")).await;
    let batch = turns(&bench, 1, None).await;
    assert_eq!(batch[0].item.messages.len(), 2);
    assert_eq!(batch[0].message_attempts, [3, 1]);
    assert_eq!(batch[0].attempt_count, 3);
}

/// Activities of a batch come in the order they were enqueued, up to the limit.
pub async fn a_batch_of_activities_is_in_order<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for id in 1..=5 {
        bench.schedule(items::activity("batch", id)).await;
    }
    let mut seen = Vec::new();
    while seen.len() < 5 {
        let batch = works(&bench, 3, None, TagFilter::DefaultOnly).await;
        assert!((1..=3).contains(&batch.len()), "{} of 3", batch.len());
        seen.extend(ids(&batch));
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    bench.no_work("all are claimed").await;
}

/// A store that claims in batches fills them.
pub async fn a_batch_of_activities_is_filled<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for id in 1..=5 {
        bench.schedule(items::activity("batch", id)).await;
    }
    let batch = works(&bench, 4, None, TagFilter::DefaultOnly).await;
    assert_eq!(ids(&batch), [1, 2, 3, 4]);
    let tokens: HashSet<&String> = batch.iter().map(|w| &w.lock_token).collect();
    assert_eq!(tokens.len(), 4, "each with a token of its own");
}

/// Tags and sessions hold inside a batch.
pub async fn a_batch_of_activities_is_filtered<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    bench
        .schedule(items::session_activity("batch", 1, "s"))
        .await;
    bench.work_as("anna").await;
    bench
        .schedule(items::session_activity("batch", 2, "s"))
        .await;
    bench
        .schedule(items::tagged_activity("batch", 3, "gpu"))
        .await;
    bench.schedule(items::activity("batch", 4)).await;

    let bert = works(&bench, 8, Some("bert"), TagFilter::DefaultOnly).await;
    assert_eq!(
        ids(&bert),
        [4],
        "the session is anna's and the tag is another"
    );
    let anna = works(&bench, 8, Some("anna"), TagFilter::DefaultOnly).await;
    assert_eq!(ids(&anna), [2]);
    let none = works(&bench, 8, None, TagFilter::None).await;
    assert!(none.is_empty());
    let gpu = works(&bench, 8, None, TagFilter::tags(["gpu"])).await;
    assert_eq!(ids(&gpu), [3]);
}

/// Lost activity leases are named: cancelled, acked, expired and unknown ones, and no others.
pub async fn lost_activity_leases_are_named<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let first = Commit::first()
        .work(items::activity("owner", 2))
        .work(items::activity("owner", 3))
        .work(items::activity("owner", 4));
    bench.create_with("owner", first).await;
    let brief = bench.find_work_for(bench.brief()).await.expect("ready");
    let cancelled = bench.find_work_for(bench.lock * 4).await.expect("ready");
    let held = bench.find_work_for(bench.lock * 4).await.expect("ready");
    bench.nudge("owner", Commit::to(1).cancel("owner", 3)).await;
    bench.outlive(bench.brief()).await;

    let mut tokens: Vec<String> = [&brief, &cancelled, &held].map(|w| w.token.clone()).into();
    tokens.push("made-up".into());
    let lost = bench
        .store
        .lost_work_items(&tokens)
        .await
        .expect("a cheap read");
    let mut lost = lost.expect("the case requires an answer");
    let mut expected = vec![brief.token, cancelled.token, "made-up".to_owned()];
    lost.sort();
    expected.sort();
    assert_eq!(lost, expected);
}
