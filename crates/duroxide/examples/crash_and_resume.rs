//! A process is killed in the middle of its work and started again on the same file.
//!
//! The program starts itself as a worker process, kills it (SIGKILL) while it is in the middle of step 3, starts it
//! again, and shows the ledger: every step once.
//!
//! ```text
//! cargo run --release --example crash_and_resume
//! ```

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use duroxide::RuntimeOptions;
use duroxide::prelude::*;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The file that lists what was carried.
struct Ledger(PathBuf);

#[duroxide::orchestration]
async fn move_house(ctx: OrchestrationContext, boxes: u32) -> Result<u32, String> {
    for number in 1..=boxes {
        ctx.call(carry, number).await?;
    }
    Ok(boxes)
}

/// An activity runs at least once: a process may die between the work and its report. What must happen once is
/// guarded by a key that is the same in every attempt.
#[duroxide::activity]
async fn carry(ctx: ActivityContext, ledger: State<Ledger>, number: u32) -> Result<(), String> {
    let key = format!("[{}]", ctx.idempotency_key());
    let written = fs::read_to_string(&ledger.0).unwrap_or_default();
    if written.contains(&key) {
        println!("  box {number} is there already, attempt {}", ctx.attempt());
        return Ok(());
    }
    let mut file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&ledger.0)
        .map_err(|e| e.to_string())?;
    println!("  carry box {number}");
    writeln!(file, "box {number} {key}").map_err(|e| e.to_string())?;
    if number == 3 {
        // The work is done, the report is not: here the process is killed.
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    Ok(())
}

/// The worker process: runs until the instance is done, or until it is killed.
async fn work(folder: &Path) -> Outcome {
    let options = RuntimeOptions {
        // How long a dead worker holds its activity before another may take it.
        worker_lock_timeout: Duration::from_secs(5),
        ..RuntimeOptions::default()
    };
    let app = Duroxide::open(database(folder))
        .options(options)
        .state(Ledger(folder.join("ledger")))
        .register(carry)
        .register(move_house)
        .start()
        .await?;
    app.client().handle(move_house, "move").result().await?;
    app.shutdown().await;
    Ok(())
}

fn database(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("moving.db").display())
}

fn start_worker(folder: &Path) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("worker")
        .arg(folder)
        .spawn()
}

async fn show(folder: &Path) -> Outcome {
    // A client alone: this process carries nothing.
    let client = Duroxide::open(database(folder)).client().await?;
    let moving = client.start(move_house, 5).id("move").await?;

    println!("a worker process starts");
    let mut worker = start_worker(folder)?;
    while !fs::read_to_string(folder.join("ledger")).is_ok_and(|text| text.contains("box 3")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    worker.kill()?;
    worker.wait()?;
    println!("it was killed in the middle of box 3; another one starts");
    let mut worker = start_worker(folder)?;
    let boxes = moving.result().await?;
    worker.wait()?;
    println!("done, {boxes} boxes. The ledger:");
    print!("{}", fs::read_to_string(folder.join("ledger"))?);
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    if let (Some("worker"), Some(folder)) = (args.next().as_deref(), args.next()) {
        return work(Path::new(&folder)).await;
    }
    let folder = std::env::temp_dir().join(format!("duroxide-crash-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let shown = show(&folder).await;
    fs::remove_dir_all(&folder)?;
    shown
}
