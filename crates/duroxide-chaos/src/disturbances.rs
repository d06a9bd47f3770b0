//! What was done to the workers, and when. In: lines that the nemesis and the workers write. Out: whether something
//! that happened twice is excused by it.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use crate::ledger::{Ledger, lines};

/// How much later than it happened a death may be noticed.
const NOTICED_WITHIN_MS: u64 = 200;

/// Notes disturbances.
pub(crate) struct Notes(Ledger);

impl Notes {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self(Ledger::open(&folder.join("disturbances")))
    }

    /// From here to there somebody could not work, or could not write, and may have lost leases.
    pub(crate) fn stall(&self, from_ms: u64, to_ms: u64) {
        self.0.write(&format!("stall {from_ms} {to_ms}"));
    }

    /// From here to there the server was away, or being replaced.
    pub(crate) fn outage(&self, from_ms: u64, to_ms: u64) {
        self.0.write(&format!("outage {from_ms} {to_ms}"));
    }

    /// The clock was set, and is off the machine's by so much since then.
    pub(crate) fn step(&self, offset_ms: i64, at_ms: u64) {
        self.0.write(&format!("step {at_ms} {offset_ms}"));
    }

    /// A life has ended.
    pub(crate) fn death(&self, life: u32, at_ms: u64) {
        self.0.write(&format!("died {life} {at_ms}"));
    }
}

/// All disturbances of a run.
#[derive(Debug, Default)]
pub(crate) struct Disturbances {
    stalls: Vec<(u64, u64)>,
    /// When the server was away, one after the other.
    outages: Vec<(u64, u64)>,
    deaths: HashMap<u32, u64>,
    /// Since when the clock of the run was off the machine's by how much, in the order of time.
    steps: Vec<(u64, i64)>,
    lease_ms: u64,
}

impl Disturbances {
    /// Those that were noted, in a run whose leases last so long.
    pub(crate) fn of(folder: &Path, lease: Duration) -> Self {
        Self::read(&lines(&folder.join("disturbances")), lease)
    }

