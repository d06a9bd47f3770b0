//! The soak: one process lives as long as the run and is watched, another on the same file is killed or stopped every
//! half minute. In: how long. Out: whether memory, threads, file descriptors and the size of the file stay flat, and
//! whether anything was lost.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::feed::Pace;
use crate::lives::{Process, bury, finish, spawn, stop_for};
use crate::nemesis::verdict;
use crate::random::Random;
use crate::skills::Skills;
use crate::store::Place;
use crate::worker::WorkerRun;
use crate::{check, nemesis};

const SAMPLE_EVERY: Duration = Duration::from_secs(5);
const STRIKE_EVERY: Duration = Duration::from_secs(30);
/// What a process does in its first part does not count: caches fill.
const WARM_UP: f64 = 0.25;

/// What is measured.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    memory_kb: u64,
    threads: u64,
    descriptors: u64,
    file_kb: u64,
}

/// Runs for so many hours.
pub(crate) fn run(hours: f64, seed: u64, pace: Pace) -> ExitCode {
    let kept = tempfile::tempdir().expect("a folder to work in");
    let folder = kept.path();
    let place = Place::file_in(folder, false);
    let mut random = Random(seed);
    let length = Duration::from_secs_f64(hours * 3_600.0);
    eprintln!("soak: {hours} hours, seed {seed}, in {}", folder.display());
    let soak = WorkerRun::Soak { pace };
    let mut survivor = spawn(folder, &place, soak, &Skills::ALL, |_| {});
    let mut victim = spawn(folder, &place, soak, &Skills::ALL, |_| {});
    let began = Instant::now();
    let (mut samples, mut violations, mut strikes) = (Vec::new(), Vec::new(), 0_u64);
    let mut next_strike = began + STRIKE_EVERY;
    while began.elapsed() < length {
        std::thread::sleep(SAMPLE_EVERY);
        if let Some(status) = survivor.try_wait().expect("ask for the survivor") {
            violations.push(format!("the process that nobody killed ended: {status}"));
            break;
        }
        samples.push(measure(&survivor, folder));
        if Instant::now() >= next_strike {
            strike(&mut random, &mut victim, folder, &place, soak);
            strikes += 1;
            next_strike += STRIKE_EVERY;
        }
    }
    bury(folder, &mut victim);
    bury(folder, &mut survivor);
    finish(folder, &place);
    let mut report = check::check(folder, &place, seed);
    violations.extend(growth(&samples));
    show(&samples, strikes);
    nemesis::publish(&report, None);
    if !report.deleted_any() {
        violations.push("nothing was done".to_owned());
    }
    report.violations.extend(violations);
    if !report.violations.is_empty() {
        println!(
            "what it left behind is kept, with logs of lost leases, in {}",
            kept.keep().display()
        );
    }
    let repeat = match pace {
        Pace::AsFastAsTheyEnd => format!("soak --hours {hours} --seed {seed}"),
        Pace::PerSecond(many) => format!("soak --hours {hours} --seed {seed} --per-second {many}"),
    };
    verdict(&report, &repeat)
}

fn strike(random: &mut Random, victim: &mut Process, folder: &Path, place: &Place, run: WorkerRun) {
    if random.next().is_multiple_of(3) {
        stop_for(folder, victim, Duration::from_secs(2));
        return;
    }
    bury(folder, victim);
    let skills = Skills::draw(random);
    *victim = spawn(folder, place, run, &skills, |_| {});
}

fn measure(process: &Process, folder: &Path) -> Sample {
    let proc = format!("/proc/{}", process.id());
    let status = std::fs::read_to_string(format!("{proc}/status")).unwrap_or_default();
    let number = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_whitespace().nth(1));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    let descriptors = std::fs::read_dir(format!("{proc}/fd")).map_or(0, Iterator::count);
    let files = ["chaos.db", "chaos.db-wal"].map(|name| {
        let data = std::fs::metadata(folder.join(name));
        data.map_or(0, |data| data.len() / 1_024)
    });
    Sample {
        memory_kb: number("VmRSS:"),
        threads: number("Threads:"),
        descriptors: descriptors as u64,
        file_kb: files.iter().sum(),
    }
}

type Measure = fn(&Sample) -> u64;

/// What is larger in the last third than it was in the middle one, by more than a little.
fn growth(samples: &[Sample]) -> Vec<String> {
    let samples = &samples[(samples.len() as f64 * WARM_UP) as usize..];
    let (middle, last) = samples.split_at(samples.len() / 2);
    let measures: [(&str, Measure, u64); 4] = [
        ("memory in KB", |s| s.memory_kb, 4_096),
        ("threads", |s| s.threads, 4),
        ("file descriptors", |s| s.descriptors, 8),
        ("file size in KB", |s| s.file_kb, 4_096),
    ];
    let mut grown = Vec::new();
    for (name, of, slack) in measures {
        let most = |samples: &[Sample]| samples.iter().map(of).max().unwrap_or(0);
        let (before, after) = (most(middle), most(last));
        if after > before + before / 10 + slack {
            grown.push(format!("{name} grew from {before} to {after}"));
        }
    }
    grown
}

fn show(samples: &[Sample], strikes: u64) {
    let line = |at: usize| match samples.get(at) {
        Some(s) => format!(
            "{} KB memory, {} threads, {} descriptors, {} KB in files",
            s.memory_kb, s.threads, s.descriptors, s.file_kb
        ),
        None => "nothing measured".to_owned(),
    };
    println!("soak: {strikes} strikes, {} samples", samples.len());
    for (name, part) in [("a quarter", 4), ("half", 2)] {
        println!("after {name}: {}", line(samples.len() / part));
    }
    println!("at the end: {}", line(samples.len().saturating_sub(1)));
}
