//! What a rewind keeps, sends and asks for anew, on histories written by hand.

use super::{Child, ChildStanding, NoRewind, RewindMessage, RewindPoint, plan};
use crate::event::{AppErrorKind, ErrorDetails, Event, EventKind};
use crate::rewound::Rewound;
use crate::start::{START_QUEUE, StartExtras};
use crate::work_item::WorkItem;

/// A history of execution 1 of `order`, one event after the other.
struct History(Vec<Event>);

impl History {
    fn begun() -> Self {
        let started = EventKind::OrchestrationStarted {
            name: "order".into(),
            version: "1.0.0".into(),
            input: String::new(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: Some("new".into()),
        };
        Self(Vec::new()).and(None, started)
    }

    fn and(mut self, source: Option<u64>, kind: EventKind) -> Self {
        let id = self.0.len() as u64 + 1;
        self.0
            .push(Event::with_event_id(id, "order", 1, source, kind));
        self
    }

    fn activity(self, name: &str) -> Self {
        let kind = EventKind::ActivityScheduled {
            name: name.into(),
            input: "x".into(),
            session_id: None,
            tag: None,
        };
        self.and(None, kind)
    }

    fn done(self, id: u64) -> Self {
        let result = format!("result of {id}");
        self.and(Some(id), EventKind::ActivityCompleted { result })
    }

    fn failed(self, id: u64) -> Self {
        let details = ErrorDetails::activity_failed("no");
        self.and(Some(id), EventKind::ActivityFailed { details })
    }

    fn cancelled(self, id: u64) -> Self {
        let reason = "orchestration_terminal_failed".into();
        self.and(Some(id), EventKind::ActivityCancelRequested { reason })
    }

    fn child(self) -> Self {
        let kind = EventKind::SubOrchestrationScheduled {
            name: "child".into(),
            instance: "sub::2".into(),
            input: String::new(),
        };
        self.and(None, kind)
    }

    fn label(self, value: &str) -> Self {
        let kind = EventKind::KeyValueSet {
            key: "duroxide:label:stage".into(),
            value: value.into(),
            last_updated_at_ms: 1,
        };
        self.and(None, kind)
    }

    fn ends(self, details: ErrorDetails) -> Self {
        self.and(None, EventKind::OrchestrationFailed { details })
    }

    fn ends_with_error(self) -> Self {
        self.ends(ErrorDetails::orchestration_failed("no"))
    }

    fn from(&self, point: RewindPoint) -> u64 {
        plan(&self.0, point).expect("a failed one").from_event_id
    }
}

fn ids(of: &super::Rewind) -> Vec<u64> {
    of.again.iter().map(|work| work.event_id).collect()
}

#[test]
fn what_followed_the_failure_goes_and_what_succeeded_stays() {
    // 2 reserve, 3 done, 4 charge, 5 failed, 6 undo, 7 done, 8 end.
    let history = History::begun()
        .activity("reserve")
        .done(2)
        .activity("charge");
    let history = history.failed(4).activity("undo").done(6).ends_with_error();
    let rewind = plan(&history.0, RewindPoint::Failure).expect("it failed");
    assert_eq!(
        (rewind.from_event_id, rewind.kept, rewind.dropped),
        (5, 4, 4)
    );
    assert_eq!(ids(&rewind), [4]);
    assert!(
        rewind.arrivals.is_empty(),
        "nothing of the kept part succeeded later"
    );
    let (kept, messages) = rewind.decided(|_| ChildStanding::Unborn, Vec::new(), 0);
    assert!(kept.iter().all(|event| event.execution_id == 2));
    assert_eq!(kept.last().map(Event::event_id), Some(4));
    assert_eq!(messages, [RewindMessage::AskAgain.to("order")]);
    let record = Rewound::of(&kept).expect("the record says where it comes from");
    assert_eq!((record.shares, record.again), (vec![(1, 4)], vec![4]));
}

#[test]
fn of_many_at_once_all_that_failed_are_asked_for_and_none_that_succeeded() {
    let history = History::begun()
        .activity("a")
        .activity("b")
        .activity("c")
        .activity("d");
    let history = history
        .failed(2)
        .done(3)
        .failed(4)
        .cancelled(5)
        .ends_with_error();
    let rewind = plan(&history.0, RewindPoint::Failure).expect("it failed");
    assert_eq!(rewind.from_event_id, 6, "the first failure");
    assert_eq!(ids(&rewind), [2, 4, 5], "failed, or cancelled by the end");
    let again = EventKind::ActivityCompleted {
        result: "result of 3".into(),
    };
    let (id, source) = (6, Some(3));
    let arrivals = [Event {
        event_id: id,
        source_event_id: source,
        kind: again,
        ..history.0[6].clone()
    }];
    assert_eq!(rewind.arrivals, arrivals);
    let (kept, messages) = rewind.decided(|_| ChildStanding::Unborn, Vec::new(), 0);
    assert_eq!((kept.len(), messages.len()), (6, 1));
    assert!(kept.iter().all(|event| event.execution_id == 2));
}

#[test]
fn a_failure_that_a_retry_overcame_is_not_the_point() {
    let history = History::begun()
        .activity("a")
        .failed(2)
        .activity("a")
        .done(4);
    let history = history.activity("b").failed(6).activity("b").failed(8);
    let history = history.ends_with_error();
    assert_eq!(
        history.from(RewindPoint::Failure),
        7,
        "the first failure of b"
    );
}

#[test]
fn a_failure_that_the_code_got_over_with_other_work_is_not_the_point() {
    let history = History::begun()
        .activity("dear")
        .failed(2)
        .activity("cheap")
        .done(4);
    let history = history.activity("b").failed(6).ends_with_error();
    assert_eq!(
        history.from(RewindPoint::Failure),
        7,
        "nothing that succeeded runs again"
    );
    let rewind = plan(&history.0, RewindPoint::Event(3)).expect("it failed");
    assert_eq!(
        rewind.successes_dropped, 1,
        "an operator may want it all the same"
    );
}

#[test]
fn branches_that_failed_side_by_side_are_one_failure() {
    let history = History::begun()
        .activity("a1")
        .activity("b1")
        .failed(2)
        .done(3);
    let history = history.activity("b2").failed(6).ends_with_error();
    assert_eq!(
        history.from(RewindPoint::Failure),
        4,
        "nothing that succeeded runs again"
    );
}

#[test]
fn compensation_that_fails_is_not_taken_for_the_failure() {
    let other = ErrorDetails::activity_failed("cannot undo");
    let history = History::begun()
        .activity("b")
        .failed(2)
        .activity("x")
        .done(4);
    let history = history
        .activity("y")
        .and(Some(6), EventKind::ActivityFailed { details: other });
    assert_eq!(
        history.ends_with_error().from(RewindPoint::Failure),
        3,
        "what the end says"
    );
}

#[test]
fn old_failures_that_wait_are_not_passed_on() {
    let history = History::begun()
        .activity("a")
        .activity("b")
        .failed(2)
        .ends_with_error();
    let rewind = plan(&history.0, RewindPoint::Failure).expect("it failed");
    let old = |id| WorkItem::ActivityFailed {
        instance: "order".into(),
        execution_id: 1,
        id,
        details: ErrorDetails::activity_failed("late"),
    };
    let letter = WorkItem::QueueMessage {
        instance: "order".into(),
        name: "orders".into(),
        data: "one".into(),
    };
    let waiting = vec![old(3), letter.clone()];
    let (_, messages) = rewind.decided(|_| ChildStanding::Unborn, waiting, 0);
    assert_eq!(messages, [letter, RewindMessage::AskAgain.to("order")]);
}

#[test]
fn a_result_that_the_code_no_longer_wanted_is_not_the_point() {
    let history = History::begun().activity("slow").cancelled(2).failed(2);
    let history = history.activity("b").failed(5).ends_with_error();
    assert_eq!(history.from(RewindPoint::Failure), 6);
}

#[test]
fn a_panic_is_rewound_to_behind_the_last_arrival() {
    let history = History::begun()
        .activity("a")
        .failed(2)
        .activity("b")
        .done(4);
    let history = history.activity("never").cancelled(6);
    let history = history.ends(ErrorDetails::panicked("oh"));
    let rewind = plan(&history.0, RewindPoint::Failure).expect("it failed");
    assert_eq!((rewind.from_event_id, ids(&rewind)), (6, vec![]));
}

#[test]
fn a_cancelled_one_is_rewound_to_the_request() {
    let asked = EventKind::OrchestrationCancelRequested {
        reason: "no".into(),
    };
    let history = History::begun().activity("a").and(None, asked).cancelled(2);
    let history = history.ends(ErrorDetails::cancelled("no"));
    let rewind = plan(&history.0, RewindPoint::Failure).expect("it was cancelled");
    assert_eq!((rewind.from_event_id, ids(&rewind)), (3, vec![2]));
}

#[test]
fn timers_signals_and_messages_come_again_in_their_order() {
    let history = History::begun().and(None, EventKind::TimerCreated { fire_at_ms: 70 });
    let history = history.and(None, EventKind::TimerCreated { fire_at_ms: 90 });
    let history = history.activity("a").failed(4);
    let letter = |data: &str| EventKind::QueueEventDelivered {
        name: "orders".into(),
        data: data.into(),
    };
    let signal = EventKind::ExternalEvent {
        name: "go".into(),
        data: "1".into(),
    };
    let history = history.and(None, letter("one")).and(None, signal);
    let history = history.and(Some(2), EventKind::TimerFired { fire_at_ms: 70 });
    let history = history.and(None, letter("two")).ends_with_error();
    let rewind = plan(&history.0, RewindPoint::Failure).expect("it failed");
    let kinds: Vec<_> = rewind
        .arrivals
        .iter()
        .map(|it| it.kind.wire_name())
        .collect();
    let letter = "ExternalEventPersistent";
    assert_eq!(kinds, [letter, "TimerFired", letter]);
    assert_eq!(rewind.signals.len(), 1);
    assert_eq!(
        ids(&rewind),
        [3, 4],
        "the timer that is still open, and the activity"
    );
}

#[test]
fn what_becomes_of_a_child_depends_on_how_it_stands() {
    let reason = "x".to_owned();
    let failed = EventKind::SubOrchestrationFailed {
        details: ErrorDetails::panicked("oh"),
    };
    let history = History::begun().child().and(Some(2), failed);
    let cancelled = EventKind::SubOrchestrationCancelRequested { reason };
    let history = history
        .and(Some(2), cancelled)
        .ends(ErrorDetails::panicked("oh"));
    let rewind = plan(&history.0, RewindPoint::Failure).expect("it failed");
    let child = Child {
        event_id: 2,
        instance: "order::sub::2".into(),
        cancelled: true,
    };
    assert_eq!(rewind.children, [child]);
    let decided = |standing: ChildStanding| {
        rewind
            .clone()
            .decided(move |_| standing.clone(), Vec::new(), 0)
    };
    let again = |history: &[Event]| Rewound::of(history).map(|it| it.again);
    let (history, _) = decided(ChildStanding::Unborn);
    assert_eq!(again(&history), Some(vec![2]), "the code starts it");
    let (history, messages) = decided(ChildStanding::Running);
    assert_eq!((again(&history), messages.len()), (Some(vec![]), 1));
    let (_, messages) = decided(ChildStanding::Failed(3));
    let request = RewindMessage::Rewind {
        execution_id: 3,
        from_event_id: None,
    };
    assert_eq!(messages[0], request.to("order::sub::2"));
    let (history, messages) = decided(ChildStanding::Completed("late".into()));
    let last = history.last().expect("a history");
    assert_eq!(
        (last.event_id, last.source_event_id, messages.len()),
        (3, Some(2), 1)
    );
    assert_eq!(last.kind.wire_name(), "SubOrchestrationCompleted");
}

#[test]
fn a_second_rewind_shares_no_more_than_the_first() {
    let history = History::begun()
        .activity("a")
        .done(2)
        .activity("b")
        .failed(4);
    let history = history.ends_with_error();
    let first = plan(&history.0, RewindPoint::Failure).expect("it failed");
    let (mut second, _) = first.decided(|_| ChildStanding::Unborn, Vec::new(), 0);
    let end = EventKind::OrchestrationFailed {
        details: ErrorDetails::panicked("oh"),
    };
    second.push(Event::with_event_id(5, "order", 2, None, end));
    let rewind = plan(&second, RewindPoint::Event(3)).expect("it failed");
    assert_eq!(rewind.execution_id(), 3);
    let (third, _) = rewind.decided(|_| ChildStanding::Unborn, Vec::new(), 0);
    let record = Rewound::of(&third).expect("it is rewound");
    assert_eq!(record.shares, [(2, 2), (1, 2)]);
    let EventKind::OrchestrationStarted {
        carry_forward_events: Some(carried),
        ..
    } = &third[0].kind
    else {
        panic!("the first event begins the execution");
    };
    assert_eq!(carried.len(), 1, "one record, not one for each rewind");
}

#[test]
fn labels_of_the_dropped_part_are_put_back() {
    let history = History::begun().label("paying").activity("pay").failed(3);
    let history = history.label("undone").ends_with_error();
    let rewind = plan(&history.0, RewindPoint::Failure).expect("it failed");
    let (kept, _) = rewind.decided(|_| ChildStanding::Unborn, Vec::new(), 0);
    let changes = crate::label::label_changes(&kept);
    assert_eq!(changes, [crate::LabelChange::set("stage", "paying")]);
}

#[test]
fn a_question_to_the_host_is_never_left_open() {
    let history = History::begun()
        .activity("__duroxide_syscall:run:hash")
        .failed(2);
    let history = history.ends_with_error();
    let rewind = plan(&history.0, RewindPoint::Failure).expect("it failed");
    assert_eq!((rewind.from_event_id, ids(&rewind)), (2, vec![]));
}

/// A history that ends because its time was up at 100 ms, 40 ms after it began.
fn timed_out() -> History {
    let mut history = History::begun();
    if let EventKind::OrchestrationStarted {
        carry_forward_events,
        ..
    } = &mut history.0[0].kind
    {
        let json = r#"{"timeout_ms":40,"deadline_ms":100}"#.to_owned();
        *carry_forward_events = Some(vec![(START_QUEUE.to_owned(), json)]);
    }
    let history = history.activity("tolerated").failed(2).activity("slow");
    let history = history.and(Some(1), EventKind::TimerFired { fire_at_ms: 100 });
    history
        .cancelled(4)
        .ends(ErrorDetails::timed_out("too slow"))
}

#[test]
fn one_whose_time_was_up_gets_its_time_again() {
    let rewind = plan(&timed_out().0, RewindPoint::Failure).expect("it failed");
    assert_eq!((rewind.from_event_id, ids(&rewind)), (5, vec![4]));
    let at_end = plan(&timed_out().0, RewindPoint::End).expect("it failed");
    assert_eq!(
        at_end.from_event_id, 5,
        "the record must not say that its time is up"
    );
    for (now_ms, deadline_ms) in [(300, 340), (70, 100)] {
        let none = |_: &Child| ChildStanding::Unborn;
        let (kept, messages) = rewind.clone().decided(none, Vec::new(), now_ms);
        let timer = WorkItem::TimerFired {
            instance: "order".into(),
            execution_id: 2,
            id: 1,
            fire_at_ms: deadline_ms,
        };
        assert!(messages.contains(&timer), "{messages:?}");
        let extras = StartExtras::recorded_in(&kept[0].kind);
        assert_eq!(extras.deadline_ms, Some(deadline_ms));
    }
}

#[test]
fn only_what_failed_is_rewound() {
    let running = History::begun();
    assert_eq!(
        plan(&running.0, RewindPoint::Failure),
        Err(NoRewind::Running)
    );
    let output = String::new();
    let done = History::begun().and(None, EventKind::OrchestrationCompleted { output });
    assert_eq!(
        plan(&done.0, RewindPoint::Failure),
        Err(NoRewind::Completed)
    );
    let failed = History::begun().ends_with_error();
    let no_such = |event_id| NoRewind::NoSuchEvent {
        execution_id: 1,
        event_id,
    };
    for event_id in [1, 3] {
        let at = RewindPoint::Event(event_id);
        assert_eq!(plan(&failed.0, at), Err(no_such(event_id)));
    }
    assert_eq!(
        failed.from(RewindPoint::Failure),
        2,
        "from the very beginning"
    );
    let broken = ErrorDetails::Application {
        kind: AppErrorKind::Panicked,
        message: String::new(),
        retryable: false,
    };
    assert_eq!(History::begun().ends(broken).from(RewindPoint::End), 2);
}
