//! A store with instances in every state, and the binary on it.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::redb::RedbProvider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityContext, ActivityRegistry, Client, OrchestrationContext, OrchestrationRegistry, Runtime,
};
use duroxide_pg::PostgresProvider;
use tempfile::TempDir;

use crate::schema::Schema;
use crate::through_postgres::{server, server_url};

/// Which kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Redb,
    Postgres,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Sqlite, Self::Redb, Self::Postgres];
}

/// A store in a folder, or a schema, of its own.
pub(crate) struct Store {
    folder: TempDir,
    kind: Kind,
    schema: Option<Schema>,
}

/// What the binary answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Store {
    pub(crate) fn path(&self) -> PathBuf {
        match self.kind {
            Kind::Sqlite => self.folder.path().join("app.db"),
            Kind::Redb => self.folder.path().join("app.redb"),
            Kind::Postgres => panic!("a schema is no file"),
        }
    }

    /// The schema of a PostgreSQL store.
    pub(crate) fn schema(&self) -> Option<&str> {
        self.schema.as_ref().map(|schema| schema.0.as_str())
    }

    pub(crate) fn address(&self) -> String {
        match self.kind {
            Kind::Sqlite => format!("sqlite:{}", self.path().display()),
            Kind::Redb => format!("redb:{}", self.path().display()),
            Kind::Postgres => server_url(),
        }
    }

    pub(crate) async fn open(&self) -> Arc<dyn Provider> {
        match self.kind {
            Kind::Sqlite => Arc::new(SqliteProvider::new(&self.address(), None).await.unwrap()),
            Kind::Redb => Arc::new(RedbProvider::open(self.path()).unwrap()),
            Kind::Postgres => {
                let store = PostgresProvider::new_with_schema(&server(), self.schema()).await;
                Arc::new(store.unwrap())
            }
        }
    }

    /// An empty store.
    pub(crate) async fn empty(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let schema = (kind == Kind::Postgres).then(Schema::named);
        let store = Self {
            folder,
            kind,
            schema,
        };
        drop(store.open().await);
        store
    }

    /// One instance in every state, and no runtime: `paid` completed, `refused` failed, `ask` waits for a signal,
    /// `family` for its child, `nap` for a timer, `unknown` for code that nobody has.
    pub(crate) async fn filled(kind: Kind) -> Self {
        let store = Self::empty(kind).await;
        let provider = store.open().await;
        let runtime = start(provider.clone()).await;
        let client = Client::new(provider);
        for (id, name) in [
            ("paid", "order"),
            ("refused", "broken"),
            ("ask", "approval"),
            ("family", "parent"),
            ("nap", "sleeper"),
        ] {
            client.start_orchestration(id, name, "{}").await.unwrap();
        }
        let minute = Duration::from_secs(60);
        for id in ["paid", "refused"] {
            client.wait_for_orchestration(id, minute).await.unwrap();
        }
        for id in ["ask", "family::sub::2", "nap"] {
            says_something(&client, id).await;
        }
        runtime.shutdown(None).await;
        client
            .start_orchestration("unknown", "not-deployed", "{}")
            .await
            .unwrap();
        store
    }

    /// Runs statements on the file of an SQLite store.
    pub(crate) fn sql(&self, text: &str) {
        let file = rusqlite::Connection::open(self.path()).unwrap();
        file.execute_batch(text).unwrap();
    }

    /// Runs the binary on the store.
    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        let mut command = binary();
        command
            .current_dir(self.folder.path())
            .env("DUROXIDE_STORE", self.address())
            .args(arguments);
        if let Some(schema) = self.schema() {
            command.env("DUROXIDE_SCHEMA", schema);
        }
        answer(command.stdin(Stdio::null()).output().unwrap())
    }

    /// What the binary prints; it must succeed and have nothing to complain of.
    pub(crate) fn tells(&self, arguments: &[&str]) -> String {
        let answer = self.run(arguments);
        assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{arguments:?}");
        answer.out
    }

    /// The same, without times and without the padding that depends on them.
    pub(crate) fn shows(&self, arguments: &[&str]) -> String {
        timeless(&self.tells(arguments))
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let with_json = [arguments, &["--json"]].concat();
        serde_json::from_str(&self.tells(&with_json)).unwrap()
    }
}

pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duroxide"));
    for variable in ["DUROXIDE_STORE", "DUROXIDE_SCHEMA", "COLUMNS"] {
        command.env_remove(variable);
    }
    command
}

pub(crate) fn answer(output: Output) -> Answer {
    Answer {
        code: output.status.code().expect("the binary was not killed"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Words that are a time or a span become `T`; spaces between words become one.
pub(crate) fn timeless(text: &str) -> String {
    let is_time = |word: &str| {
        let word = word.trim_matches(|c: char| "(),:;+".contains(c));
        let is_point = word.len() == 24 && word.ends_with('Z') && word.starts_with("20");
        let is_span = word.starts_with(|c: char| c.is_ascii_digit())
            && word
                .chars()
                .all(|c| c.is_ascii_digit() || "dhms".contains(c))
            && word.ends_with(|c: char| "hms".contains(c));
        is_point || is_span
    };
    let line = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<_> = line
            .split_whitespace()
            .map(|word| if is_time(word) { "T" } else { word })
            .collect();
        format!("{}{}\n", &line[..indent], words.join(" "))
    };
    text.lines().map(line).collect()
}

/// Starts a runtime with all the code but `not-deployed`.
pub(crate) async fn start(store: Arc<dyn Provider>) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("charge", |_: ActivityContext, _: String| async {
            Ok("charged".to_owned())
        })
        .register("refuse", |_: ActivityContext, _: String| async {
            Err::<String, _>("no \u{1b}[31mfunds".to_owned())
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("order", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("charge", "{}").await
        })
        .register(
            "broken",
            |ctx: OrchestrationContext, _: String| async move {
                ctx.schedule_activity("refuse", "{}").await
            },
        )
        .register(
            "approval",
            |ctx: OrchestrationContext, _: String| async move {
                ctx.set_custom_status("asks the boss");
                Ok(ctx.schedule_wait("approved").await)
            },
        )
        .register(
            "parent",
            |ctx: OrchestrationContext, _: String| async move {
                ctx.schedule_sub_orchestration("approval", "{}").await
            },
        )
        .register("sleeper", sleeper)
        .build();
    Runtime::start_with_store(store, activities, orchestrations).await
}

async fn says_something(client: &Client, id: &str) {
    let (minute, pause) = (Duration::from_secs(60), Duration::from_millis(10));
    let status = client.wait_for_status_change(id, 0, pause, minute).await;
    status.unwrap();
}

/// Waits for a day.
pub(crate) async fn sleeper(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.set_kv_value("colour", "blue");
    ctx.set_custom_status("sleeps");
    ctx.schedule_timer(Duration::from_secs(86_400)).await;
    Ok(String::new())
}
