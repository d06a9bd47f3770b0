//! The process that is recorded: a runtime and a client on a file. In: two variables of the environment. Out: a line
//! for everything that was acknowledged, and an end without closing anything.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::clock::ClockRef;
use duroxide_core::provider::Provider;
use duroxide_runtime::registry::ActivityRegistry;
use duroxide_runtime::{
    ActivityContext, Client, OrchestrationRegistry, OrchestrationStatus, Runtime, RuntimeOptions,
};
use duroxide_sqlite::{SqliteOptions, SqliteProvider};
use duroxide_store::StoreClock;
use duroxide_store::redb::{RedbOptions, RedbProvider};

pub(super) const FOLDER: &str = "DUROXIDE_POWER_LOSS_FOLDER";
pub(super) const KIND: &str = "DUROXIDE_POWER_LOSS_STORE";
const ROUNDS: usize = 10;
const AT_ONCE: usize = 3;

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Redb,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Redb => "redb",
        }
    }

    /// The name of its file.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Sqlite => "store.db",
            Self::Redb => "store.redb",
        }
    }

    /// Opens the store in a folder, at default durability.
    pub(crate) async fn open(
        self,
        folder: &Path,
        clock: Option<ClockRef>,
    ) -> Result<Arc<dyn Provider>, String> {
        match self {
            Self::Sqlite => {
                let url = format!("sqlite:{}", folder.join("store.db").display());
                let mut options = SqliteOptions::default();
                if let Some(clock) = clock {
                    options.clock = clock;
                }
                let store = SqliteProvider::new(&url, Some(options)).await;
                Ok(Arc::new(store.map_err(|error| error.to_string())?))
            }
            Self::Redb => {
                let mut options = RedbOptions::default();
                if let Some(clock) = clock {
                    options.clock = StoreClock::from(clock);
                }
                let store = RedbProvider::open_async(folder.join("store.redb"), options).await;
                Ok(Arc::new(store.map_err(|error| error.to_string())?))
            }
        }
    }
}

/// What instance `id` ends with.
pub(super) fn output(id: &str) -> String {
    format!("{id} done done")
}

fn acknowledge(what: &str) {
    let mut out = std::io::stdout().lock();
    // One write for the whole line, after what it acknowledges.
    out.write_all(format!("ACK {what}\n").as_bytes())
        .and_then(|()| out.flush())
        .expect("the recording process reads");
}

/// Runs if this is the process that is recorded.
pub(super) fn main() {
    let (Ok(folder), Ok(kind)) = (std::env::var(FOLDER), std::env::var(KIND)) else {
        return;
    };
    let kind = match kind.as_str() {
        "sqlite" => Kind::Sqlite,
        _ => Kind::Redb,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(work(kind, &PathBuf::from(folder), ROUNDS));
    // Nothing is closed: the power goes.
    std::process::exit(0);
}

/// Starts orchestrations and waits for their ends, some at once, this many times.
pub(crate) async fn work(kind: Kind, folder: &Path, rounds: usize) {
    let store = kind.open(folder, None).await.expect("a new store opens");
    let orchestrations = OrchestrationRegistry::builder()
        .register(
            "work",
            |ctx: duroxide_core::OrchestrationContext, input: String| async move {
                ctx.set_kv_value("input", input.clone());
                let once = ctx.schedule_activity("add", input).await?;
                ctx.schedule_activity("add", once).await
            },
        )
        .build();
    let activities = ActivityRegistry::builder()
        .register("add", |_: ActivityContext, input: String| async move {
            Ok::<_, String>(format!("{input} done"))
        })
        .build();
    let runtime = Runtime::builder()
        .with_provider(Arc::clone(&store))
        .with_activities(activities)
        .with_orchestrations(orchestrations)
        .with_options(RuntimeOptions::default())
        .build()
        .await
        .expect("a runtime starts");
    let client = Client::new(Arc::clone(&store));
    for round in 0..rounds {
        let ids = (0..AT_ONCE).map(|n| format!("i{round}-{n}"));
        futures_util::future::join_all(ids.map(|id| one(&client, id))).await;
        if kind == Kind::Sqlite && round % 3 == 2 {
            checkpoint(folder).await;
        }
    }
    if std::env::var_os(FOLDER).is_none() {
        runtime.shutdown(Some(1_000)).await;
    }
}

/// Moves the log into the database, while the runtime has both open.
async fn checkpoint(folder: &Path) {
    let url = format!("sqlite:{}", folder.join("store.db").display());
    let store = SqliteProvider::new(&url, None)
        .await
        .expect("it opens twice");
    store.checkpoint().await.expect("nobody reads for long");
}

async fn one(client: &Client, id: String) {
    let started = client.start_orchestration(&id, "work", id.clone()).await;
    started.expect("the store takes a start");
    acknowledge(&format!("started {id}"));
    let ended = client
        .wait_for_orchestration(&id, Duration::from_secs(60))
        .await;
    match ended.expect("it ends") {
        OrchestrationStatus::Completed { output, .. } if output == self::output(&id) => {
            acknowledge(&format!("done {id}"));
        }
        other => panic!("{id} ended as {other:?}"),
    }
}
