//! Where a record is cut.

use super::*;

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

#[test]
fn a_broken_limit_is_rewound_to_the_end() {
    let history = History::begun().activity("tolerated").failed(2);
    let history = history.activity("b").done(4);
    let broken = ErrorDetails::orchestration_failed(
        "Custom status size (300000 bytes) exceeds limit (262144 bytes)",
    );
    assert_eq!(history.ends(broken).from(RewindPoint::Failure), 6);
}

#[test]
fn a_point_among_carried_messages_forgets_no_key() {
    let history = History::begun()
        .and(None, delivered("orders", "one"))
        .and(None, delivered(KEYS_QUEUE, r#"[["orders","k"]]"#));
    let history = history.ends(ErrorDetails::panicked("oh"));
    let rewind = plan(&history.0, RewindPoint::Event(2)).expect("it failed");
    assert_eq!(rewind.arrivals.len(), 2, "messages and keys come again");
    let repeated = vec![message("orders", &keyed_message("k", "again"))];
    let (kept, _) = rewind.decided(nothing_born, repeated, 0);
    assert_eq!(kept.len(), 3, "the key is known");
}
