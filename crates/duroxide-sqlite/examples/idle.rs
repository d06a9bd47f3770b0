//! What waiting costs: CPU time of a store whose two queues are waited for, with instances parked on timers.
//!
//! `cargo run --release -p duroxide-sqlite --example idle -- [seconds] [parked]`. Linux only.

use std::time::Duration;

use duroxide_core::provider::{Provider, TagFilter, WorkItem};
use duroxide_sqlite::{Durability, SqliteOptions, SqliteProvider};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LEASE: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(20), |text| text.parse())?;
    let parked: u64 = args.next().map_or(Ok(0), |text| text.parse())?;
    let folder = tempfile::tempdir_in(".")?;
    let url = format!("sqlite:{}", folder.path().join("idle.db").display());
    let options = SqliteOptions {
        durability: Durability::Relaxed,
        ..SqliteOptions::default()
    };
    let store = SqliteProvider::new(&url, Some(options)).await?;
    for number in 0..parked {
        let timer = WorkItem::TimerFired {
            instance: format!("parked-{number}"),
            execution_id: 1,
            id: 2,
            fire_at_ms: u64::MAX,
        };
        let delay = Some(Duration::from_secs(86_400));
        store.enqueue_for_orchestrator(timer, delay).await?;
    }
    let before = cpu_ns()?;
    let waiting = async {
        loop {
            let turn = store.fetch_orchestration_item(LEASE, WAIT, None);
            let work = store.fetch_work_item(LEASE, WAIT, None, &TagFilter::DefaultOnly);
            tokio::try_join!(turn, work)?;
        }
        #[expect(unreachable_code, reason = "names the type of the error")]
        Ok::<(), Failure>(())
    };
    match tokio::time::timeout(Duration::from_secs(seconds), waiting).await {
        Ok(failed) => return failed,
        Err(_elapsed) => {}
    }
    let used_ms = (cpu_ns()? - before) as f64 / 1e6;
    println!(
        "{parked} parked: {used_ms:.1} ms of CPU in {seconds} s, {:.3} % of one core",
        used_ms / (seconds as f64 * 10.0)
    );
    Ok(())
}

/// Time all threads of this process spent on a processor, in nanoseconds.
fn cpu_ns() -> Result<u64, Failure> {
    let mut total = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let schedstat = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let on_cpu = schedstat
            .split(' ')
            .next()
            .ok_or("no scheduler statistics")?;
        total += on_cpu.parse::<u64>()?;
    }
    Ok(total)
}
