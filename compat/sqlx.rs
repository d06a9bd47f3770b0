//! Duroxide and sqlx in one program, on one SQLite. Each release of sqlx builds it in a package of its own.

mod hello;

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(hello::hello(&folder.path().join("a.db")).await, "hello neighbour");
    let theirs = folder.path().join("theirs.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&theirs).create_if_missing(true);
    let pool = sqlx::SqlitePool::connect_with(options).await.expect("sqlx connects");
    let version: (String,) = sqlx::query_as("SELECT sqlite_version()").fetch_one(&pool).await.expect("sqlx reads");
    println!("both work on SQLite {}", version.0);
}
