//! What is no submission, a store that takes none, and what is kept of one.

use duroxide_core::WorkItem;
use duroxide_core::provider::{
    IdState, MessageRule, ProviderError, StartRule, Submission, Submitted,
};

use super::{end, message, start, start_with, submit};
use crate::ProviderFactory;
use crate::fixture::{Bench, items};

/// An item for another instance, or of a wrong kind, is an error for good, and nothing is stored.
pub async fn a_stray_item_stores_nothing<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let with = |item: WorkItem| {
        Submission::start(items::start("one"), None, StartRule::MustBeNew, vec![item])
    };
    for stray in [
        with(items::queue_message("other", "1")),
        with(items::start("one")),
        with(items::activity("one", 2)),
        Submission::start(
            items::signal("one", "go"),
            None,
            StartRule::MustBeNew,
            vec![],
        ),
    ] {
        let error: ProviderError = bench.store.submit(stray).await.expect_err("it is refused");
        assert!(!error.is_retryable(), "{error}");
    }
    bench.idle("nothing was stored").await;
    let fit = start("one", StartRule::MustBeNew);
    assert_eq!(submit(&bench, &fit).await, Submitted::Started);
}

/// A store that is closed takes no submission, and gives its reason.
pub async fn a_closed_store_takes_no_submission<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    end(&bench, "ended").await;
    bench.create("runs").await;
    let closed = bench.admin().close_store(None, Some("it moved")).await;
    closed.expect("it can be closed");
    for one in [
        start("new", StartRule::MustBeNew),
        start_with("runs", StartRule::UseWhatIsThere, &["1"]),
        start("ended", StartRule::ReplaceFinished),
        message("runs", MessageRule::MustBeAlive, "1"),
    ] {
        let error = bench.store.submit(one).await.expect_err("it is refused");
        assert!(error.message.contains("it moved"), "{error}");
    }
    assert_eq!(bench.read("ended").await.len(), 2, "it is there");
    let opened = bench.admin().close_store(Some("it moved"), None).await;
    opened.expect("it can be opened");
    bench.idle("nothing was stored").await;
}

/// The start and its messages are there in the next process, and the rule holds against them.
pub async fn a_submission_outlives_the_process<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let one = start_with("kept", StartRule::MustBeNew, &["1", "2"]);
    assert_eq!(submit(&bench, &one).await, Submitted::Started);
    let bench = bench.reopen().await;
    assert_eq!(
        submit(&bench, &one).await,
        Submitted::Refused(IdState::Starting)
    );
    let turn = bench.turn_of("kept").await;
    let queue_message = |data| items::queue_message("kept", data);
    assert_eq!(
        turn.item.messages,
        [items::start("kept"), queue_message("1"), queue_message("2")]
    );
}
