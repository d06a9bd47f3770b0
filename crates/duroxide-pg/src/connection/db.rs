//! The connections of one process. In: calls. Out: rows. The driver's tasks live on the store's own thread, so that a
//! program that blocks its async threads keeps its connections and its leases.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::{Connect, Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Row};

use crate::connection::call::Call;
use crate::connection::schema::Schema;
use crate::connection::tls::Tls;
use crate::connection::url::Target;
use crate::error::{PgError, Result, is_passing};
use crate::options::PostgresOptions;
use crate::time::Expected;

/// How many exchanges with the server run at once: beside one that takes long, another one goes on.
pub(crate) const EXCHANGES_MAX: usize = 2;
/// How many connections of the pool are for those who hold a claim: loading, giving back, dead-lettering.
const HOLDERS_MAX: usize = 2;
/// The smallest pool: exchanges, holders, and one for reads.
pub(crate) const POOL_MIN: usize = EXCHANGES_MAX + HOLDERS_MAX + 1;
/// Begins a transaction that waits for rows of others only so long: a transaction that holds one for longer is not one
/// of ours.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '1s'";
/// How long that is.
pub(crate) const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// Begins a transaction that reads the first rows of an order. A join that reads a whole table first, more processes
/// and compiled code all take longer to begin than the page takes.
const ALONG_INDEXES: &str = "BEGIN READ ONLY; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; \
    SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL jit = off";
/// How often a call is tried that was in the way of another one.
const TRIES_MAX: u32 = 10;

pub(crate) struct Db {
    pool: Pool,
    /// What reads may take of the pool, so that exchanges never wait behind them.
    reads: Semaphore,
    /// What those who hold claims may take: they must not wait behind a dashboard while their leases run out.
    holders: Semaphore,
    response_timeout: Duration,
    is_open: AtomicBool,
    pub(crate) schema: Schema,
    prepares: bool,
    statements: Mutex<HashMap<&'static str, Arc<str>>>,
    pub(crate) expected: Expected,
    retries: AtomicU64,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

/// A value of a statement, and its type.
pub(crate) type Param<'p> = (&'p (dyn ToSql + Sync), Type);

/// How the server is asked for rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Prepared,
    Once,
    AlongIndexes,
}

/// A connection for a read, until it is dropped.
pub(crate) struct Reader<'d> {
    pub(crate) client: Object,
    _permit: SemaphorePermit<'d>,
}

impl Db {
    pub(crate) fn new(
        target: &Target,
        tls: Tls,
        schema: Schema,
        options: &PostgresOptions,
        io: Handle,
    ) -> Result<Self> {
        let size = options.pool_size;
        let manager = Manager::from_connect(
            configured(target, options),
            OnThread { tls, io },
            ManagerConfig {
                recycling_method: RecyclingMethod::Fast,
            },
        );
        let pool = Pool::builder(manager)
            .max_size(size)
            .build()
            .map_err(|error| PgError::Url {
                why: error.to_string(),
            })?;
        Ok(Self {
            pool,
            reads: Semaphore::new(size - EXCHANGES_MAX - HOLDERS_MAX),
            holders: Semaphore::new(HOLDERS_MAX),
            response_timeout: options.response_timeout,
            is_open: AtomicBool::new(false),
            schema,
            prepares: options.prepared_statements,
            statements: Mutex::default(),
            expected: Expected::default(),
            retries: AtomicU64::new(0),
        })
    }

    /// How often the server was asked again because two transactions were in each other's way.
    pub(crate) fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// A connection for an exchange.
    pub(crate) async fn exchanger(&self) -> Result<Object> {
        let found = match self.in_time(self.pool.get()).await {
            Some(found) => found.map_err(PgError::from),
            None => Err(self.silent()),
        };
        match found {
            // A password that was changed, a database that is restored: it was right before and will be again.
            Err(PgError::Refused { why }) if self.is_open.load(Ordering::Relaxed) => {
                Err(PgError::OutOfReach { why })
            }
            found => found,
        }
    }

