//! What histories say after a run: everything scheduled was answered once, and every execution ended once.

use std::collections::HashMap;

use duroxide_core::{Event, EventKind};

/// What was found in the histories of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// Histories looked at.
    pub histories: usize,
    /// Events in them.
    pub events: usize,
    /// Results of activities in them.
    pub activities: usize,
    /// Defects that were found, in words; empty if nothing was lost or doubled.
    pub violations: Vec<String>,
}

impl Audit {
    /// Adds the history of one execution that ended well.
    pub(crate) fn add(&mut self, instance: &str, history: &[Event]) {
        self.histories += 1;
        self.events += history.len();
        let activities = history.iter().filter(|e| is_activity_result(e)).count();
        self.activities += activities;
        let found = violations(history);
        let told = found.into_iter().map(|what| format!("{instance}: {what}"));
        self.violations.extend(told);
    }

    /// Adds an output that is not what it should be.
    pub(crate) fn expect_output(&mut self, instance: &str, expected: &str, output: &str) {
        if output != expected {
            let told = format!("{instance}: output `{output}` instead of `{expected}`");
            self.violations.push(told);
        }
    }
}

fn is_activity_result(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. }
    )
}

fn violations(history: &[Event]) -> Vec<String> {
    let mut found = Vec::new();
    if !history
        .windows(2)
        .all(|pair| pair[0].event_id < pair[1].event_id)
    {
        found.push("event ids do not grow".to_owned());
    }
    let ends = history.iter().filter(|e| e.is_terminal()).count();
    if ends != 1 {
        found.push(format!("{ends} ends instead of one"));
    }
    let mut answers: HashMap<u64, usize> = HashMap::new();
    for source in history
        .iter()
        .filter(|e| is_answer(e))
        .filter_map(Event::source_event_id)
    {
        *answers.entry(source).or_default() += 1;
    }
    for event in history.iter().filter(|e| wants_answer(e)) {
        match answers.remove(&event.event_id).unwrap_or(0) {
            1 => {}
            count => found.push(format!("event {} has {count} answers", event.event_id)),
        }
    }
    found.extend(
        answers
            .keys()
            .map(|source| format!("an answer to event {source}, which asked nothing")),
    );
    found
}

fn wants_answer(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::ActivityScheduled { .. }
            | EventKind::SubOrchestrationScheduled { .. }
            | EventKind::TimerCreated { .. }
    )
}

fn is_answer(event: &Event) -> bool {
    is_activity_result(event)
        || matches!(
            event.kind,
            EventKind::SubOrchestrationCompleted { .. }
                | EventKind::SubOrchestrationFailed { .. }
                | EventKind::TimerFired { .. }
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::kinds;

    fn event(id: u64, source: Option<u64>, kind: EventKind) -> Event {
        Event::with_event_id(id, "i", 1, source, kind)
    }

    fn sound() -> Vec<Event> {
        vec![
            event(1, None, kinds::started()),
            event(2, None, kinds::activity_scheduled("A")),
            event(3, Some(2), kinds::activity_completed("a")),
            event(4, None, kinds::completed("a")),
        ]
    }

    #[test]
    fn a_sound_history_passes() {
        let mut audit = Audit::default();
        audit.add("i", &sound());
        assert_eq!((audit.events, audit.activities), (4, 1));
        assert_eq!(audit.violations, Vec::<String>::new());
    }

    #[test]
    fn a_lost_or_doubled_answer_is_found() {
        let mut lost = sound();
        lost.remove(2);
        assert_eq!(violations(&lost), ["event 2 has 0 answers"]);
        let mut doubled = sound();
        doubled.insert(3, event(3, Some(2), kinds::activity_completed("a")));
        assert_eq!(violations(&doubled).len(), 2, "and its id does not grow");
        let mut endless = sound();
        endless.pop();
        assert_eq!(violations(&endless), ["0 ends instead of one"]);
    }
}
