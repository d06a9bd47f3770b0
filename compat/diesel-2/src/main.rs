//! Duroxide and diesel 2 in one program, on one SQLite.

#[path = "../../hello.rs"]
mod hello;

use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(hello::hello(&folder.path().join("a.db")).await, "hello neighbour");
    let theirs = folder.path().join("theirs.db");
    let mut conn = SqliteConnection::establish(&theirs.display().to_string()).expect("diesel connects");
    conn.batch_execute("CREATE TABLE t (a); INSERT INTO t VALUES (1)").expect("diesel writes");
    println!("both work");
}
