//! A commit is under way when its lease ends: what decides is the moment at which it is written.

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items, kinds};

/// Meetings of a commit with what ends its lease. Without a clock that can be moved each takes as long as a lease.
const MEETINGS: usize = 3;

/// A commit and a claimer that takes over meet: one of them has the instance, never both.
pub async fn a_commit_and_a_takeover_that_meet_exclude_each_other<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    for meeting in 0..MEETINGS {
        let id = format!("contested-{meeting}");
        bench.start(&id).await;
        let old = bench.turn_of(&id).await;
        let first = Commit::first()
            .and(kinds::activity_scheduled("a"))
            .work(items::activity(&id, 2));
        let take_over = async {
            bench.outlive(bench.lock).await;
            bench.claim().await
        };
        let (committed, taken) = tokio::join!(bench.try_commit(&old, first), take_over);
        match (committed, taken) {
            (Ok(()), None) => {
                assert_eq!(bench.read(&id).await.len(), 2, "the commit is whole");
                let work = bench.work().await;
                bench.finish_silently(&work).await;
            }
            (Err(error), taken) => {
                assert!(error.is_lease_lost(), "{error}");
                // A claim passes over what a commit is busy with.
                let new = match taken {
                    Some(new) => new,
                    None => bench.turn().await,
                };
                assert_eq!(new.item.instance, id, "it was taken over");
                assert!(bench.read(&id).await.is_empty(), "nothing was written");
                bench.no_work("nothing was written").await;
                bench.commit(&new, Commit::first()).await;
            }
            (Ok(()), Some(new)) => panic!(
                "the commit was taken, and `{}` was handed out again",
                new.item.instance
            ),
        }
    }
}