    /// The answer, or `None` if the server says nothing for too long: the connection is of no use then.
    pub(crate) async fn in_time<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(self.response_timeout, answer)
            .await
            .ok()
    }

    /// How long the server may say nothing.
    pub(crate) fn response_timeout(&self) -> Duration {
        self.response_timeout
    }

    /// The server says nothing.
    pub(crate) fn silent(&self) -> PgError {
        PgError::OutOfReach {
            why: format!("no answer within {:?}", self.response_timeout),
        }
    }

    /// The server says nothing to a call that writes.
    pub(crate) fn silent_since_sent(&self) -> PgError {
        PgError::Uncertain {
            why: format!("no answer within {:?}", self.response_timeout),
        }
    }

    /// A connection for a read; those who ask wait in order.
    pub(crate) async fn reader(&self) -> Result<Reader<'_>> {
        self.with(&self.reads).await
    }

    /// A connection for a caller that holds a claim.
    async fn holder(&self) -> Result<Reader<'_>> {
        self.with(&self.holders).await
    }

    async fn with<'d>(&'d self, permits: &'d Semaphore) -> Result<Reader<'d>> {
        let permit = permits.acquire().await.map_err(|_| PgError::Closed)?;
        Ok(Reader {
            client: self.exchanger().await?,
            _permit: permit,
        })
    }

    /// The server took us once.
    pub(crate) fn opened(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    pub(crate) fn close(&self) {
        self.pool.close();
    }

    /// A statement with the tables of the schema: `{s}` stands for it.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("{s}", &self.schema.quoted())
    }

    /// Rows of a statement of our own, which is prepared.
    pub(crate) async fn rows(&self, text: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let how = if self.prepares {
            How::Prepared
        } else {
            How::Once
        };
        self.rows_by(text, params, how).await
    }

    /// Rows of a statement that is rarely asked: in one round trip, and planned for these values, which a prepared one
    /// is only for the first few times.
    pub(crate) async fn rows_once(&self, text: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        self.rows_by(text, params, How::Once).await
    }

    /// The first rows of an order, which are few: read along indexes, by one process of the server.
    pub(crate) async fn first_rows(&self, text: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        self.rows_by(text, params, How::AlongIndexes).await
    }

    async fn rows_by(&self, text: &str, params: &[Param<'_>], how: How) -> Result<Vec<Row>> {
        let reader = self.reader().await?;
        let sql = self.sql(text);
        let mut tries = 0;
        loop {
            let Some(found) = self.in_time(run(&reader.client, &sql, params, how)).await else {
                drop(Object::take(reader.client));
                return Err(self.silent());
            };
            match found {
                Err(error) if self.may_retry(&error, &mut tries) => {
                    if forget_statements(&error) {
                        reader.client.statement_cache.clear();
                    }
                }
                other => return Ok(other?),
            }
        }
    }

    /// Whether to try again what another transaction was in the way of.
    pub(crate) fn may_retry(&self, error: &tokio_postgres::Error, tries: &mut u32) -> bool {
        *tries += 1;
        let may = (is_passing(error) || forget_statements(error)) && *tries < TRIES_MAX;
        if may {
            self.retries.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(target: "duroxide::providers::postgres", %error, "in the way of another transaction, tried again");
        }
        may
    }

    fn statement(&self, call: &Call<'_>) -> Arc<str> {
        let mut statements = self
            .statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let made = statements.entry(call.function).or_insert_with(|| {
            let places: Vec<String> = (1..=call.values.len())
                .map(|place| format!("${place}"))
                .collect();
            format!(
                "SELECT * FROM {}.{}({})",
                self.schema.quoted(),
                call.function,
                places.join(", ")
            )
            .into()
        });
        Arc::clone(made)
    }

    /// Runs these calls in one transaction and one round trip.
    pub(crate) async fn calls(
        &self,
        client: &Object,
        calls: &[Call<'_>],
    ) -> std::result::Result<Vec<Vec<Row>>, tokio_postgres::Error> {
        let mut asked: Vec<BoxFuture<'_, std::result::Result<Vec<Row>, tokio_postgres::Error>>> =
            Vec::with_capacity(calls.len() + 2);
        let is_alone = calls.len() == 1;
        // Sent in this order, because each future sends when it is first polled and none of them waits before that.
        if !is_alone {
            asked.push(
                client
                    .batch_execute(BEGIN)
                    .map(|done| done.map(|()| Vec::new()))
                    .boxed(),
            );
        }
        for call in calls {
            let sql = self.statement(call);
            let values: Vec<&(dyn ToSql + Sync)> =
                call.values.iter().map(|value| &**value as _).collect();
            if self.prepares {
                let statement = client.prepare_typed_cached(&sql, &call.types).await?;
                asked.push(async move { client.query(&statement, &values).await }.boxed());
            } else {
                let typed: Vec<(&(dyn ToSql + Sync), Type)> =
                    values.into_iter().zip(call.types.iter().cloned()).collect();
                asked.push(async move { client.query_typed(&sql, &typed).await }.boxed());
            }
        }
        if !is_alone {
            asked.push(
                client
                    .batch_execute("COMMIT")
                    .map(|done| done.map(|()| Vec::new()))
                    .boxed(),
            );
        }
        let mut answers = Vec::with_capacity(calls.len());
        // The first error is the cause, those after it only say that the transaction is over.
        for answer in futures::future::join_all(asked).await {
            answers.push(answer?);
        }
        if !is_alone {
            answers.pop();
            answers.remove(0);
        }
        Ok(answers)
    }

    /// Runs these calls in one transaction, for a caller that holds a claim.
    pub(crate) async fn transact(&self, calls: &[Call<'_>]) -> Result<Vec<Vec<Row>>> {
        self.run_calls(self.holder().await?, calls).await
    }

    /// Runs these calls in one transaction, for a caller that holds none and can wait.
    pub(crate) async fn transact_later(&self, calls: &[Call<'_>]) -> Result<Vec<Vec<Row>>> {
        self.run_calls(self.reader().await?, calls).await
    }

    async fn run_calls(&self, reader: Reader<'_>, calls: &[Call<'_>]) -> Result<Vec<Vec<Row>>> {
        let mut tries = 0;
        loop {
            let Some(found) = self.in_time(self.calls(&reader.client, calls)).await else {
                drop(Object::take(reader.client));
                return Err(self.silent_since_sent());
            };
            match found {
                Err(error) if self.may_retry(&error, &mut tries) => {
                    if forget_statements(&error) {
                        reader.client.statement_cache.clear();
                    }
                }
                other => return other.map_err(PgError::of_sent),
            }
        }
    }
}

async fn run(
    client: &Object,
    sql: &str,
    params: &[Param<'_>],
    how: How,
) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
    match how {
        How::Once => client.query_typed(sql, params).await,
        How::AlongIndexes => {
            // Sent together, in this order: each future sends when it is first polled.
            let (begun, rows, ended) = futures::join!(
                client.batch_execute(ALONG_INDEXES),
                client.query_typed(sql, params),
                client.batch_execute("COMMIT"),
            );
            begun?;
            let rows = rows?;
            ended?;
            Ok(rows)
        }
        How::Prepared => {
            let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
            let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
            let statement = client.prepare_typed_cached(sql, &types).await?;
            client.query(&statement, &values).await
        }
    }
}

/// Whether a connection's statements are worth nothing any more: a migration outdated them, or a pooler handed out
/// another session.
pub(crate) fn forget_statements(error: &tokio_postgres::Error) -> bool {
    let code = error.code();
    code == Some(&SqlState::FEATURE_NOT_SUPPORTED)
        || code == Some(&SqlState::INVALID_SQL_STATEMENT_NAME)
        || code == Some(&SqlState::DUPLICATE_PSTATEMENT)
}

pub(crate) fn configured(target: &Target, options: &PostgresOptions) -> Config {
    let mut config = target.config.clone();
    if config.get_application_name().is_none() {
        config.application_name(&options.application_name);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(10));
    }
    // A peer that vanished without a word is noticed in seconds, unless the url says otherwise.
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(15));
    }
    if config.get_keepalives_interval().is_none() {
        config
            .keepalives_idle(Duration::from_secs(15))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3);
    }
    if let Some(limit) = options.statement_timeout {
        let limit = format!("-c statement_timeout={}", limit.as_millis());
        let all = match config.get_options() {
            Some(given) => format!("{given} {limit}"),
            None => limit,
        };
        config.options(all);
    }
    config
}

/// Connects on the store's own thread.
struct OnThread {
    tls: Tls,
    io: Handle,
}

impl Connect for OnThread {
    fn connect(
        &self,
        config: &Config,
    ) -> BoxFuture<'_, std::result::Result<(Client, JoinHandle<()>), tokio_postgres::Error>> {
        let (config, tls) = (config.clone(), self.tls.clone());
        let io = self.io.clone();
        async move {
            let driver = io.clone();
            let connecting = io.spawn(async move {
                let (client, connection) = config.connect(tls).await?;
                let driving = driver.spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(target: "duroxide::providers::postgres", %error, "a connection ended");
                    }
                });
                Ok((client, driving))
            });
            match connecting.await {
                Ok(connected) => connected,
                // The thread is gone: the provider was dropped. The driver has no such error of its own.
                Err(_) => futures::future::pending().await,
            }
        }
        .boxed()
    }
}
