//! Both programs, as processes of their own, on a server.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::{Child, Command, Stdio};

fn url() -> String {
    let server = std::env::var("DUROXIDE_TEST_POSTGRES_URL")
        .expect("`cargo xtask test` starts a server; for a single run `cargo xtask postgres` does");
    // `Duroxide::open` takes a url; the gates hand out a connection string of the other form.
    let part = |name: &str| {
        let prefix = format!("{name}=");
        let found = server
            .split_whitespace()
            .find_map(|part| part.strip_prefix(prefix.as_str()));
        found.unwrap_or_default().to_owned()
    };
    if server.starts_with("postgres") {
        return server;
    }
    let host = part("host").replace('/', "%2F");
    format!(
        "postgres://{}@{host}:{}/{}",
        part("user"),
        part("port"),
        part("dbname")
    )
}

fn worker() -> Child {
    Command::new(env!("CARGO_BIN_EXE_worker"))
        .arg(url())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_client_gets_its_result_from_whichever_worker_is_there() {
    // The client is first: its request waits in the database for a worker.
    let client = Command::new(env!("CARGO_BIN_EXE_client"))
        .arg(url())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut killed = worker();
    killed.kill().unwrap();
    killed.wait().unwrap();
    let mut worker = worker();
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "6 words\n");
    drop(worker.stdin.take());
    assert!(
        worker.wait().unwrap().success(),
        "it stops when its input ends"
    );
}
