//! Kills the worker, again and again: half the time at a random moment, half the time at a named point of a commit. Sometimes
//! it stands still for a while before, and sometimes a second process works on the same file.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::check::{self, Report};
use crate::ledger::{Ledger, lines};
use crate::random::Random;
use crate::store::Place;
use crate::worker::Life;

/// Lets the store hand out turns early at once; as shipped it is careful for a while after a crash, longer than most lives
/// here last.
const CARELESS: &str = "DUROXIDE_SQLITE_SKIP_CRASH_CAUTION";
/// How long a life may take to commit something, and a little.
const RECOVERY_MAX: Duration = Duration::from_millis(10_001);

/// Points inside a commit at which the store kills its own process, if told so by the environment.
const POINTS: [&str; 3] = ["before_commit", "after_commit", "before_answer"];

/// Runs the kills, lets a last life finish the work, and checks.
pub(crate) fn run(
    kills: u32,
    seed: Option<u64>,
    folder: Option<PathBuf>,
    report_path: Option<&Path>,
    alone: bool,
) -> ExitCode {
    let seed = seed_or_time(seed);
    let temporary = tempfile::tempdir().expect("a folder to work in");
    let folder = folder.unwrap_or_else(|| temporary.path().to_owned());
    eprintln!("chaos: {kills} kills, seed {seed}, in {}", folder.display());
    let place = Place::file_in(&folder, alone);
    let mut random = Random(seed);
    let mut named = 0;
    let began = Instant::now();
    for kill in 1..=kills {
        named += u32::from(one_life(&folder, &place, &mut random));
        progress(kill, kills, began);
    }
    eprintln!();
    finish(&folder, &place);
    let mut report = check::check(&folder, &place, seed, kills + 1);
    report.kills(kills, named);
    publish(&report, report_path);
    let alone = if alone { " --alone" } else { "" };
    verdict(&report, &format!("--kills {kills} --seed {seed}{alone}"))
}

/// A seed, if none is given.
pub(crate) fn seed_or_time(seed: Option<u64>) -> u64 {
    seed.unwrap_or_else(|| {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(1, |d| d.as_nanos() as u64)
    })
}

/// Says what is wrong, and how to see it again.
pub(crate) fn verdict(report: &Report, again: &str) -> ExitCode {
    if report.violations.is_empty() {
        println!("chaos: nothing lost, nothing twice");
        ExitCode::SUCCESS
    } else {
        for violation in &report.violations {
            println!("VIOLATION: {violation}");
        }
        println!("repeat with {again}");
        ExitCode::FAILURE
    }
}

/// One life of the worker, ended by SIGKILL. True if it ended at a named point. In some lives a second process works on the
/// same file, and in some the worker stands still for longer than its leases.
fn one_life(folder: &Path, place: &Place, random: &mut Random) -> bool {
    let at_a_point = random.next().is_multiple_of(2);
    let is_careless = !random.next().is_multiple_of(3);
    let mut worker = spawn(folder, place, Life::Feed, |command| {
        if is_careless {
            command.env(CARELESS, "1");
        }
        if at_a_point {
            let point = POINTS[random.between(0, POINTS.len() as u64) as usize];
            let nth = random.between(1, 400);
            command.env("DUROXIDE_SQLITE_KILL_AT", format!("{point}:{nth}"));
        }
    });
    let has_second = random.next().is_multiple_of(4) && place.is_shared();
    let second = has_second.then(|| spawn(folder, place, Life::Feed, |_| {}));
    let is_at_a_point = end(folder, random, &mut worker, at_a_point);
    if let Some(mut second) = second {
        // It has been alone since, and took over what the other held.
        std::thread::sleep(Duration::from_millis(random.between(1, 800)));
        bury(&mut second);
    }
    is_at_a_point
}

pub(crate) fn bury(worker: &mut Child) {
    worker.kill().expect("kill the worker");
    worker.wait().expect("bury the worker");
}

/// A life that is not killed at a point is let recover first, so that slow recoveries are seen.
fn recovers(folder: &Path, worker: &mut Child) {
    let noted = || lines(&folder.join("recoveries")).len();
    let before = noted();
    let until = Instant::now() + RECOVERY_MAX;
    while noted() == before && worker.try_wait().expect("ask for the worker").is_none() {
        if Instant::now() > until {
            Ledger::open(&folder.join("recoveries")).write(&RECOVERY_MAX.as_millis().to_string());
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn signal(worker: &Child, name: &str) {
    let status = Command::new("kill")
        .args([name, &worker.id().to_string()])
        .status()
        .expect("every Unix has kill");
    // It may have ended at its point meanwhile.
    let _is_there = status.success();
}

/// Waits for the moment and ends the worker. True if it ended at a named point.
fn end(folder: &Path, random: &mut Random, worker: &mut Child, at_a_point: bool) -> bool {
    if !at_a_point {
        recovers(folder, worker);
    }
    if random.next().is_multiple_of(5) {
        signal(worker, "-STOP");
        // Longer than its leases: it goes on as one that has lost them.
        std::thread::sleep(Duration::from_millis(random.between(100, 1_500)));
        signal(worker, "-CONT");
    }
    let patience = Duration::from_millis(random.between(100, 1_200));
    let until = Instant::now() + if at_a_point { patience * 4 } else { patience };
    while Instant::now() < until {
        if worker.try_wait().expect("ask for the worker").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    bury(worker);
    false
}

pub(crate) fn finish(folder: &Path, place: &Place) {
    let status = spawn(folder, place, Life::Finish, |_| {})
        .wait()
        .expect("the last life");
    assert!(status.success(), "the last life could not finish the work");
}

pub(crate) fn spawn(
    folder: &Path,
    place: &Place,
    life: Life,
    prepare: impl FnOnce(&mut Command),
) -> Child {
    let me = std::env::current_exe().expect("a running program has a path");
    let mut command = Command::new(me);
    command.arg("worker").arg(folder);
    place.name_to(&mut command);
    match life {
        Life::Feed => {}
        Life::Finish => drop(command.arg("--finish")),
        Life::Soak => drop(command.arg("--soak")),
    }
    prepare(&mut command);
    command.spawn().expect("start a worker")
}

fn progress(done: u32, all: u32, began: Instant) {
    const WIDTH: u32 = 40;
    let filled = (done * WIDTH / all.max(1)) as usize;
    eprint!(
        "\r[{}{}] {done}/{all} kills, {:.0} s",
        "#".repeat(filled),
        " ".repeat(WIDTH as usize - filled),
        began.elapsed().as_secs_f64()
    );
}

pub(crate) fn publish(report: &Report, path: Option<&Path>) {
    let text = serde_json::to_string_pretty(report).expect("a report is plain data");
    println!("{text}");
    if let Some(path) = path {
        std::fs::write(path, text).expect("write the report");
    }
}