    pub(crate) fn read(lines: &[String], lease: Duration) -> Self {
        let mut all = Self {
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
            ..Self::default()
        };
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
            if let (Some(&"step"), Some(at), Some(offset)) =
                (words.first(), number(1), words.get(2))
            {
                let offset: i64 = offset.parse().unwrap_or(0);
                all.steps.push((at, offset));
                // Leases run out all at once when the clock goes ahead.
                all.stalls.push((at, at.saturating_add(all.lease_ms)));
                continue;
            }
            match (words.first(), number(1), number(2)) {
                (Some(&"stall"), Some(from), Some(to)) => all.stalls.push((from, to)),
                (Some(&"outage"), Some(from), Some(to)) => all.outages.push((from, to)),
                (Some(&"died"), Some(life), Some(at)) => {
                    let life = u32::try_from(life).unwrap_or(0);
                    all.deaths.entry(life).or_insert(at);
                }
                _ => panic!("not a disturbance: {line:?}"),
            }
        }
        all
    }

    /// Whether a lease that was held at `from_ms` may have been lost before `to_ms`, with its holder alive.
    pub(crate) fn lost_a_lease(&self, from_ms: u64, to_ms: u64) -> bool {
        let from_ms = from_ms.saturating_sub(self.lease_ms);
        self.stalls
            .iter()
            .any(|(began, ended)| *began <= to_ms && *ended >= from_ms)
    }

    /// When something was recorded at the latest, by the machine's clock; `None` if no clock of the run can have shown
    /// that time.
    pub(crate) fn by_the_machine(&self, recorded_ms: u64) -> Option<u64> {
        let begins = std::iter::once((0, 0)).chain(self.steps.iter().copied());
        let ends = self.steps.iter().map(|(at, _)| *at).chain([u64::MAX]);
        let shown = begins.zip(ends).filter_map(|((begin, offset), end)| {
            let at = recorded_ms.checked_add_signed(-offset)?;
            // Processes notice a step a little later.
            (begin <= at && at <= end.saturating_add(NOTICED_WITHIN_MS)).then_some(at)
        });
        shown.max()
    }

    /// How much of this time there was a server.
    pub(crate) fn with_server(&self, from_ms: u64, to_ms: u64) -> u64 {
        let within = |(began, ended): &(u64, u64)| {
            let (began, ended) = ((*began).max(from_ms), (*ended).min(to_ms));
            ended.saturating_sub(began)
        };
        let away: u64 = self.outages.iter().map(within).sum();
        to_ms.saturating_sub(from_ms).saturating_sub(away)
    }

    /// How often somebody could not work, and for how long in all.
    pub(crate) fn stalled(&self) -> (usize, u64) {
        let lengths = self
            .stalls
            .iter()
            .map(|(from, to)| to.saturating_sub(*from));
        (self.stalls.len(), lengths.sum())
    }

    /// How long leases last.
    pub(crate) fn lease_ms(&self) -> u64 {
        self.lease_ms
    }

    /// When a life ended.
    pub(crate) fn died_at(&self, life: u32) -> Option<u64> {
        self.deaths.get(&life).copied()
    }

    /// Whether something happened after a death, up to then, that may have kept others from its work: a stall, or
    /// another death.
    pub(crate) fn interferes(&self, died_ms: u64, to_ms: u64) -> bool {
        let is_within = |at: &u64| *at > died_ms && *at <= to_ms;
        let stalls = |(began, ended): &(u64, u64)| *began <= to_ms && *ended >= died_ms;
        self.deaths.values().any(is_within) || self.stalls.iter().any(stalls)
    }

    /// Whether a life was over by then.
    pub(crate) fn was_dead(&self, life: u32, at_ms: u64) -> bool {
        let died = self.deaths.get(&life);
        died.is_some_and(|died| *died <= at_ms.saturating_add(NOTICED_WITHIN_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_excuses_what_it_overlaps_and_a_lease_before() {
        let lines = ["stall 1000 2000".to_owned(), "died 7 5000".to_owned()];
        let all = Disturbances::read(&lines, Duration::from_millis(400));
        assert!(all.lost_a_lease(1_500, 1_600));
        assert!(
            all.lost_a_lease(2_300, 2_310),
            "held since before the stall ended"
        );
        assert!(!all.lost_a_lease(2_500, 2_600));
        assert!(!all.lost_a_lease(100, 999));
        assert!(all.was_dead(7, 5_000) && all.was_dead(7, 4_900));
        assert!(!all.was_dead(7, 4_000));
        assert!(!all.was_dead(8, 9_000));
    }

    #[test]
    fn a_life_answers_only_for_the_time_in_which_it_had_a_server() {
        let lines = ["outage 1000 4000".to_owned(), "outage 9000 9500".to_owned()];
        let all = Disturbances::read(&lines, Duration::from_millis(400));
        assert_eq!(all.with_server(3_000, 12_000), 9_000 - 1_000 - 500);
        assert_eq!(all.with_server(5_000, 8_000), 3_000);
        assert_eq!(all.with_server(1_500, 2_500), 0);
    }

    #[test]
    fn a_recorded_time_is_that_of_the_machine_less_what_the_clock_was_off() {
        let lines = ["step 10000 3000".to_owned(), "step 20000 -4000".to_owned()];
        let all = Disturbances::read(&lines, Duration::from_millis(400));
        assert_eq!(all.by_the_machine(9_000), Some(9_000));
        assert_eq!(all.by_the_machine(15_000), Some(12_000));
        assert_eq!(all.by_the_machine(30_000), Some(34_000));
        assert_eq!(all.by_the_machine(22_000), Some(26_000), "the latest");
        assert_eq!(all.by_the_machine(11_000), None, "the clock jumped over it");
        assert!(all.lost_a_lease(10_100, 10_200), "a step costs leases");
    }
}
