//! The floor on PostgreSQL: the rows that 64 `hello` write, as arrays, in four transactions of one round trip each, by
//! a bare tokio-postgres loop. What the engine and its store cost above this is their own doing.

use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use crate::floor::NAME;
use crate::measure::{Latencies, Sample};
use crate::open::server;
use crate::report::Row;
use crate::system::Subject;

/// Orchestrations that share one commit.
const GROUP: usize = 64;

const SCHEMA: &str = "
CREATE TABLE instances (instance_id text COLLATE \"C\" PRIMARY KEY, name text, version text, execution bigint, created_at bigint);
CREATE TABLE executions (instance_id text COLLATE \"C\", execution_id bigint, status text, output text,
    PRIMARY KEY (instance_id, execution_id));
CREATE TABLE history (instance_id text COLLATE \"C\", execution_id bigint, event_id bigint, event_data text,
    PRIMARY KEY (instance_id, execution_id, event_id));
CREATE TABLE orchestrator_queue (instance_id text COLLATE \"C\", id bigint GENERATED ALWAYS AS IDENTITY, work_item text,
    lock_token text, PRIMARY KEY (instance_id, id));
CREATE TABLE worker_queue (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, instance_id text, work_item text, lock_token text);
";

const ITEM: &str = r#"{"StartOrchestration":{"instance":"run-hello-1","orchestration":"hello","input":"0","version":null,"parent_instance":null,"parent_id":null,"execution_id":1}}"#;
const EVENT: &str = r#"{"event_id":1,"source_event_id":null,"instance_id":"run-hello-1","execution_id":1,"timestamp_ms":1700000000000,"duroxide_version":"0.2.0","type":"OrchestrationStarted","name":"hello","version":"1.0.0","input":"0","parent_instance":null,"parent_id":null}"#;

/// Start and claim; first turn and claim of the activity; completion and claim; last turn.
const STEPS: [&[&str]; 4] = [
    &[
        "INSERT INTO orchestrator_queue (instance_id, work_item) SELECT i, $2 FROM unnest($1::text[]) AS i",
        "UPDATE orchestrator_queue SET lock_token = 't' WHERE instance_id = ANY ($1::text[]) AND $2::text <> ''",
    ],
    &[
        "DELETE FROM orchestrator_queue WHERE instance_id = ANY ($1::text[]) AND $2::text <> ''",
        "INSERT INTO instances SELECT i, 'hello', '1.0.0', 1, 0 FROM unnest($1::text[]) AS i WHERE $2::text <> ''",
        "INSERT INTO executions SELECT i, 1, 'Running', NULL FROM unnest($1::text[]) AS i WHERE $2::text <> ''",
        "INSERT INTO history SELECT i, 1, n, $2 FROM unnest($1::text[]) AS i, generate_series(1, 2) AS n",
        "INSERT INTO worker_queue (instance_id, work_item, lock_token) SELECT i, $2, 't' FROM unnest($1::text[]) AS i",
    ],
    &[
        "DELETE FROM worker_queue WHERE lock_token = 't' AND cardinality($1::text[]) > 0 AND $2::text <> ''",
        "INSERT INTO orchestrator_queue (instance_id, work_item) SELECT i, $2 FROM unnest($1::text[]) AS i",
        "UPDATE orchestrator_queue SET lock_token = 't' WHERE instance_id = ANY ($1::text[]) AND $2::text <> ''",
    ],
    &[
        "DELETE FROM orchestrator_queue WHERE instance_id = ANY ($1::text[]) AND $2::text <> ''",
        "INSERT INTO history SELECT i, 1, n, $2 FROM unnest($1::text[]) AS i, generate_series(3, 4) AS n",
        "UPDATE executions SET status = 'Completed', output = 'x' WHERE instance_id = ANY ($1::text[]) AND $2::text <> ''",
    ],
];

/// Runs the loop for about so long.
pub(crate) async fn run(folder: &Path, time: Duration) -> Row {
    let (client, connection) = tokio_postgres::connect(&server(), NoTls)
        .await
        .expect("connect");
    tokio::spawn(connection);
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let schema = format!("floor_{}", name.to_lowercase());
    let create = format!("CREATE SCHEMA {schema}; SET search_path = {schema}; {SCHEMA}");
    client.batch_execute(&create).await.expect("schema");
    let mut steps = Vec::new();
    for step in STEPS {
        let prepared = step.iter().map(|sql| client.prepare(sql));
        steps.push(try_join_all(prepared).await.expect("prepare"));
    }
    let sample = Sample::begin(1);
    let until = Instant::now() + time;
    let (mut number, mut seen) = (0_u64, Vec::new());
    while Instant::now() < until {
        let started = Instant::now();
        let ids: Vec<String> = (0..GROUP as u64)
            .map(|n| format!("run-hello-{}", number + n))
            .collect();
        number += GROUP as u64;
        for (place, step) in steps.iter().enumerate() {
            let text = if place == 1 || place == 3 {
                EVENT
            } else {
                ITEM
            };
            commit(&client, step, &ids, text).await;
        }
        seen.extend(std::iter::repeat_n(started.elapsed().as_secs_f64(), GROUP));
    }
    let sample = sample.finish(Latencies::of(seen));
    let drop = format!("DROP SCHEMA {schema} CASCADE");
    client.batch_execute(&drop).await.expect("clean up");
    Row::of(Subject::Postgres, NAME, &sample, folder)
}

/// One transaction, one round trip: everything is sent before the first answer is awaited.
async fn commit(client: &Client, step: &[Statement], ids: &Vec<String>, text: &str) {
    let params: [&(dyn ToSql + Sync); 2] = [ids, &text];
    let begin = client.batch_execute("BEGIN");
    let work = try_join_all(step.iter().map(|one| client.execute(one, &params)));
    let end = client.batch_execute("COMMIT");
    let (begun, worked, ended) = tokio::join!(biased; begin, work, end);
    begun.and(ended).and(worked).expect("a group");
}
