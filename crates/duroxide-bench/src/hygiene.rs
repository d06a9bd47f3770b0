//! Whether a PostgreSQL store stays healthy: beside a transaction that somebody holds open, among many finished
//! instances, after many messages. In: an empty schema, or two. Out: rows to be compared with each other, and the sizes
//! of tables.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{Client, NoTls};

use crate::measure::{Latencies, Sample};
use crate::report::Row;
use crate::system::{Subject, System};
use crate::workload::closed_loop;
use crate::{course, fill_postgres, open};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hygiene {
    /// `hello`, while another session keeps a transaction with a number and a snapshot open: nothing that dies
    /// meanwhile is vacuumed.
    Held,
    /// `hello` in a schema with many finished instances and in an empty one.
    Filled,
    /// Parents with ten children each, until so many messages have passed through the queues.
    Sizes,
}

pub(crate) const NAMES: &[(&str, Hygiene)] = &[
    ("held@64", Hygiene::Held),
    ("filled@64", Hygiene::Filled),
    ("sizes", Hygiene::Sizes),
];

const IN_FLIGHT: usize = 64;
/// How long `hello` is measured at most before and after a transaction is held open.
const AROUND_MAX: Duration = Duration::from_secs(60);
/// How often the sizes are told.
const LOOKS: u32 = 10;
/// Parents that run at once, children of each, and how long until the messages are counted again.
const PARENTS: usize = 8;
const CHILDREN: u32 = 10;
const COUNT_EVERY: Duration = Duration::from_secs(2);
/// The tables that messages and activities pass through.
const QUEUES: [&str; 4] = ["orchestrator_queue", "inboxes", "worker_queue", "arrivals"];

pub(crate) async fn run(
    name: &str,
    what: Hygiene,
    folder: &Path,
    time: Duration,
    amount: u32,
) -> Vec<Row> {
    let rows = match what {
        Hygiene::Held => held(name, folder, time).await,
        Hygiene::Filled => filled(name, folder, time, amount).await,
        Hygiene::Sizes => sizes(name, folder, amount).await,
    };
    drop_schema(folder).await;
    rows
}

/// Without, with, and without again; of the middle the last tenth apart, because what is not vacuumed adds up.
async fn held(name: &str, folder: &Path, time: Duration) -> Vec<Row> {
    let around = time.min(AROUND_MAX);
    let engine = Arc::new(open::open(Subject::Postgres, folder).await);
    hello(&engine, around / 5, "warm").await;
    let before = hello(&engine, around, "before").await;
    let other = connect().await;
    let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()";
    other.batch_execute(hold).await.expect("hold a transaction");
    let with = hello(&engine, time - time / 10, "with").await;
    let last = hello(&engine, time / 10, "last").await;
    tell_sizes(&other, folder, "held").await;
    other.batch_execute("COMMIT").await.expect("let go");
    let after = hello(&engine, around, "after").await;
    stop(engine).await;
    let row = |label: &str, sample: &Sample| {
        Row::of(
            Subject::Postgres,
            &format!("{name} {label}"),
            sample,
            folder,
        )
    };
    let last_row = row("last tenth", &last);
    vec![
        row("without", &before.and(after)),
        row("with", &with.and(last)),
        last_row,
    ]
}

/// Both schemas in turns, so that a slow minute hits both.
async fn filled(name: &str, folder: &Path, time: Duration, amount: u32) -> Vec<Row> {
    let other = crate::folder();
    course::seed(open::open(Subject::Postgres, other.path()).await).await;
    fill_postgres::run(&open::schema(other.path()), amount).await;
    let mut samples: [Option<Sample>; 2] = [None, None];
    let prefixes = ["one", "two", "three", "four"];
    for (is_full, prefix) in [false, true, true, false].into_iter().zip(prefixes) {
        let place = if is_full { other.path() } else { folder };
        let engine = Arc::new(open::open(Subject::Postgres, place).await);
        hello(&engine, time / 5, &format!("warm-{prefix}")).await;
        let sample = hello(&engine, time, prefix).await;
        stop(engine).await;
        let so_far = &mut samples[usize::from(is_full)];
        *so_far = Some(match so_far.take() {
            Some(so_far) => so_far.and(sample),
            None => sample,
        });
    }
    drop_schema(other.path()).await;
    let names = [format!("{name} empty"), format!("{name} {amount}")];
    let rows = samples.into_iter().flatten().zip(names);
    rows.map(|(sample, name)| Row::of(Subject::Postgres, &name, &sample, folder))
        .collect()
}

async fn sizes(name: &str, folder: &Path, amount: u32) -> Vec<Row> {
    let engine = Arc::new(open::open(Subject::Postgres, folder).await);
    let client = connect().await;
    tell_sizes(&client, folder, "0 messages").await;
    let begun = Sample::begin(CHILDREN * 2);
    let mut seen = Latencies::default();
    let mut told = 0;
    for round in 0_u32.. {
        let prefix = format!("round-{round}");
        let parents = closed_loop(&engine, "subs", CHILDREN, PARENTS, COUNT_EVERY, &prefix);
        seen = seen.and(parents.await);
        let passed = messages(&client, folder).await;
        let look = passed * i64::from(LOOKS) / i64::from(amount.max(1));
        if look > told {
            told = look;
            tell_sizes(&client, folder, &format!("{passed} messages")).await;
        }
        if passed >= i64::from(amount) {
            break;
        }
    }
    let sample = begun.finish(seen);
    stop(engine).await;
    vec![Row::of(Subject::Postgres, name, &sample, folder)]
}

/// How many messages and activities were put into the queues.
async fn messages(client: &Client, folder: &Path) -> i64 {
    let mut all = 0;
    for table in ["orchestrator_queue", "worker_queue"] {
        let schema = open::schema(folder);
        let sql = format!("SELECT last_value FROM \"{schema}\".{table}_id_seq");
        all += client
            .query_one(&sql, &[])
            .await
            .expect("count")
            .get::<_, i64>(0);
    }
    all
}

/// How large the tables of the queues are, indexes and free space included, and how many of their rows are dead.
async fn tell_sizes(client: &Client, folder: &Path, when: &str) {
    let schema = open::schema(folder);
    let sql = "SELECT pg_table_size(c.oid) / 1024, pg_indexes_size(c.oid) / 1024, pg_stat_get_dead_tuples(c.oid)
               FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2";
    eprintln!("  {when}:");
    for table in QUEUES {
        let row = client.query_one(sql, &[&schema, &table]).await;
        let row = row.expect("the size of a table");
        let (rows, indexes, dead): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        eprintln!("    {table}: {rows} kB, indexes {indexes} kB, {dead} dead rows");
    }
}

async fn hello<S: System>(engine: &Arc<S>, time: Duration, prefix: &str) -> Sample {
    let sample = Sample::begin(1);
    sample.finish(closed_loop(engine, "hello", 0, IN_FLIGHT, time, prefix).await)
}

async fn stop<S: System>(engine: Arc<S>) {
    if let Ok(engine) = Arc::try_unwrap(engine) {
        engine.stop().await;
    }
}

async fn connect() -> Client {
    let (client, connection) = tokio_postgres::connect(&open::server(), NoTls)
        .await
        .expect("connect");
    tokio::spawn(connection);
    client
}

/// A million instances would stay on the server.
async fn drop_schema(folder: &Path) {
    let sql = format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", open::schema(folder));
    connect().await.batch_execute(&sql).await.expect("clean up");
}
