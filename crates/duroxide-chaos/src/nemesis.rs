//! Kills the worker, again and again: half the time at a random moment, half the time at a named point, of a commit, a
//! checkpoint, a turn that is handed out early, or the first opening of the file. Sometimes it stands still for a while
//! before, and sometimes a second process works on the same file.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::check::{self, Report};
use crate::disturbances::Notes;
use crate::ledger::now_ms;
use crate::lives::{Process, bury, finish, is_dead, recovers, spawn, stop_for};
use crate::random::Random;
use crate::skills::Skills;
use crate::store::Place;
use crate::worker::WorkerRun;
use crate::{clock, poison};

/// The environment variable that names a point to a worker.
const KILL_AT: &str = "DUROXIDE_KILL_AT";
/// Lets the store hand out turns early at once; as shipped it is careful for a while after a crash, longer than most
/// lives here last.
const CARELESS: &str = "DUROXIDE_SQLITE_SKIP_CRASH_CAUTION";

/// So many lives are first openings of a file.
const FIRST_OPENINGS: u64 = 8;
/// So many others try what takes its process with it.
const POISONED: u64 = 24;
/// In a run whose clock is set, it is set in so many lives; and by how much.
const STEPPED: u64 = 4;
const STEPS_MS: [i64; 6] = [-3_600_000, -30_000, -700, 700, 30_000, 3_600_000];
/// Pages of log at which checkpoints begin in lives that shall meet them.
const CHECKPOINT_PAGES: usize = 50;
/// How long a first opening may take.
const OPENING_MAX: Duration = Duration::from_secs(5);

/// Runs the kills, lets a last life finish the work, and checks.
pub(crate) fn run(
    kills: u32,
    seed: Option<u64>,
    folder: &Path,
    place: &Place,
    report_path: Option<&Path>,
) -> ExitCode {
    let seed = seed_or_time(seed);
    std::fs::create_dir_all(folder).expect("a folder to work in");
    eprintln!("chaos: {kills} kills, seed {seed}, in {}", folder.display());
    let mut random = Random(seed);
    let mut named = BTreeMap::new();
    let mut openings = Vec::new();
    let (mut steps, mut poisoned) = (0, 0);
    let began = Instant::now();
    if place.has_settable_clock() && random.next().is_multiple_of(2) {
        clock::set(folder, 0);
    }
    for kill in 1..=kills {
        let point = if random.next().is_multiple_of(FIRST_OPENINGS) {
            let folder = folder.join(format!("first-{kill}"));
            let (point, violations) = first_life(&folder, place, &mut random);
            openings.extend(violations);
            point
        } else if random.next().is_multiple_of(POISONED) {
            let folder = folder.join(format!("poison-{kill}"));
            openings.extend(poison::lives(&folder, place, &mut random));
            poisoned += 1;
            None
        } else {
            one_life(folder, place, &mut random, &mut steps)
        };
        if let Some(point) = point {
            *named.entry(point).or_default() += 1;
        }
        progress(kill, kills, began);
    }
    eprintln!();
    finish(folder, place);
    let mut report = check::check(folder, place, seed);
    report.kills(kills, named);
    report.set_clock_and_poison(steps, poisoned);
    report.violations.extend(openings);
    publish(&report, report_path);
    let store = place.arguments();
    verdict(&report, &format!("--kills {kills} --seed {seed}{store}"))
}

