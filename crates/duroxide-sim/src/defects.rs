//! The proof that the simulation finds things: each defect is put back, and seeds are run until one shows it. In: how
//! many seeds at most. Out: for each defect, how many were needed. Only in builds with `--cfg duroxide_mutants`.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use duroxide_core::defect::Defect;

use crate::plan::Plan;
use crate::world;

/// How a defect was found, or not.
#[derive(Debug, Clone)]
pub struct Hunt {
    pub defect: Defect,
    /// How many seeds it took; `None` if all of them passed.
    pub seeds: Option<u64>,
    /// What was seen.
    pub sign: String,
}

/// Hunts all defects, or those whose name contains a text.
#[must_use]
pub fn hunt(seeds_max: u64, threads: usize, only: &str) -> Vec<Hunt> {
    let wanted: Vec<Defect> = Defect::ALL
        .iter()
        .copied()
        .filter(|defect| format!("{defect:?}").contains(only))
        .collect();
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(defect) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let hunt = hunt_one(*defect, seeds_max);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.push(hunt);
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let place = |hunt: &Hunt| Defect::ALL.iter().position(|defect| *defect == hunt.defect);
    found.sort_by_key(place);
    found
}

fn hunt_one(defect: Defect, seeds_max: u64) -> Hunt {
    Defect::put_back(Some(defect));
    let shown = (0..seeds_max).find_map(|seed| {
        let report = world::run(&Plan::draw(seed), false);
        let sign = report.violations.into_iter().next()?;
        // A seed that fails without the defect proves nothing.
        Defect::put_back(None);
        let is_its = world::run(&Plan::draw(seed), false).violations.is_empty();
        Defect::put_back(Some(defect));
        is_its.then_some((seed + 1, sign))
    });
    Defect::put_back(None);
    let (seeds, sign) = shown.unzip();
    Hunt {
        defect,
        seeds,
        sign: sign.unwrap_or_default(),
    }
}

/// As a table of a page.
#[must_use]
pub fn table(hunts: &[Hunt]) -> String {
    let mut text =
        "| defect | seen in | seeds needed | first sign |\n|---|---|---|---|\n".to_owned();
    for hunt in hunts {
        let (seen, what) = hunt.defect.describe();
        let seeds = hunt
            .seeds
            .map_or("not found".to_owned(), |seeds| seeds.to_string());
        let sign: String = hunt.sign.chars().take(90).collect();
        let sign = sign.replace('|', "/").replace(['\n', '\r'], " ");
        text.push_str(&format!("| {what} | {seen} | {seeds} | `{sign}` |\n"));
    }
    text
}
