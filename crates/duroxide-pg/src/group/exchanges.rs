//! The exchanges that are under way. In: exchanges that begin. Out: when another one may begin, and how each ended.

use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use super::exchange_result::ExchangeResult;
use crate::connection::db::EXCHANGES_MAX;

/// An exchange that takes longer does not hold up the next one: it may wait for a row that another program holds.
const SLOW_EXCHANGE: Duration = Duration::from_millis(20);
/// Later than anything that is waited for.
const FAR: Duration = Duration::from_secs(3_600);

pub(super) struct Exchanges {
    running: FuturesUnordered<BoxFuture<'static, ExchangeResult>>,
    /// The number of the last one.
    last: u64,
    /// When it began.
    launched_at: Instant,
}

impl Exchanges {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            running: FuturesUnordered::new(),
            last: 0,
            launched_at: now,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The number of the next one.
    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn launch(&mut self, exchange: BoxFuture<'static, ExchangeResult>, now: Instant) {
        self.running.push(exchange);
        self.launched_at = now;
    }

    /// When another one may begin beside those that are under way; `None` if it may begin now.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        match self.running.len() {
            0 => None,
            EXCHANGES_MAX.. => Some(now + FAR),
            _ => Some(self.launched_at + SLOW_EXCHANGE).filter(|at| *at > now),
        }
    }

    /// The next one that ends; waits for ever if none is under way.
    pub(super) async fn next(&mut self) -> ExchangeResult {
        match self.running.next().await {
            Some(done) => done,
            None => std::future::pending().await,
        }
    }
}
