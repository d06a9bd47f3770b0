//! What the outside world saw, against what the histories say. In: the lines that activities wrote, what was scheduled
//! and completed. Out: what is wrong with them, and how many were repeats.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use duroxide::{Event, EventKind};

use crate::disturbances::Disturbances;
use crate::ops::root_of;

/// One run of an activity: `instance execution event name life number at_ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effect {
    /// Instance, execution and scheduling event.
    pub(crate) key: String,
    pub(crate) name: String,
    /// The process that ran it.
    pub(crate) life: u32,
    /// Which run of that process it is.
    pub(crate) number: u64,
    pub(crate) at_ms: u64,
}

impl Effect {
    pub(crate) fn line(&self) -> String {
        let Self {
            key,
            name,
            life,
            number,
            at_ms,
        } = self;
        format!("{key} {name} {life} {number} {at_ms}")
    }

    fn of(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [instance, execution, event, name, life, number, at_ms] = words.as_slice() else {
            return None;
        };
        Some(Self {
            key: key(instance, execution, event),
            name: (*name).to_owned(),
            life: life.parse().ok()?,
            number: number.parse().ok()?,
            at_ms: at_ms.parse().ok()?,
        })
    }
}

pub(crate) fn key(
    instance: impl std::fmt::Display,
    execution: impl std::fmt::Display,
    event: impl std::fmt::Display,
) -> String {
    format!("{instance} {execution} {event}")
}

/// What the histories say about activities.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// The name of each that was scheduled.
    scheduled: HashMap<String, String>,
    /// When each completion or failure was recorded.
    answered: HashMap<String, u64>,
}

impl Recorded {
    pub(crate) fn note(&mut self, instance: &str, execution: u64, history: &[Event]) {
        for event in history {
            match &event.kind {
                EventKind::ActivityScheduled { name, .. } => {
                    let key = key(instance, execution, event.event_id);
                    self.scheduled.insert(key, name.clone());
                }
                EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. } => {
                    let source = event.source_event_id.unwrap_or_default();
                    let key = key(instance, execution, source);
                    self.answered.insert(key, event.timestamp_ms);
                }
                _ => {}
            }
        }
    }
}

/// Runs of each activity, in their order.
pub(crate) type Runs = BTreeMap<String, Vec<Effect>>;

/// Reads the runs of all activities; what cannot be read is a violation.
pub(crate) fn runs(lines: &[String], violations: &mut Vec<String>) -> Runs {
    let mut all = Runs::new();
    for line in lines {
        match Effect::of(line) {
            Some(effect) => all.entry(effect.key.clone()).or_default().push(effect),
            None => violations.push(format!("no effect: {line:?}")),
        }
    }
    for runs in all.values_mut() {
        runs.sort_by_key(|run| (run.at_ms, run.number));
    }
    all
}

/// Every answered activity had its effect; every effect belongs to a recorded schedule, unless its instance was
/// deleted; none comes twice but where a life was lost or could not work. Returns how many were repeats.
pub(crate) fn check(
    runs: &Runs,
    recorded: &Recorded,
    is_deleted: impl Fn(&str) -> bool,
    disturbances: &Disturbances,
    violations: &mut Vec<String>,
) -> usize {
    let mut repeats = 0;
    for (key, runs) in runs {
        repeats += runs.len() - 1;
        let instance = key.split(' ').next().unwrap_or_default();
        if !is_deleted(root_of(instance)) {
            let scheduled = recorded.scheduled.get(key);
            let names: BTreeSet<&String> = runs.iter().map(|run| &run.name).collect();
            for name in names.into_iter().filter(|name| Some(*name) != scheduled) {
                violations.push(format!("effect of nothing recorded: {key} {name}"));
            }
        }
        check_repeats(runs, recorded.answered.get(key), disturbances, violations);
    }
    let without: BTreeSet<_> = recorded
        .answered
        .keys()
        .filter(|key| !runs.contains_key(*key))
        .collect();
    for key in without {
        violations.push(format!("answered without effect: {key}"));
    }
    repeats
}

