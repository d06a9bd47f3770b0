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
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{
    ActivityContext, ActivityRegistry, Client, OrchestrationContext, OrchestrationRegistry,
    Runtime, RuntimeOptions,
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

async fn move_house(ctx: OrchestrationContext, boxes: u32) -> Result<u32, String> {
    for number in 1..=boxes {
        ctx.schedule_activity_typed::<_, ()>("carry", &number)
            .await?;
    }
    Ok(boxes)
}

/// An activity runs at least once: a process may die between the work and its report. What must happen once is
/// guarded by a key that is the same in every attempt.
async fn carry(ctx: ActivityContext, number: u32, ledger: PathBuf) -> Result<(), String> {
    let key = format!("[{}/{}]", ctx.instance_id(), ctx.activity_id());
    let written = fs::read_to_string(&ledger).unwrap_or_default();
    if written.contains(&key) {
        println!("  box {number} is there already, attempt {}", ctx.attempt());
        return Ok(());
    }
    let mut file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&ledger)
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
    let ledger = folder.join("ledger");
    let store = Arc::new(SqliteProvider::new(&database(folder), None).await?);
    let activities = ActivityRegistry::builder()
        .register_typed("carry", move |ctx, number: u32| {
            carry(ctx, number, ledger.clone())
        })
        .build_result()?;
    let orchestrations = OrchestrationRegistry::builder()
        .register_typed("move_house", move_house)
        .build_result()?;
    let options = RuntimeOptions {
        // How long a dead worker holds its activity before another may take it.
        worker_lock_timeout: Duration::from_secs(5),
        ..RuntimeOptions::default()
    };
    let client = Client::new(store.clone());
    let runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
    client
        .wait_for_orchestration("move", Duration::from_secs(60))
        .await?;
    runtime.shutdown(None).await;
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
    let client = Client::new(Arc::new(
        SqliteProvider::new(&database(folder), None).await?,
    ));
    client
        .start_orchestration_typed("move", "move_house", 5)
        .await?;

    println!("a worker process starts");
    let mut worker = start_worker(folder)?;
    while !fs::read_to_string(folder.join("ledger")).is_ok_and(|text| text.contains("box 3")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    worker.kill()?;
    worker.wait()?;
    println!("it was killed in the middle of box 3; another one starts");
    let mut worker = start_worker(folder)?;
    let boxes: u32 = client
        .wait_for_orchestration_typed("move", Duration::from_secs(60))
        .await??;
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
