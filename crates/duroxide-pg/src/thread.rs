//! The thread that a store lives on. In: what a user chose. Out: the store's parts, running until its handles are gone.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Config;

use crate::connection::db::{Db, configured};
use crate::connection::limits;
use crate::connection::migrate;
use crate::connection::schema::Schema;
use crate::connection::tls::Tls;
use crate::connection::url::{self, Target};
use crate::error::{PgError, Result};
use crate::group::{Group, Request};
use crate::news::News;
use crate::notify::{self, Notifier};
use crate::options::{MigrationPolicy, PostgresOptions, ProviderConfig};
use crate::watch::Watches;

/// How long opening a store waits for its listener.
const LISTENER_PATIENCE: Duration = Duration::from_secs(3);

/// How long the end of a store waits until its last notice is sent.
const LAST_NOTICE_PATIENCE: Duration = Duration::from_secs(1);

/// What is to be opened, checked as far as that needs no server.
pub(crate) struct Plan {
    schema: Schema,
    target: Target,
    tls: Tls,
    listener: Config,
    listener_tls: Tls,
    policy: MigrationPolicy,
    options: PostgresOptions,
}

impl Plan {
    pub(crate) fn of(config: &ProviderConfig) -> Result<Self> {
        let env = |name: &str| std::env::var(name).ok();
        limits::check(&config.options)?;
        let schema = Schema::parse(config.schema())?;
        let target = url::parse(&config.database_url, env)?;
        let tls = Tls::new(&target)?;
        let options = config.options.clone();
        let (listener, listener_tls) = match &options.listener_url {
            Some(other) => {
                let other = url::parse(other, env)?;
                let tls = Tls::new(&other)?;
                (configured(&other, &options), tls)
            }
            None => (configured(&target, &options), tls.clone()),
        };
        Ok(Self {
            schema,
            target,
            tls,
            listener,
            listener_tls,
            policy: config.migration_policy,
            options,
        })
    }
}

/// What the thread shares with the handles of the store.
pub(crate) struct Shared {
    pub(crate) watches: Arc<Watches>,
    pub(crate) notifier: Arc<Notifier>,
    pub(crate) inbox: mpsc::UnboundedReceiver<Request>,
    /// The way into the inbox; it does not keep the store open.
    pub(crate) requests: mpsc::WeakUnboundedSender<Request>,
}

/// Where the thread reports that the store is open, or why it is not.
pub(crate) type Up = oneshot::Sender<Result<Arc<Db>>>;

/// Starts the thread.
pub(crate) fn spawn(plan: Plan, shared: Shared, up: Up) -> Result<()> {
    let out_of_reach = |error: std::io::Error| PgError::OutOfReach {
        why: error.to_string(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(out_of_reach)?;
    let thread = std::thread::Builder::new().name("duroxide-pg".to_owned());
    let serve = move || {
        let io = runtime.handle().clone();
        runtime.block_on(serve(plan, shared, up, io));
    };
    thread.spawn(serve).map_err(out_of_reach)?;
    Ok(())
}

/// Opens the store, reports that, and serves it until its last handle is gone.
async fn serve(plan: Plan, shared: Shared, up: Up, io: tokio::runtime::Handle) {
    let db = match open(&plan, io).await {
        Ok(db) => Arc::new(db),
        // A failed send: the caller dropped the call.
        Err(error) => return drop(up.send(Err(error))),
    };
    let channel = notify::channel(db.schema.name());
    let sending = tokio::spawn(notify::send(
        Arc::clone(&shared.notifier),
        Arc::clone(&db),
        channel.clone(),
    ));
    let poll_interval = plan.options.poll_interval;
    if plan.options.listen {
        listen(plan, &shared, channel).await;
    }
    let Shared {
        watches,
        notifier,
        inbox,
        ..
    } = shared;
    let group = Group::new(
        Arc::clone(&db),
        watches,
        Arc::clone(&notifier),
        inbox,
        poll_interval,
    );
    if up.send(Ok(Arc::clone(&db))).is_ok() {
        group.run().await;
        notifier.close();
        // A server that does not answer is not waited for: others find by polling what this process left.
        let _ = tokio::time::timeout(LAST_NOTICE_PATIENCE, sending).await;
    }
    db.close();
}

async fn open(plan: &Plan, io: tokio::runtime::Handle) -> Result<Db> {
    let (schema, tls) = (plan.schema.clone(), plan.tls.clone());
    let db = Db::new(&plan.target, tls, schema, &plan.options, io)?;
    prepare(&db, plan.policy).await?;
    db.opened();
    Ok(db)
}

/// Starts the listener and waits for it, but not for long: one that cannot listen tries on by itself.
async fn listen(plan: Plan, shared: &Shared, channel: String) {
    let requests = shared.requests.clone();
    // Whether the store is still open.
    let hear = move |news: News| match requests.upgrade() {
        Some(group) => news == News::default() || group.send(Request::Look(news)).is_ok(),
        None => false,
    };
    let (ready, is_ready) = oneshot::channel();
    let notifier = Arc::clone(&shared.notifier);
    let listening = notify::listen(
        notifier,
        plan.listener,
        plan.listener_tls,
        channel,
        hear,
        ready,
    );
    tokio::spawn(listening);
    let _ = tokio::time::timeout(LISTENER_PATIENCE, is_ready).await;
}

/// Brings the schema to the version of this build, or checks that it has it.
pub(crate) async fn prepare(db: &Db, policy: MigrationPolicy) -> Result<()> {
    let mut client = db.exchanger().await?;
    let client: &mut tokio_postgres::Client = &mut client;
    migrate::run(client, &db.schema, policy).await
}
