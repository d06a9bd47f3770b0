//! What is kept, what comes again, what is asked for anew.

use super::*;

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
    let waiting = vec![old(3), message("orders", "one")];
    let (kept, messages) = rewind.decided(nothing_born, waiting, 0);
    assert_eq!(messages, [RewindMessage::AskAgain.to("order")]);
    let last = kept.last().map(|event| &event.kind);
    assert_eq!(last, Some(&delivered("orders", "one")));
}

#[test]
fn timers_signals_and_messages_come_again_in_their_order() {
    let history = History::begun().and(None, EventKind::TimerCreated { fire_at_ms: 70 });
    let history = history.and(None, EventKind::TimerCreated { fire_at_ms: 90 });
    let history = history.activity("a").failed(4);
    let message = |data: &str| delivered("orders", data);
    let signal = EventKind::ExternalEvent {
        name: "go".into(),
        data: "1".into(),
    };
    let history = history.and(None, message("one")).and(None, signal);
    let history = history.and(Some(2), EventKind::TimerFired { fire_at_ms: 70 });
    let history = history.and(None, message("two")).ends_with_error();
    let rewind = plan(&history.0, RewindPoint::Failure).expect("it failed");
    let kinds: Vec<_> = rewind
        .arrivals
        .iter()
        .map(|it| it.kind.wire_name())
        .collect();
    let message = "ExternalEventPersistent";
    assert_eq!(kinds, [message, "TimerFired", message]);
    assert_eq!(rewind.signals.len(), 1, "no code ran after it");
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
    let failure = rewind.failure;
    assert!(failure.is_some(), "it has ended");
    let (_, messages) = decided(ChildStanding::Failed(3, failure));
    let request = RewindMessage::Rewind {
        execution_id: 3,
        from_event_id: None,
        failure,
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
fn what_was_claimed_with_the_request_stands_in_the_record_in_its_order() {
    let history = History::begun().activity("a").activity("b").failed(2);
    let keyed = keyed_message("k", "one");
    let history = history.and(None, delivered("orders", &keyed));
    let rewind = plan(&history.ends_with_error().0, RewindPoint::Failure).expect("it failed");
    let done = WorkItem::ActivityCompleted {
        instance: "order".into(),
        execution_id: 1,
        id: 3,
        result: "late".into(),
    };
    let waiting = vec![
        message("orders", "two"),
        done,
        message("orders", &keyed),
        message("orders", "three"),
    ];
    let (kept, messages) = rewind.decided(nothing_born, waiting, 9);
    let came: Vec<_> = kept[3..]
        .iter()
        .map(|event| match &event.kind {
            EventKind::QueueEventDelivered { data, .. } => data.clone(),
            EventKind::ActivityCompleted { result } => result.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(came, [keyed.as_str(), "two", "late", "three"]);
    let record = Rewound::of(&kept).expect("it is rewound");
    assert_eq!(record.again, [2], "what succeeded is not asked for anew");
    let repeated = message("orders", &keyed);
    let ask_again = RewindMessage::AskAgain.to("order");
    assert_eq!(messages, [repeated, ask_again], "its key is known");
}

#[test]
fn a_request_to_cancel_that_is_older_than_the_retry_is_dropped() {
    let history = History::begun().activity("a").failed(2).ends_with_error();
    let rewind = plan(&history.0, RewindPoint::Failure).expect("it failed");
    let cancel = |reason: &str| WorkItem::CancelInstance {
        instance: "order".into(),
        reason: reason.into(),
    };
    let request = RewindMessage::Rewind {
        execution_id: 1,
        from_event_id: None,
        failure: None,
    };
    let waiting = vec![cancel("stale"), request.to("order"), cancel("fresh")];
    let (_, messages) = rewind.decided(nothing_born, waiting, 0);
    let ask_again = RewindMessage::AskAgain.to("order");
    assert_eq!(messages, [cancel("fresh"), ask_again]);
}

#[test]
fn one_that_ended_before_a_node_chose_its_version_begins_with_the_one_that_is_chosen() {
    let mut history = History::begun().and(None, delivered("orders", "one"));
    if let EventKind::OrchestrationStarted { version, .. } = &mut history.0[0].kind {
        *version = "unknown".into();
    }
    let history = history.ends(ErrorDetails::panicked("oh"));
    let mut rewind = plan(&history.0, RewindPoint::Failure).expect("it failed");
    assert_eq!(rewind.wants_version(), Some("order"));
    rewind.begin_with(&semver::Version::new(2, 0, 0));
    assert_eq!(rewind.wants_version(), None);
    let (kept, _) = rewind.decided(nothing_born, Vec::new(), 0);
    let handler = kept[0].started_handler();
    assert_eq!(handler, Some(("order".into(), "2.0.0".into())));
    assert_eq!(kept.len(), 2, "with the message that it had");
}

#[test]
fn instances_that_the_dropped_part_started_are_named() {
    let history = History::begun().activity("a").failed(2).child();
    let rewind = plan(&history.ends_with_error().0, RewindPoint::Failure).expect("it failed");
    assert_eq!(rewind.started, ["order::sub::2"]);
}
