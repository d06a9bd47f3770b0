//! Four workers on one PostgreSQL server, each behind a proxy of its own. Workers are killed, the server crashes,
//! connections are cut in the middle of what they carry, and a synchronous standby takes over, in an order that the
//! seed decides.

mod cluster;
mod proxy;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::cluster::Cluster;
use self::proxy::Proxy;
use crate::check::{self, Faults};
use crate::disturbances::Notes;
use crate::ledger::now_ms;
use crate::lives::{Process, bury, finish, spawn};
use crate::nemesis::{publish, seed_or_time, verdict};
use crate::random::Random;
use crate::skills::Skills;
use crate::store::Place;
use crate::worker::WorkerRun;

const WORKERS: usize = 4;
/// How long a cut waits for a worker that sends something.
const CUT_PATIENCE: Duration = Duration::from_secs(5);
/// How long workers may feel that they were cut off: they find out, connect again, and ask about what was under way.
const AFTERMATH_MS: u64 = 5_000;

/// How long nothing happens around a quiet kill: leases run out, others take over, and nobody still feels what was
/// before.
const QUIET: Duration = Duration::from_secs(4);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Kill,
    Crash,
    Cut,
    Promotion,
}

struct Worker {
    proxy: Proxy,
    process: Process,
}

/// Runs the faults, lets a last life finish the work, and checks.
pub(crate) fn run(wanted: Faults, seed: Option<u64>, report_path: Option<&Path>) -> ExitCode {
    let seed = seed_or_time(seed);
    let temporary = tempfile::tempdir().expect("a folder to work in");
    let folder = temporary.path();
    // The server's account passes through to its own folder.
    make_passable(folder);
    eprintln!("chaos: {wanted:?}, seed {seed}, in {}", folder.display());
    let mut random = Random(seed);
    let mut cluster = Cluster::start(folder, wanted.promotions > 0);
    let mut workers: Vec<Worker> = (0..WORKERS)
        .map(|_| {
            let proxy = Proxy::start(cluster.port());
            let process = worker(folder, &proxy);
            Worker { proxy, process }
        })
        .collect();
    std::thread::sleep(Duration::from_secs(2));
    let faults = shuffled(wanted, &mut random);
    let began = Instant::now();
    let mut longest_outage = Duration::ZERO;
    for (place, fault) in faults.iter().enumerate() {
        eprintln!(
            "{:>6.1} s  {} of {}: {fault:?}",
            began.elapsed().as_secs_f64(),
            place + 1,
            faults.len()
        );
        let chosen = random.between(0, WORKERS as u64) as usize;
        let from_ms = now_ms();
        match fault {
            Fault::Kill => kill(folder, &mut workers[chosen]),
            Fault::Cut => cut(&workers[chosen].proxy, random.between(0, 8_192)),
            Fault::Crash => {
                let began = Instant::now();
                cluster.crash();
                longest_outage = longest_outage.max(began.elapsed());
            }
            Fault::Promotion => {
                cluster.promote();
                for worker in &workers {
                    worker.proxy.lead_to(cluster.port());
                }
                cluster.follow();
            }
        }
        let notes = Notes::in_folder(folder);
        if matches!(fault, Fault::Crash | Fault::Promotion) {
            notes.outage(from_ms, now_ms());
        }
        if *fault != Fault::Kill {
            notes.stall(from_ms, now_ms() + AFTERMATH_MS);
        }
        std::thread::sleep(Duration::from_millis(random.between(50, 700)));
    }
    for _ in 0..wanted.quiet_kills {
        let chosen = random.between(0, WORKERS as u64) as usize;
        std::thread::sleep(QUIET);
        kill(folder, &mut workers[chosen]);
    }
    std::thread::sleep(QUIET);
    let until_ms = now_ms();
    for worker in &mut workers {
        bury(folder, &mut worker.process);
    }
    let url = workers[0].proxy.url();
    let finishing = Instant::now();
    let place = Place::Postgres(url);
    finish(folder, &place);
    eprintln!("the last life took {:?}", finishing.elapsed());
    let mut report = check::check(folder, &place, seed);
    report.faults(wanted, longest_outage);
    report.takeovers(folder, &place, until_ms);
    publish(&report, report_path);
    verdict(&report, &format!("{} --seed {seed}", wanted.arguments()))
}

fn worker(folder: &Path, proxy: &Proxy) -> Process {
    let place = Place::Postgres(proxy.url());
    spawn(folder, &place, WorkerRun::Feed, &Skills::ALL, |_| {})
}

fn kill(folder: &Path, worker: &mut Worker) {
    bury(folder, &mut worker.process);
    worker.process = self::worker(folder, &worker.proxy);
}

fn cut(proxy: &Proxy, after: u64) {
    proxy.cut_after(after);
    let until = Instant::now() + CUT_PATIENCE;
    while !proxy.is_cut() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn shuffled(wanted: Faults, random: &mut Random) -> Vec<Fault> {
    let kinds = [
        (Fault::Kill, wanted.kills),
        (Fault::Crash, wanted.crashes),
        (Fault::Cut, wanted.cuts),
        (Fault::Promotion, wanted.promotions),
    ];
    let mut faults: Vec<Fault> = kinds
        .iter()
        .flat_map(|(fault, count)| std::iter::repeat_n(*fault, *count as usize))
        .collect();
    for last in (1..faults.len()).rev() {
        faults.swap(last, random.between(0, last as u64 + 1) as usize);
    }
    faults
}

fn make_passable(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, open).expect("a folder of ours");
}
