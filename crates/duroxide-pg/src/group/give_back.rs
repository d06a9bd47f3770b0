//! Gives back what was claimed for a caller that is gone. In: turns and activities. Out: they are in their queues
//! again, and from where on claims have to look for them; if the server does not answer, their leases run out.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::calls::claim_turns::RawTurn;
use crate::calls::claim_work::RawWork;
use crate::connection::call::Call;
use crate::connection::db::Db;
use crate::news::{NOTHING_NEW, News, Queues};

/// Claims on their way back.
pub(super) struct GivingBack {
    db: Arc<Db>,
    under_way: FuturesUnordered<BoxFuture<'static, News>>,
}

impl GivingBack {
    pub(super) fn new(db: Arc<Db>) -> Self {
        Self {
            db,
            under_way: FuturesUnordered::new(),
        }
    }

    pub(super) fn turn(&mut self, turn: RawTurn) {
        let db = Arc::clone(&self.db);
        self.under_way
            .push(Box::pin(async move { give_back_turn(&db, &turn).await }));
    }

    /// Gives a turn back as soon as its lease is stored.
    pub(super) fn turn_when(&mut self, turn: RawTurn, is_stored: oneshot::Receiver<bool>) {
        let db = Arc::clone(&self.db);
        self.under_way.push(Box::pin(async move {
            match is_stored.await {
                Ok(_) => give_back_turn(&db, &turn).await,
                // The group has ended, and the lease runs out.
                Err(_) => News::default(),
            }
        }));
    }

    pub(super) fn work(&mut self, work: &RawWork) {
        let db = Arc::clone(&self.db);
        let (id, random) = (work.id, work.random);
        self.under_way.push(Box::pin(async move {
            let call = Call::new("abandon_work")
                .int(db.expected.now())
                .int(id)
                .uuid(random)
                .opt_int(None)
                .flag(true);
            given_back(&db, call).await;
            // The row was there all the time.
            News {
                work: Some(NOTHING_NEW),
                ..News::default()
            }
        }));
    }

    /// What the next one that is back makes claimable; waits for ever if none is under way.
    pub(super) async fn next(&mut self) -> News {
        match self.under_way.next().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// Waits for those under way, but not for long; what they make claimable.
    pub(super) async fn finish(mut self, patience: Duration) -> News {
        let until = Instant::now() + patience;
        let mut all = News::default();
        while let Ok(Some(news)) = tokio::time::timeout_at(until, self.under_way.next()).await {
            all.add(news);
        }
        all
    }
}

async fn give_back_turn(db: &Db, turn: &RawTurn) -> News {
    let call = Call::new("abandon_turn")
        .int(db.expected.now())
        .text(&turn.instance)
        .uuid(turn.random)
        .opt_int(None)
        .flag(true);
    given_back(db, call).await;
    Queues::TURNS.into()
}

/// After a failure claims look all the same: the answer may have been lost.
async fn given_back(db: &Db, call: Call<'_>) {
    if let Err(error) = db.transact(&[call]).await {
        tracing::debug!(target: "duroxide::providers::postgres", %error, "a claim whose caller is gone could not be given back, its lease runs out");
    }
}
