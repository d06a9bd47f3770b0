//! Which signals the next execution carries.

use super::*;

impl History {
    fn waits(self, name: &str) -> Self {
        self.and(None, EventKind::ExternalSubscribed { name: name.into() })
    }

    fn signal(self, name: &str, data: &str) -> Self {
        let (name, data) = (name.into(), data.into());
        self.and(None, EventKind::ExternalEvent { name, data })
    }

    fn carried(&self, point: RewindPoint) -> Vec<String> {
        let rewind = plan(&self.0, point).expect("a failed one");
        let (kept, _) = rewind.decided(nothing_born, Vec::new(), 0);
        data(&kept)
    }
}

/// What a rewound execution carries.
fn data(history: &[Event]) -> Vec<String> {
    let record = Rewound::of(history).expect("it is rewound");
    record.signals.into_iter().map(|(_, data)| data).collect()
}

/// Waits and gets its signal before `b` fails; `early` came before anyone waited.
fn approved() -> History {
    let history = History::begun().activity("a").failed(2);
    let history = history
        .signal("go", "early")
        .waits("go")
        .signal("go", "yes");
    history.activity("b").failed(7).ends_with_error()
}

#[test]
fn a_signal_that_had_reached_a_wait_is_carried_and_one_that_was_lost_is_not() {
    assert_eq!(approved().carried(RewindPoint::Event(3)), ["yes"]);
    assert!(approved().carried(RewindPoint::Failure).is_empty());
}

#[test]
fn a_signal_that_came_without_code_running_is_carried() {
    // As an end without code records it: what came, then what is cancelled.
    let ended = History::begun().activity("a").waits("go");
    let ended = ended.signal("go", "go").signal("later", "later");
    let ended = ended.cancelled(2).ends(ErrorDetails::panicked("oh"));
    assert_eq!(
        ended.carried(RewindPoint::Failure),
        ["later"],
        "the other one is in the kept part, behind its wait"
    );
    assert_eq!(ended.carried(RewindPoint::Event(4)), ["go", "later"]);
}

#[test]
fn what_an_earlier_rewind_carries_is_carried_once() {
    let rewind = plan(&approved().0, RewindPoint::Event(3)).expect("it failed");
    let (mut second, _) = rewind.decided(nothing_born, Vec::new(), 0);
    // It reaches its wait as an event that names it, and the execution fails again.
    let mut add = |source, kind| {
        let id = second.len() as u64 + 1;
        second.push(Event::with_event_id(id, "order", 2, source, kind));
    };
    add(None, EventKind::ExternalSubscribed { name: "go".into() });
    let (name, data_of_it) = ("go".to_owned(), "yes".to_owned());
    let data_of_it = EventKind::ExternalEvent {
        name,
        data: data_of_it,
    };
    add(Some(3), data_of_it);
    let details = ErrorDetails::panicked("oh");
    add(None, EventKind::OrchestrationFailed { details });
    for point in [RewindPoint::End, RewindPoint::Event(3)] {
        let again = plan(&second, point).expect("it failed");
        let (third, _) = again.decided(nothing_born, Vec::new(), 0);
        assert_eq!(data(&third), ["yes"], "{point:?}");
    }
}
