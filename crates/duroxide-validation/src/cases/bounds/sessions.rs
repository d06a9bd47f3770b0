//! A claim takes a bounded number of sessions that its owner does not hold yet.

use duroxide_core::provider::{ClaimedWork, WorkClaim};

use crate::ProviderFactory;
use crate::fixture::{Bench, Work, items, session};

async fn claim_as<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    owner: &str,
    new_sessions_max: usize,
) -> Vec<ClaimedWork> {
    let claim = WorkClaim {
        session: Some(session(owner, bench.lock)),
        new_sessions_max,
        ..bench.ask_work(100)
    };
    bench.claim_work(claim).await
}

fn ids(works: &[ClaimedWork]) -> Vec<u64> {
    works.iter().map(|work| items::id_of(&work.item)).collect()
}

/// Sessions beyond the bound stay free for other owners; work without a session is not bounded.
pub async fn a_claim_takes_no_more_new_sessions_than_asked<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for id in 1..=5 {
        let name = format!("s{id}");
        bench
            .schedule(items::session_activity("i", id, &name))
            .await;
    }
    for id in 6..=7 {
        bench.schedule(items::activity("i", id)).await;
    }
    assert_eq!(ids(&claim_as(&bench, "one", 2).await), [1, 2, 6, 7]);
    assert_eq!(ids(&claim_as(&bench, "two", 2).await), [3, 4]);
    assert_eq!(ids(&claim_as(&bench, "three", 0).await), [0; 0]);
    assert_eq!(ids(&claim_as(&bench, "three", 9).await), [5]);
}

/// All work of a newly taken session comes with it, and a session that is held is not new.
pub async fn work_of_a_held_session_is_not_bounded<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    for (id, name) in [(1, "a"), (2, "b"), (3, "a")] {
        bench.schedule(items::session_activity("i", id, name)).await;
    }
    let first = claim_as(&bench, "one", 1).await;
    assert_eq!(ids(&first), [1, 3]);
    for work in &first {
        let work = Work {
            item: work.item.clone(),
            token: work.lock_token.clone(),
            attempt: work.attempt_count,
        };
        bench.finish_silently(&work).await;
    }
    bench.schedule(items::session_activity("i", 4, "a")).await;
    assert_eq!(ids(&claim_as(&bench, "one", 0).await), [4]);
    assert_eq!(ids(&claim_as(&bench, "two", 1).await), [2]);
}
