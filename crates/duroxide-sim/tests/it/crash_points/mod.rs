//! Every commit, every crash: a process dies before and after each call to its store, and the next life goes on. In:
//! twelve workloads, three stores. Out: no violation, whichever call it was. The store is opened again before it is
//! looked at.

mod life;
mod workloads;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use life::{Kind, Point, run};

/// Runs every point of every workload, several at a time: files are mostly waited for.
fn survives(kind: Kind, threads: usize) {
    crate::quiet();
    let workloads = workloads::all();
    assert_eq!(workloads.len(), 12);
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let points = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // Each thread takes the next pair of a workload and a side of the call.
                while let Some((workload, after)) = take(&next, workloads.len()) {
                    let (name, plan) = &workloads[workload];
                    for call in 1.. {
                        let point = Point { call, after };
                        let ran = run(plan, kind, point);
                        if !ran.violations.is_empty() {
                            let mut failures = failures.lock().expect("nobody panicked");
                            failures.push(format!("{name}, {point:?}: {:#?}", ran.violations));
                        }
                        if !ran.has_died {
                            break;
                        }
                        points.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    // From here on a panic is news.
    let _quiet = std::panic::take_hook();
    let failures = failures.into_inner().expect("nobody panicked");
    assert!(
        failures.is_empty(),
        "{} points failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
    // Every workload calls its store more than a few times.
    let points = points.load(Ordering::Relaxed);
    assert!(points > 12 * 2 * 5, "only {points} points");
    println!("{points} points");
}

fn take(next: &AtomicUsize, workloads: usize) -> Option<(usize, bool)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    (place < 2 * workloads).then_some((place / 2, place % 2 == 1))
}

#[test]
fn every_crash_is_survived_on_the_store_in_memory() {
    survives(Kind::Memory, 2);
}

#[test]
fn every_crash_is_survived_on_sqlite() {
    survives(Kind::Sqlite, 8);
}

#[test]
fn every_crash_is_survived_on_redb() {
    survives(Kind::Redb, 8);
}
