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
use crate::notify::Notifier;
use crate::options::ProviderConfig;
use crate::queues::News;
use crate::thread::{self, Plan, Shared};
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
        let (reply, answer) = oneshot::channel();
        self.request(Request::Write(Write { op, reply }))?;
        answer.await.map_err(|_| PgError::Closed)?
    }

    pub(crate) async fn claim_turns(
        &self,
        ask: Arc<calls::claim_turns::Ask>,
        deadline: Option<Instant>,
    ) -> Result<Vec<calls::claim_turns::RawTurn>> {
        let (reply, answer) = oneshot::channel();
        self.request(Request::Turns(Waiting {
            max: ask.max,
            ask,
            deadline,
            reply,
        }))?;
        answer.await.map_err(|_| PgError::Closed)?
    }

    pub(crate) async fn claim_work(
        &self,
        ask: Arc<calls::claim_work::Ask>,
        deadline: Option<Instant>,
    ) -> Result<Vec<calls::claim_work::RawWork>> {
        let (reply, answer) = oneshot::channel();
        self.request(Request::Work(Waiting {
            max: ask.max,
            ask,
            deadline,
            reply,
        }))?;
        answer.await.map_err(|_| PgError::Closed)?
    }

    /// Stores the lease of a turn that was handed out before it, so that it can be used for something else than a
    /// commit. Tells whether that was possible.
    pub(crate) async fn store_lease(&self, token: Uuid) -> Result<bool> {
        let (done, is_done) = oneshot::channel();
        self.request(Request::Store(token, done))?;
        is_done.await.map_err(|_| PgError::Closed)
    }

    pub(crate) fn hold_early(&self, hold: Duration) {
        // A failed send: the store is closing.
        let _ = self.requests.send(Request::Hold(hold));
    }

    /// What the server's clock is expected to say.
    pub(crate) fn expected(&self) -> i64 {
        self.db.expected.now()
    }

    fn request(&self, request: Request) -> Result<()> {
        self.requests.send(request).map_err(|_| PgError::Closed)
    }

    /// Something was written outside the group; claims here and elsewhere look again.
    pub(crate) fn look(&self, news: impl Into<News>, ended: &[String]) {
        let news = news.into();
        // A failed send: the store is closing.
        let _ = self.requests.send(Request::Look(news));
        self.notifier.tell(news, ended);
    }

    /// Gives a turn back, uncounted; the caller does not wait for that.
    pub(crate) fn give_back(&self, turn: calls::claim_turns::RawTurn) {
        // A failed send: the store is closing, and the lease lapses.
        let _ = self.requests.send(Request::GiveBack(turn));
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
