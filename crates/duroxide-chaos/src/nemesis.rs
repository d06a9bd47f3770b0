//! Kills the worker, again and again: half the time at a random moment, half the time at a named point of a commit.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::check::{self, Report};
use crate::random::Random;

/// Points inside a commit at which the store kills its own process, if told so by the environment.
const POINTS: [&str; 3] = ["before_commit", "after_commit", "before_answer"];

/// Runs the kills, lets a last life finish the work, and checks.
pub(crate) fn run(
    kills: u32,
    seed: Option<u64>,
    folder: Option<PathBuf>,
    report_path: Option<&Path>,
) -> ExitCode {
    let seed = seed.unwrap_or_else(|| {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(1, |d| d.as_nanos() as u64)
    });
    let temporary = tempfile::tempdir().expect("a folder to work in");
    let folder = folder.unwrap_or_else(|| temporary.path().to_owned());
    eprintln!("chaos: {kills} kills, seed {seed}, in {}", folder.display());
    let mut random = Random(seed);
    let mut named = 0;
    let began = Instant::now();
    for kill in 1..=kills {
        named += u32::from(one_life(&folder, &mut random));
        progress(kill, kills, began);
    }
    eprintln!();
    finish(&folder);
    let report = check::check(&folder, seed, kills, named);
    publish(&report, report_path);
    if report.violations.is_empty() {
        println!("chaos: nothing lost, nothing twice");
        ExitCode::SUCCESS
    } else {
        for violation in &report.violations {
            println!("VIOLATION: {violation}");
        }
        println!("repeat with --kills {kills} --seed {seed}");
        ExitCode::FAILURE
    }
}

/// One life of the worker, ended by SIGKILL. True if it ended at a named point.
fn one_life(folder: &Path, random: &mut Random) -> bool {
    let at_a_point = random.next().is_multiple_of(2);
    let mut worker = spawn(folder, false, |command| {
        if at_a_point {
            let point = POINTS[random.between(0, POINTS.len() as u64) as usize];
            let nth = random.between(1, 400);
            command.env("DUROXIDE_SQLITE_KILL_AT", format!("{point}:{nth}"));
        }
    });
    let patience = Duration::from_millis(random.between(100, 1_200));
    let until = Instant::now() + if at_a_point { patience * 4 } else { patience };
    while Instant::now() < until {
        if worker.try_wait().expect("ask for the worker").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    worker.kill().expect("kill the worker");
    worker.wait().expect("bury the worker");
    false
}

fn finish(folder: &Path) {
    let status = spawn(folder, true, |_| {}).wait().expect("the last life");
    assert!(status.success(), "the last life could not finish the work");
}

fn spawn(folder: &Path, finish: bool, prepare: impl FnOnce(&mut Command)) -> Child {
    let me = std::env::current_exe().expect("a running program has a path");
    let mut command = Command::new(me);
    command.arg("worker").arg(folder);
    // Otherwise no life would be long enough for the store to hand out turns early again.
    command.env("DUROXIDE_SQLITE_SKIP_CRASH_CAUTION", "1");
    if finish {
        command.arg("--finish");
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

fn publish(report: &Report, path: Option<&Path>) {
    let text = serde_json::to_string_pretty(report).expect("a report is plain data");
    println!("{text}");
    if let Some(path) = path {
        std::fs::write(path, text).expect("write the report");
    }
}
