//! Giving back the leases of unfinished work. In: leases dropped at shutdown or by a panic. Out: claims that
//! another node can take at once, without an attempt counted against them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::provider::{Provider, ProviderError};
use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Leased;
use super::heartbeats::Unsaved;

/// How long work whose task panicked stays unclaimed: the cause may still be there.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);

/// A call that takes longer than this is given up; the lease then runs out by itself.
const LONGEST_CALL: Duration = Duration::from_secs(5);

/// A lease whose work was dropped.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) leased: Leased,
    pub(super) token: String,
    pub(super) after_panic: bool,
    /// What its activity said and the store does not have yet.
    pub(super) unsaved: Arc<Unsaved>,
}

/// The leases that are to be given back.
#[derive(Debug)]
pub(crate) struct Returns {
    unfinished: mpsc::UnboundedReceiver<Unfinished>,
}

impl Returns {
    pub(super) fn new(unfinished: mpsc::UnboundedReceiver<Unfinished>) -> Self {
        Self { unfinished }
    }

    /// Gives back what is dropped, side by side; once `last` has fired, what was dropped before it, and ends.
    pub(crate) async fn give_back(mut self, store: Arc<dyn Provider>, last: CancellationToken) {
        let mut calls = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                unfinished = self.unfinished.recv() => match unfinished {
                    Some(unfinished) => {
                        let store = Arc::clone(&store);
                        let call = async move { unfinished.give_back(store.as_ref()).await };
                        calls.push(AssertUnwindSafe(timeout(LONGEST_CALL, call)).catch_unwind());
                    }
                    None => break,
                },
                Some(_done) = calls.next() => {}
                () = last.cancelled() => break,
            }
        }
        while calls.next().await.is_some() {}
    }
}

impl Unfinished {
    async fn give_back(self, store: &dyn Provider) {
        // A drop at shutdown says nothing against the work; a panic does.
        let (delay, attempt) = if self.after_panic {
            (Some(PAUSE_AFTER_PANIC), Attempt::Counted)
        } else {
            (None, Attempt::Uncounted)
        };
        self.unsaved
            .write_last(store, &self.token, LONGEST_CALL)
            .await;
        let given_back = match self.leased {
            Leased::Turn => abandon(store, &self.token, delay, attempt).await,
            Leased::Work => {
                let uncounted = attempt == Attempt::Uncounted;
                store.abandon_work_item(&self.token, delay, uncounted).await
            }
        };
        if let Err(error) = given_back {
            tracing::debug!(target: "duroxide::runtime", %error, "giving back unfinished work failed, its lease will run out");
        }
    }
}

/// Whether a claim that is given back counts as a try of its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    Counted,
    Uncounted,
}

/// Gives a claimed turn back, after a while. Later messages do not overtake what was claimed, in a store that can do
/// that.
pub(crate) async fn abandon(
    store: &dyn Provider,
    token: &str,
    rest: Option<Duration>,
    attempt: Attempt,
) -> Result<(), ProviderError> {
    let uncounted = attempt == Attempt::Uncounted;
    if let Some(rest) = rest
        && store
            .rest_orchestration_item(token, rest, uncounted)
            .await?
    {
        return Ok(());
    }
    store
        .abandon_orchestration_item(token, rest, uncounted)
        .await
}
