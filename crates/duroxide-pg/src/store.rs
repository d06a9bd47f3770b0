//! The handle of a store: its parts, and the ways to them. In: requests of any task. Out: answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use crate::calls;
use crate::connection::call::Call;
use crate::connection::db::Db;
use crate::error::{PgError, Result};
use crate::group::{Op, Request, Waiting, Write};
use crate::news::News;
use crate::notify::Notifier;
use crate::options::ProviderConfig;
use crate::thread::{self, Plan, Shared};
use crate::undelivered::{Claimable, Undelivered};
use crate::watch::Watches;

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) db: Arc<Db>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) notifier: Arc<Notifier>,
    requests: mpsc::UnboundedSender<Request>,
    pub(crate) unknown_instance_grace: Duration,
}

impl Store {
    pub(crate) async fn open(config: &ProviderConfig) -> Result<Self> {
        let plan = Plan::of(config)?;
        let (requests, inbox) = mpsc::unbounded_channel();
        let watches = Arc::new(Watches::default());
        let notifier = Notifier::new(Arc::clone(&watches));
        let shared = Shared {
            watches: Arc::clone(&watches),
            notifier: Arc::clone(&notifier),
            inbox,
            requests: requests.downgrade(),
        };
        let (up, is_up) = oneshot::channel();
        thread::spawn(plan, shared, up)?;
        Ok(Self {
            db: is_up.await.map_err(|_| PgError::Closed)??,
            watches,
            notifier,
            requests,
            unknown_instance_grace: config.options.unknown_instance_grace,
        })
    }

    pub(crate) async fn write(&self, op: Op) -> Result<()> {
        self.answered(|reply| Request::Write(Write::new(op, reply)))
            .await?
    }

    pub(crate) async fn claim_turns(
        &self,
        ask: Arc<calls::claim_turns::Ask>,
        deadline: Option<Instant>,
    ) -> Result<Undelivered<calls::claim_turns::RawTurn>> {
        let waiting = |reply| Waiting {
            max: ask.max,
            ask,
            deadline,
            reply,
        };
        self.claimed(|reply| Request::Turns(waiting(reply))).await
    }

    pub(crate) async fn claim_work(
        &self,
        ask: Arc<calls::claim_work::Ask>,
        deadline: Option<Instant>,
    ) -> Result<Undelivered<calls::claim_work::RawWork>> {
        let waiting = |reply| Waiting {
            max: ask.max,
            ask,
            deadline,
            reply,
        };
        self.claimed(|reply| Request::Work(waiting(reply))).await
    }

    /// Stores the lease of a turn that was handed out before it, so that it can be used for something else than a
    /// commit. Returns whether that was possible.
    pub(crate) async fn store_lease(&self, token: Uuid) -> Result<bool> {
        self.answered(|done| Request::Store(token, done)).await
    }

    pub(crate) fn hold_early(&self, hold: Duration) {
        // A failed send: the store is closing.
        let _ = self.requests.send(Request::Hold(hold));
    }

    /// What the server's clock is expected to say.
    pub(crate) fn expected(&self) -> i64 {
        self.db.expected.now()
    }

    /// Sends a request to the group, and waits for its answer.
    /// What a claim got; if the caller goes away meanwhile, it is given back.
    async fn claimed<T: Claimable>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<Vec<T>>>) -> Request,
    ) -> Result<Undelivered<T>> {
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.send(request(reply));
        sent.map_err(|_| PgError::Closed)?;
        Undelivered::of(answer, &self.requests).await
    }

    async fn answered<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.send(request(reply));
        sent.map_err(|_| PgError::Closed)?;
        answer.await.map_err(|_| PgError::Closed)
    }

    /// Something was written outside the group; claims here and elsewhere look again.
    pub(crate) fn look(&self, news: impl Into<News>, ended: &[String]) {
        let news = news.into();
        // A failed send: the store is closing.
        let _ = self.requests.send(Request::Look(news));
        self.notifier.notify(news, ended);
    }

    /// The value of a call of a function that answers with one row.
    pub(crate) async fn one<T>(&self, call: Call<'_>) -> Result<T>
    where
        T: for<'r> tokio_postgres::types::FromSql<'r>,
    {
        let rows = self.db.transact(&[call]).await?;
        let row = rows.first().and_then(|rows| rows.first());
        let row = row.ok_or_else(|| PgError::Database {
            why: "a function answered with no row".to_owned(),
        })?;
        Ok(row.try_get(0)?)
    }
}
