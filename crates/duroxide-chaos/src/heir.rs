//! What a dead life left open. One process at a time, the heir, brings instances to their end whose starter is dead,
//! and in a soak deletes them.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duroxide::{ClientError, OrchestrationStatus};
use tokio::task::JoinSet;

use crate::feed::{RETRY_PAUSE, Starter, acknowledged};
use crate::ledger::{lines, lines_in};
use crate::life;
use crate::ops::{self, Acknowledged, Op};

/// How often the heir looks for more.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Instances that it looks after at once.
const AT_ONCE: usize = 8;

/// Serves until the process is killed.
pub(crate) async fn serve(folder: PathBuf, starter: Starter) {
    let _lock = become_heir(&folder).await;
    loop {
        // What cannot be done while the store is away is done the next time.
        let _done = round(&folder, &starter, |life| {
            life != life::number() && life::has_died(&folder, life)
        })
        .await;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Brings everything to its end but what this life started itself. Nobody else is alive.
pub(crate) async fn finish(folder: &Path, starter: &Starter) {
    let _lock = become_heir(folder).await;
    for instance in ops::acknowledged_in(&lines_in(&folder.join("acknowledged")))
        .iter()
        .filter(|(_, acked)| acked.started && !acked.deleting)
        .map(|(instance, _)| instance)
    {
        await_start(starter, instance).await;
    }
    while round(folder, starter, |_| true)
        .await
        .expect("a store that is there")
        > 0
    {}
}

/// An acknowledged start that no turn has taken up is not among the running ones yet.
async fn await_start(starter: &Starter, instance: &str) {
    for _ in 0..1_200 {
        let status = starter.client.get_orchestration_status(instance).await;
        if !matches!(status, Ok(OrchestrationStatus::NotFound)) {
            return;
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    panic!("{instance} was acknowledged and never begins");
}

/// Looks after what is open, and in a soak after what has ended. Returns how many were open.
async fn round(
    folder: &Path,
    starter: &Starter,
    is_dead: impl Fn(u32) -> bool,
) -> Result<usize, ClientError> {
    // Asked before what is open is listed: a life that ends its instance, deletes it and dies after the list was made
    // would get messages for an instance that is no more.
    let dead = dead_lives(folder, is_dead);
    let mut open = Vec::new();
    for status in ["Running", "ContinuedAsNew"] {
        open.extend(starter.client.list_instances_by_status(status).await?);
    }
    // The pulse of this life beats on meanwhile.
    let own = format!("pulse-{}-", life::number());
    let count = open.iter().filter(|open| !open.starts_with(&own)).count();
    for some in open.chunks(AT_ONCE) {
        let mut rescues = JoinSet::new();
        for instance in some {
            let Some(op) = Op::of(instance).filter(|op| dead.contains(&op.life)) else {
                continue;
            };
            let (starter, instance) = (starter.clone(), instance.clone());
            rescues.spawn(async move { starter.rescue(&instance, op).await });
        }
        while let Some(rescued) = rescues.join_next().await {
            rescued.expect("a rescue")?;
        }
    }
    if starter.deletes_all {
        delete_ended(folder, starter, &dead).await?;
    }
    Ok(count)
}

async fn delete_ended(
    folder: &Path,
    starter: &Starter,
    dead: &HashSet<u32>,
) -> Result<(), ClientError> {
    let mut acked: HashMap<u32, HashMap<String, Acknowledged>> = HashMap::new();
    for instance in starter.client.list_all_instances().await? {
        let Some(op) = Op::of(&instance).filter(|op| dead.contains(&op.life)) else {
            continue;
        };
        let status = starter.client.get_orchestration_status(&instance).await?;
        if has_ended(&status) {
            let acked = acked
                .entry(op.life)
                .or_insert_with(|| ops::acknowledged_in(&lines(&acknowledged(folder, op.life))));
            let acked = acked.get(&instance).copied().unwrap_or_default();
            starter.delete(&instance, acked).await?;
        }
    }
    Ok(())
}

/// The lives that have acknowledged anything and are dead.
fn dead_lives(folder: &Path, is_dead: impl Fn(u32) -> bool) -> HashSet<u32> {
    let files = std::fs::read_dir(folder.join("acknowledged")).expect("a folder of the run");
    files
        .filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok())
        .filter(|life| is_dead(*life))
        .collect()
}

fn has_ended(status: &OrchestrationStatus) -> bool {
    use OrchestrationStatus::{Completed, Failed, NotFound, Running};
    match status {
        Completed { .. } | Failed { .. } => true,
        Running { .. } | NotFound => false,
    }
}

/// Waits until no other process is the heir. The lock ends with the process.
async fn become_heir(folder: &Path) -> File {
    let file = File::create(folder.join("heir")).expect("a file in the folder of the run");
    while file.try_lock().is_err() {
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    file
}
