//! The parts of one provider, and the thread they live on. In: requests of any task. Out: answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use crate::calls;
use crate::connection::call::Call;
use crate::connection::db::{Db, configured};
use crate::connection::migrate;
use crate::connection::schema::Schema;
use crate::connection::tls::Tls;
use crate::connection::url;
use crate::error::{PgError, Result};
use crate::group::{Group, Op, Request, Waiting, Write};
use crate::queues::Queues;
use crate::notify::{self, Notifier};
use crate::options::ProviderConfig;
use crate::watch::Watches;

/// How long opening a store waits for its listener.
const LISTENER_PATIENCE: Duration = Duration::from_secs(3);

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
        let schema = Schema::parse(config.schema())?;
        let env = |name: &str| std::env::var(name).ok();
        let target = url::parse(&config.database_url, env)?;
        let tls = Tls::new(&target)?;
        let options = &config.options;
        let (listener, listener_tls) = match &options.listener_url {
            Some(other) => {
                let other = url::parse(other, env)?;
                let tls = Tls::new(&other)?;
                (configured(&other, options), tls)
            }
            None => (configured(&target, options), tls.clone()),
        };
        let (requests, inbox) = mpsc::unbounded_channel();
        let watches = Arc::new(Watches::default());
        let notifier = Notifier::new(Arc::clone(&watches));
        let (up, is_up) = oneshot::channel();
        let parts = (Arc::clone(&watches), Arc::clone(&notifier));
        let (policy, poll) = (config.migration_policy, options.poll_interval);
        let listens = options.listen;
        let (options, channel) = (options.clone(), notify::channel(schema.name()));
        let group = requests.downgrade();
        // Whether the store is still open.
        let hear = move |look: Queues| match group.upgrade() {
            Some(group) => look == Queues::default() || group.send(Request::Look(look)).is_ok(),
            None => false,
        };
        let thread = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => {
                    let why = error.to_string();
                    let _ = up.send(Err(PgError::OutOfReach { why }));
                    return;
                }
            };
            let io = runtime.handle().clone();
            runtime.block_on(async move {
                let db = match Db::new(&target, tls, schema, &options, io) {
                    Ok(db) => Arc::new(db),
                    Err(error) => return drop(up.send(Err(error))),
                };
                if let Err(error) = prepare(&db, policy).await {
                    return drop(up.send(Err(error)));
                }
                db.opened();
                let (watches, notifier) = parts;
                tokio::spawn(notify::send(
                    Arc::clone(&notifier),
                    Arc::clone(&db),
                    channel.clone(),
                ));
                if listens {
                    let (ready, is_ready) = oneshot::channel();
                    let hearer = Arc::clone(&notifier);
                    tokio::spawn(notify::listen(
                        hearer,
                        listener,
                        listener_tls,
                        channel,
                        hear,
                        ready,
                    ));
                    // A server that says nothing is waited for elsewhere.
                    let _ = tokio::time::timeout(LISTENER_PATIENCE, is_ready).await;
                }
                let collecting = Group::new(Arc::clone(&db), watches, notifier, inbox, poll);
                if up.send(Ok(Arc::clone(&db))).is_ok() {
                    collecting.run().await;
                }
                db.close();
            });
        };
        std::thread::Builder::new()
            .name("duroxide-pg".to_owned())
            .spawn(thread)
            .map_err(|error| PgError::OutOfReach {
                why: error.to_string(),
            })?;
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
    pub(crate) fn look(&self, look: Queues, ended: &[String]) {
        // A failed send: the store is closing.
        let _ = self.requests.send(Request::Look(look));
        self.notifier.tell(look, ended);
    }

    /// Gives a turn back, uncounted, without anybody waiting for it.
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

/// Brings the schema to the version of this build, or checks that it has it.
pub(crate) async fn prepare(db: &Db, policy: crate::MigrationPolicy) -> Result<()> {
    let mut client = db.exchanger().await?;
    let client: &mut tokio_postgres::Client = &mut client;
    migrate::run(client, &db.schema, policy).await
}