/// An activity runs again only if the life before died, or could not keep its lease; and not at all once it was
/// answered.
fn check_repeats(
    runs: &[Effect],
    answered_ms: Option<&u64>,
    disturbances: &Disturbances,
    violations: &mut Vec<String>,
) {
    for pair in runs.windows(2) {
        let [first, again] = pair else { continue };
        let was_dead = first.life != again.life && disturbances.was_dead(first.life, again.at_ms);
        if !was_dead && !disturbances.lost_a_lease(first.at_ms, again.at_ms) {
            let (life, number, at_ms) = (first.life, first.number, first.at_ms);
            violations.push(format!(
                "{} ran as number {number} of life {life} at {at_ms}, which lived, and again: {}",
                first.key,
                again.line()
            ));
        }
    }
    let Some(answered_ms) = answered_ms.and_then(|ms| disturbances.by_the_machine(*ms)) else {
        return;
    };
    let answered_ms = &answered_ms;
    for late in runs.iter().filter(|run| run.at_ms > *answered_ms) {
        if !disturbances.lost_a_lease(*answered_ms, late.at_ms) {
            violations.push(format!(
                "ran after its answer was recorded at {answered_ms}: {}",
                late.line()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn event(id: u64, source: Option<u64>, at_ms: u64, kind: EventKind) -> Event {
        let mut event = Event::with_event_id(id, "a", 1, source, kind);
        event.timestamp_ms = at_ms;
        event
    }

    /// One activity of instance `a`, scheduled as event 2 and answered at 1,000.
    fn recorded() -> Recorded {
        let scheduled = EventKind::ActivityScheduled {
            name: "debit".to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
        };
        let completed = EventKind::ActivityCompleted {
            result: String::new(),
        };
        let history = [
            event(2, None, 900, scheduled),
            event(3, Some(2), 1_000, completed),
        ];
        let mut recorded = Recorded::default();
        recorded.note("a", 1, &history);
        recorded
    }

    fn violations(effects: &[&str], disturbances: &[&str]) -> (usize, Vec<String>) {
        let mut violations = Vec::new();
        let owned = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        let disturbances = Disturbances::read(&owned(disturbances), Duration::from_millis(400));
        let is_deleted = |instance: &str| instance == "deleted";
        let runs = runs(&owned(effects), &mut violations);
        let repeats = check(
            &runs,
            &recorded(),
            is_deleted,
            &disturbances,
            &mut violations,
        );
        (repeats, violations)
    }

    #[test]
    fn one_effect_of_one_activity_is_right() {
        assert_eq!(violations(&["a 1 2 debit 7 1 950"], &[]), (0, vec![]));
    }

    #[test]
    fn an_answer_without_effect_is_noticed() {
        let (_, wrong) = violations(&[], &[]);
        assert_eq!(wrong, ["answered without effect: a 1 2"]);
    }

    #[test]
    fn an_effect_of_nothing_is_noticed_unless_its_instance_was_deleted() {
        let right = "a 1 2 debit 7 1 950";
        for wrong in [
            "a 1 4 debit 7 2 950",
            "a 2 2 debit 7 2 950",
            "b 1 2 debit 7 2 950",
        ] {
            let (_, wrong) = violations(&[right, wrong], &[]);
            assert!(wrong[0].starts_with("effect of nothing"), "{wrong:?}");
        }
        let (_, wrong) = violations(&["a 1 2 credit 7 1 950"], &[]);
        assert_eq!(wrong.len(), 1, "another activity than was scheduled");
        let deleted = [
            "deleted 1 2 debit 7 2 950",
            "deleted::sub::3 1 2 debit 7 3 950",
        ];
        let (_, wrong) = violations(&[right, deleted[0], deleted[1]], &[]);
        assert_eq!(wrong, [""; 0]);
        let (_, wrong) = violations(&[right, "gibberish"], &[]);
        assert_eq!(wrong, ["no effect: \"gibberish\""]);
    }

    #[test]
    fn twice_in_one_life_is_a_violation() {
        let twice = ["a 1 2 debit 7 1 940", "a 1 2 debit 7 2 950"];
        let (repeats, wrong) = violations(&twice, &[]);
        assert_eq!((repeats, wrong.len()), (1, 1), "{wrong:?}");
        // Its death afterwards is no excuse, nor is that of another.
        assert_eq!(violations(&twice, &["died 7 945", "died 8 945"]).1.len(), 1);
        assert_eq!(violations(&twice, &["stall 500 900"]), (1, vec![]));
        assert_eq!(violations(&twice, &["stall 100 500"]).1.len(), 1);
    }

    #[test]
    fn another_life_may_repeat_what_a_dead_one_did() {
        let twice = ["a 1 2 debit 7 1 400", "a 1 2 debit 8 1 950"];
        assert_eq!(violations(&twice, &["died 7 500"]), (1, vec![]));
        assert_eq!(violations(&twice, &[]).1.len(), 1, "it lived");
        assert_eq!(
            violations(&twice, &["died 7 2000"]).1.len(),
            1,
            "it died later"
        );
        assert_eq!(
            violations(&twice, &["died 8 500"]).1.len(),
            1,
            "another died"
        );
    }

    #[test]
    fn an_effect_after_its_answer_is_a_violation() {
        let twice = ["a 1 2 debit 7 1 400", "a 1 2 debit 8 1 1500"];
        let (_, wrong) = violations(&twice, &["died 7 500"]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].starts_with("ran after its answer"), "{wrong:?}");
        let stopped = ["died 7 500", "stall 900 1400"];
        assert_eq!(
            violations(&twice, &stopped),
            (1, vec![]),
            "a sleeper that awoke"
        );
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let line = "a 1 2 debit 7 1 950";
        assert_eq!(
            Effect::of(line).map(|effect| effect.line()).as_deref(),
            Some(line)
        );
    }
}
