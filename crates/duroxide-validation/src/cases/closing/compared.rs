//! Who closes a store, opens it or restores into it says what it is closed for at that moment; if it is not, nothing
//! happens.

use duroxide_core::provider::{Closing, Restoring};

use super::{REASON, close, refused};
use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

async fn reason<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>) -> Option<String> {
    bench.admin().closed_because().await.expect("an answer")
}

/// Closing, changing the reason and opening happen only if the store is as the caller expects; otherwise the caller
/// hears how it is.
pub async fn closing_compares_what_the_store_is_closed_for<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    let admin = bench.admin();
    let unexpected = |found: Option<&str>| Ok(Some(Closing::Unexpected(found.map(str::to_owned))));
    let done = Ok(Some(Closing::Done));
    let open = admin.close_store(Some("something"), Some(REASON)).await;
    assert_eq!(open, unexpected(None), "it is open");
    assert_eq!(
        admin.close_store(Some("something"), None).await,
        unexpected(None)
    );
    bench.start("fine").await;
    assert_eq!(admin.close_store(None, Some("first")).await, done);
    for (expected, wanted) in [
        (None, Some("second")),
        (Some("second"), Some("third")),
        (Some("First"), None),
        (Some("first "), None),
        (None, None),
    ] {
        let answer = admin.close_store(expected, wanted).await;
        assert_eq!(answer, unexpected(Some("first")), "{expected:?}");
        assert_eq!(reason(&bench).await.as_deref(), Some("first"));
    }
    assert_eq!(admin.close_store(Some("first"), Some(REASON)).await, done);
    assert_eq!(reason(&bench).await.as_deref(), Some(REASON));
    refused(bench.store.claim_turns(bench.ask()).await, "a claim");
    assert_eq!(admin.close_store(Some(REASON), None).await, done);
    assert_eq!(admin.close_store(None, None).await, done, "it is open");
    bench.turn_of("fine").await;
}

/// Of two who close a store at the same time one does, and the other one hears of it.
pub async fn of_two_who_close_a_store_one_does<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let other = factory.second_handle().await;
    let other = other.as_management_capability().expect("as the first one");
    for round in 0..5 {
        let (one, two) = futures::join!(
            bench.admin().close_store(None, Some("one")),
            other.close_store(None, Some("two")),
        );
        let found = reason(&bench).await;
        let (done, told) = match found.as_deref() {
            Some("one") => (one, two),
            Some("two") => (two, one),
            other => panic!("round {round}: closed with {other:?}"),
        };
        assert_eq!(done, Ok(Some(Closing::Done)), "round {round}");
        assert_eq!(told, Ok(Some(Closing::Unexpected(found))), "round {round}");
        close(&bench, None).await;
    }
}

/// What is restored comes only into a store that is closed for it, or open where the caller says so.
pub async fn a_restore_compares_what_the_store_is_closed_for<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench
        .create_with("goes", Commit::first().work(items::activity("goes", 2)))
        .await;
    let taken = bench.admin().snapshot_instance("goes").await;
    let taken = taken.expect("an answer").expect("the store can do that");
    let other = Bench::open(factory).await;
    let admin = other.admin();
    let unexpected =
        |found: Option<&str>| Ok(Some(Restoring::Unexpected(found.map(str::to_owned))));
    let into_open = admin.restore_instance(&taken, Some(REASON)).await;
    assert_eq!(into_open, unexpected(None));
    close(&other, Some("for another move")).await;
    for expected in [None, Some(REASON)] {
        let answer = admin.restore_instance(&taken, expected).await;
        assert_eq!(answer, unexpected(Some("for another move")));
    }
    let nothing = admin.snapshot_instance("goes").await;
    let nothing = nothing.expect("an answer").expect("the store can do that");
    assert!(nothing.is_empty(), "nothing was restored");
    close(&other, Some(REASON)).await;
    let done = admin.restore_instance(&taken, Some(REASON)).await;
    assert_eq!(done, Ok(Some(Restoring::Done)));
    let again = admin.restore_instance(&taken, Some(REASON)).await;
    assert_eq!(again, Ok(Some(Restoring::Exists)));
    close(&other, None).await;
    assert_eq!(other.work().await.id(), 2);
}
