//! Lives of the worker: a process starts each one, stops it for a while, and buries it. In: a folder and a store. Out:
//! processes, and notes of when they could not work and when they died. Each life has a number of its own: the system
//! gives the id of a process again.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::disturbances::Notes;
use crate::feed::Pace;
use crate::ledger::{Ledger, lines, now_ms};
use crate::life;
use crate::skills::Skills;
use crate::store::Place;
use crate::worker::WorkerRun;

/// How long a life may take to commit something, and a little.
const RECOVERY_MAX: Duration = Duration::from_millis(10_001);

/// The number of the next life.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// A life of the worker.
pub(crate) struct Process {
    process: Child,
    pub(crate) life: u32,
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.process
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.process
    }
}

pub(crate) fn bury(folder: &Path, worker: &mut Process) {
    worker.kill().expect("kill the worker");
    worker.wait().expect("bury the worker");
    is_dead(folder, worker);
}

/// Whether a worker has ended, which is written down. One that ended by itself has panicked.
pub(crate) fn is_dead(folder: &Path, worker: &mut Process) -> bool {
    let Some(status) = worker.try_wait().expect("ask for the worker") else {
        return false;
    };
    Notes::in_folder(folder).death(worker.life, now_ms());
    if let Some(code) = status.code() {
        let what = format!("life {} ended by itself, with {code}", worker.life);
        Ledger::open(&folder.join("violations")).write(&what);
    }
    true
}

/// Lets a worker stand still for a while.
pub(crate) fn stop_for(folder: &Path, worker: &Process, time: Duration) {
    let from_ms = now_ms();
    signal(worker, "-STOP");
    std::thread::sleep(time);
    signal(worker, "-CONT");
    Notes::in_folder(folder).stall(from_ms, now_ms());
}

/// A life that is not killed at a point is let recover first, so that slow recoveries are seen.
pub(crate) fn recovers(folder: &Path, worker: &mut Process) {
    let noted = || lines(&folder.join("recoveries")).len();
    let before = noted();
    let until = Instant::now() + RECOVERY_MAX;
    while noted() == before && worker.try_wait().expect("ask for the worker").is_none() {
        if Instant::now() > until {
            let took = RECOVERY_MAX.as_millis();
            Ledger::open(&folder.join("recoveries")).write(&format!("{took} {}", now_ms()));
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(worker: &Process, name: &str) {
    let status = Command::new("kill")
        .args([name, &worker.id().to_string()])
        .status()
        .expect("every Unix has kill");
    // It may have ended at its point meanwhile.
    let _is_there = status.success();
}

pub(crate) fn finish(folder: &Path, place: &Place) {
    let status = spawn(folder, place, WorkerRun::Finish, &Skills::ALL, |_| {})
        .wait()
        .expect("the last life");
    assert!(status.success(), "the last life could not finish the work");
}

pub(crate) fn spawn(
    folder: &Path,
    place: &Place,
    run: WorkerRun,
    skills: &Skills,
    prepare: impl FnOnce(&mut Command),
) -> Process {
    let me = std::env::current_exe().expect("a running program has a path");
    let mut command = Command::new(me);
    command.arg("worker").arg(folder);
    place.name_to(&mut command);
    skills.name_to(&mut command);
    match run {
        WorkerRun::Feed => {}
        WorkerRun::Finish => drop(command.arg("--finish")),
        WorkerRun::Soak { pace } => {
            command.arg("--soak");
            if let Pace::PerSecond(many) = pace {
                command.args(["--per-second", &many.to_string()]);
            }
        }
    }
    prepare(&mut command);
    let life = NEXT.fetch_add(1, Ordering::Relaxed);
    command.env(life::NUMBER, life.to_string());
    let process = command.spawn().expect("start a worker");
    Process { process, life }
}