/// A life that dies while it makes its file, and one after it that must come to its end all the same. Returns the
/// point, if it died there, and what was wrong.
fn first_life(
    folder: &Path,
    place: &Place,
    random: &mut Random,
) -> (Option<&'static str>, Vec<String>) {
    std::fs::create_dir(folder).expect("a folder of its own");
    let place = place.moved_to(folder);
    let (_, points) = place.points();
    let point = points[random.between(0, points.len() as u64) as usize];
    let mut worker = spawn(folder, &place, WorkerRun::Feed, &Skills::ALL, |command| {
        command.env(KILL_AT, format!("{point}:1"));
    });
    let until = Instant::now() + OPENING_MAX;
    let mut died = false;
    while !died && Instant::now() < until {
        died = is_dead(folder, &mut worker);
        std::thread::sleep(Duration::from_millis(2));
    }
    // It may have been seen dead already; that is no second death.
    bury(folder, &mut worker);
    let mut second = spawn(folder, &place, WorkerRun::Feed, &Skills::ALL, |_| {});
    recovers(folder, &mut second);
    std::thread::sleep(Duration::from_millis(random.between(1, 300)));
    bury(folder, &mut second);
    finish(folder, &place);
    let mut violations = check::check(folder, &place, 0).violations;
    if !died {
        violations.push(format!("nobody passes {point}"));
    }
    let reported = violations.iter().map(|v| format!("{point}: {v}"));
    let reported = reported.collect();
    std::fs::remove_dir_all(folder).expect("the folder was ours");
    (died.then_some(point), reported)
}

/// A seed, if none is given.
pub(crate) fn seed_or_time(seed: Option<u64>) -> u64 {
    seed.unwrap_or_else(now_ms)
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

/// One life of the worker, ended by SIGKILL. Returns the named point, if it ended at one. In some lives a second
/// process works on the same file, in some the worker stands still for longer than its leases, and in some the clock is
/// set.
fn one_life(
    folder: &Path,
    place: &Place,
    random: &mut Random,
    steps: &mut u32,
) -> Option<&'static str> {
    let at_a_point = random.next().is_multiple_of(2);
    let (points, _) = place.points();
    let (point, passed) = points[random.between(0, points.len() as u64) as usize];
    let nth = random.between(1, passed + 1);
    let is_about_checkpoints = point.contains("checkpoint") || point.contains("reset");
    let place = &if random.next().is_multiple_of(2) || is_about_checkpoints {
        place.with_checkpoints_at(CHECKPOINT_PAGES)
    } else {
        place.clone()
    };
    let is_careless = !random.next().is_multiple_of(3);
    let skills = Skills::draw(random);
    let mut worker = spawn(folder, place, WorkerRun::Feed, &skills, |command| {
        if is_careless {
            command.env(CARELESS, "1");
        }
        if at_a_point {
            command.env(KILL_AT, format!("{point}:{nth}"));
        }
    });
    let has_second = random.next().is_multiple_of(4) && place.is_shared();
    let skills = Skills::draw(random);
    let second = has_second.then(|| spawn(folder, place, WorkerRun::Feed, &skills, |_| {}));
    if clock::is_settable(folder) && random.next().is_multiple_of(STEPPED) {
        std::thread::sleep(Duration::from_millis(random.between(50, 600)));
        let by_ms = STEPS_MS[random.between(0, STEPS_MS.len() as u64) as usize];
        Notes::in_folder(folder).step(clock::step(folder, by_ms), now_ms());
        *steps += 1;
    }
    let is_at_a_point = end(folder, random, &mut worker, at_a_point);
    if let Some(mut second) = second {
        // It has been alone since, and took over what the other held.
        std::thread::sleep(Duration::from_millis(random.between(1, 800)));
        bury(folder, &mut second);
    }
    is_at_a_point.then_some(point)
}

/// Waits for the moment and ends the worker. True if it ended at a named point.
fn end(folder: &Path, random: &mut Random, worker: &mut Process, at_a_point: bool) -> bool {
    if !at_a_point {
        recovers(folder, worker);
    }
    if random.next().is_multiple_of(5) {
        // Longer than its leases: it goes on as one that has lost them.
        let time = Duration::from_millis(random.between(100, 1_500));
        stop_for(folder, worker, time);
    }
    let patience = Duration::from_millis(random.between(100, 1_200));
    let until = Instant::now() + if at_a_point { patience * 4 } else { patience };
    while Instant::now() < until {
        if is_dead(folder, worker) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    bury(folder, worker);
    false
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
