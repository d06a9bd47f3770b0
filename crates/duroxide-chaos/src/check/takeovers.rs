//! How soon the work of a killed worker is taken over. In: runs of activities, and what was done to the workers. Out:
//! how long it took, and what took too long without a reason.
//!
//! A lease that a worker held when it was killed is over a lease later at most. Another worker has to take the activity
//! up within [`GRACE_MS`] of that, unless the server was away or somebody stood still meanwhile, or the next worker was
//! killed as well.

use serde::Serialize;

use super::effects::{Effect, Runs};
use super::percentile;
use crate::disturbances::Disturbances;

/// How much later than the end of its lease an activity may be taken over.
const GRACE_MS: u64 = 1_000;

/// Activities that ran again because their worker was killed.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Takeovers {
    /// How many nothing else interfered with.
    count: usize,
    /// From the death to the next run, of these.
    ms_p50: u64,
    ms_p99: u64,
    ms_max: u64,
    /// How many there were in which something else happened meanwhile.
    disturbed: usize,
}

/// One activity that ran again.
struct Takeover<'a> {
    died_ms: u64,
    again: &'a Effect,
}

impl Takeover<'_> {
    fn ms(&self) -> u64 {
        self.again.at_ms.saturating_sub(self.died_ms)
    }
}

/// Measures them. Deaths after `until_ms` do not count: nobody was left to take over.
pub(crate) fn measure(
    runs: &Runs,
    disturbances: &Disturbances,
    until_ms: u64,
    violations: &mut Vec<String>,
) -> Takeovers {
    let latest_ms = disturbances.lease_ms() + GRACE_MS;
    let last_death_ms = until_ms.saturating_sub(latest_ms);
    let pairs = runs.values().flat_map(|runs| runs.windows(2));
    let taken = pairs.filter_map(|pair| match pair {
        [first, again] if first.life != again.life => Some(Takeover {
            died_ms: disturbances.died_at(first.life)?,
            again,
        }),
        _ => None,
    });
    let taken = taken.filter(|it| it.died_ms <= it.again.at_ms && it.died_ms <= last_death_ms);
    let (disturbed, clear): (Vec<_>, Vec<_>) =
        taken.partition(|it| disturbances.interferes(it.died_ms, it.again.at_ms));
    for late in clear.iter().filter(|it| it.ms() > latest_ms) {
        violations.push(format!(
            "taken over {} ms after the death of its worker, {latest_ms} ms were allowed: {}",
            late.ms(),
            late.again.line()
        ));
    }
    let mut all: Vec<u64> = clear.iter().map(Takeover::ms).collect();
    all.sort_unstable();
    Takeovers {
        count: all.len(),
        ms_p50: percentile(&all, 50),
        ms_p99: percentile(&all, 99),
        ms_max: percentile(&all, 100),
        disturbed: disturbed.len(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LEASE: Duration = Duration::from_millis(1_000);

    /// One activity: a run of life 7 at 1,000, and one of life 8 then.
    fn taken_over_at(at_ms: u64, disturbances: &[&str]) -> (Takeovers, Vec<String>) {
        let run = |life, at_ms| Effect {
            key: "a 1 2".to_owned(),
            name: "debit".to_owned(),
            life,
            number: 1,
            at_ms,
        };
        let lines: Vec<String> = disturbances.iter().map(|it| (*it).to_owned()).collect();
        let disturbances = Disturbances::read(&lines, LEASE);
        let mut violations = Vec::new();
        let runs = vec![run(7, 1_000), run(8, at_ms)];
        let runs = Runs::from([("a 1 2".to_owned(), runs)]);
        let found = measure(&runs, &disturbances, 100_000, &mut violations);
        (found, violations)
    }

    #[test]
    fn the_time_from_a_death_to_the_next_run_is_measured() {
        let (found, wrong) = taken_over_at(3_200, &["died 7 1200"]);
        assert_eq!((found.count, found.ms_max, wrong), (1, 2_000, vec![]));
    }

    #[test]
    fn a_lease_and_a_second_after_its_death_the_work_of_a_worker_has_to_run_again() {
        let (found, wrong) = taken_over_at(3_201, &["died 7 1200"]);
        assert_eq!((found.count, wrong.len()), (1, 1), "{wrong:?}");
        assert!(
            wrong[0].starts_with("taken over 2001 ms after"),
            "{wrong:?}"
        );
    }

    #[test]
    fn a_stall_or_another_death_meanwhile_is_a_reason() {
        for meanwhile in ["stall 2000 2500", "died 9 2000", "stall 500 1250"] {
            let (found, wrong) = taken_over_at(9_000, &["died 7 1200", meanwhile]);
            assert_eq!((found.count, found.disturbed), (0, 1), "{meanwhile}");
            assert_eq!(wrong, [""; 0], "{meanwhile}");
        }
        for apart in ["stall 500 1100", "stall 9100 9200", "died 9 100"] {
            let (found, wrong) = taken_over_at(9_000, &["died 7 1200", apart]);
            assert_eq!((found.count, wrong.len()), (1, 1), "{apart}");
        }
    }

    #[test]
    fn what_nobody_was_left_for_does_not_count() {
        let (found, wrong) = taken_over_at(99_900, &["died 7 98500"]);
        assert_eq!((found, wrong), (Takeovers::default(), vec![]));
    }

    #[test]
    fn a_run_after_a_stall_is_no_takeover() {
        let (found, _) = taken_over_at(9_000, &["stall 2000 2500"]);
        assert_eq!(found, Takeovers::default(), "nobody died");
    }
}
