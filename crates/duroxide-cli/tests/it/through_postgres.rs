//! Moves through the tests' server, and where that is. Without one these tests fail and say what to do.

use crate::moving::{digests, goes_on, run, with_rows_that_cannot_be_read};
use crate::support::{Kind, Store};

/// Where the tests' server is.
pub(crate) fn server() -> String {
    let server = std::env::var("DUROXIDE_TEST_POSTGRES_URL");
    server.expect(
        "these tests need a PostgreSQL server: `cargo xtask test` starts one, `cargo xtask postgres` too; name it with \
         DUROXIDE_TEST_POSTGRES_URL",
    )
}

/// The server's url. It may be given as words: `host=… user=…`.
pub(crate) fn server_url() -> String {
    let server = server();
    if server.starts_with("postgres") {
        return server;
    }
    format!("postgres:///?{}", server.replace(' ', "&"))
}

/// Moves what a store holds into a schema of the server, and from there into this file.
fn there_and_back(from: &str, back: &str) {
    let url = server_url();
    let schema = format!("move_{}", uuid::Uuid::new_v4().simple());
    let before = digests(from);
    let moved = run(&["move", from, &url, "--to-schema", &schema, "--yes"]);
    assert_eq!((moved.code, moved.err.as_str()), (0, ""));
    let moved = run(&["--schema", &schema, "move", &url, back, "--yes"]);
    assert_eq!((moved.code, moved.err.as_str()), (0, ""));
    assert_eq!(digests(back), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_through_postgres_keeps_everything() {
    let store = Store::filled(Kind::Redb).await;
    let folder = tempfile::tempdir().unwrap();
    let back = format!("sqlite:{}", folder.path().join("c.db").display());
    there_and_back(&store.address(), &back);
    goes_on(&back).await;
}

/// Rows that nobody can read come along through the server as well, also when they came from another kind of store.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_moved_through_postgres_as_well() {
    let store = with_rows_that_cannot_be_read().await;
    let folder = tempfile::tempdir().unwrap();
    let other = format!("redb:{}", folder.path().join("b.redb").display());
    let moved = run(&["move", &store.address(), &other, "--yes"]);
    assert_eq!((moved.code, moved.err.as_str()), (0, ""));
    let back = format!("sqlite:{}", folder.path().join("c.db").display());
    there_and_back(&other, &back);
}
