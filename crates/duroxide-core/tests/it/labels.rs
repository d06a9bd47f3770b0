//! Labels: given at the start, changed by the code, handed to children and to the next execution.

use duroxide_core::replay::Outcome;
use duroxide_core::{
    Action, EventKind, LABELS_MAX, Labels, OrchestrationRef, labels_after, labels_of_input,
};

use crate::history::signal;
use crate::world::{World, failure, handler, output};

const CHILD: OrchestrationRef<u64, String> = OrchestrationRef::new("child");

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

#[test]
fn the_code_sees_its_labels_and_changes_are_recorded_once() {
    let mut world = World::of(|ctx, _| async move {
        let before = format!("{:?}", ctx.labels());
        ctx.set_label("team", "red");
        ctx.set_label("round", "1");
        ctx.schedule_wait("next").await;
        ctx.remove_label("round");
        ctx.clear_all_kv_values();
        ctx.schedule_wait("end").await;
        Ok(format!("{before} {:?}", ctx.labels()))
    })
    .labelled(&labels(&[("team", "blue")]));
    world.turn(vec![]);
    assert_eq!(
        labels_after(&world.history),
        labels(&[("team", "red"), ("round", "1")])
    );
    world.replayed_turn(vec![signal("next", "")]);
    for _ in 0..3 {
        world.replayed_turn(vec![]);
    }
    let turn = world.replayed_turn(vec![signal("end", "")]);
    let expected = r#"{"team": "blue"} {"team": "red"}"#;
    assert_eq!(output(&turn), expected);
    assert_eq!(labels_after(&world.history), labels(&[("team", "red")]));
    let is_label = |kind: &EventKind| matches!(kind, EventKind::KeyValueSet { .. });
    let sets = world.history.iter().filter(|it| is_label(&it.kind)).count();
    assert_eq!(
        sets, 2,
        "a replay records nothing, and clearing leaves them"
    );
}

#[test]
fn labels_are_no_messages_and_no_key_values() {
    let mut world = World::of(|ctx, _| async move {
        ctx.set_label("team", "red");
        ctx.schedule_wait("next").await;
        Ok(format!("{:?}", ctx.get_kv_all_keys()))
    })
    .labelled(&labels(&[("team", "blue")]));
    world.turn(vec![]);
    let is_queue_message = |kind: &EventKind| matches!(kind, EventKind::QueueEventDelivered { .. });
    assert!(!world.history.iter().any(|it| is_queue_message(&it.kind)));
    let turn = world.replayed_turn(vec![signal("next", "")]);
    assert_eq!(output(&turn), "[]");
}

#[test]
fn the_next_execution_begins_with_what_the_code_knows() {
    let mut world = World::of(|ctx, input| async move {
        if input == "second" {
            ctx.set_label("round", "2");
            return Ok(format!("{:?}", ctx.labels()));
        }
        ctx.set_label("round", "1");
        ctx.continue_as_new("second").await
    })
    .input("first")
    .labelled(&labels(&[("team", "blue")]));
    world.turn(vec![]);
    let turn = world.turn(vec![]);
    let expected = r#"{"round": "2", "team": "blue"}"#;
    assert_eq!(output(&turn), expected);
    assert_eq!(
        labels_after(&world.history),
        labels(&[("round", "2"), ("team", "blue")])
    );
}

#[test]
fn children_and_detached_starts_carry_labels_and_histories_do_not() {
    let mut world = World::of(|ctx, _| async move {
        ctx.spawn(CHILD, 1)
            .label("kind", "detached")
            .id("apart")
            .label("n", "1");
        let child = ctx.child(CHILD, 2).label("kind", "child");
        child.await.map_err(|error| error.to_string())
    });
    let turn = world.turn(vec![]);
    let mut sent = Vec::new();
    for action in turn.actions {
        if let Action::StartSubOrchestration { input, .. }
        | Action::StartOrchestrationDetached { input, .. } = action
        {
            sent.push(labels_of_input(input));
        }
    }
    let detached = labels(&[("kind", "detached"), ("n", "1")]);
    let child = labels(&[("kind", "child")]);
    assert_eq!(sent, [(detached, "1".to_owned()), (child, "2".to_owned())]);
    for event in &world.history {
        if let EventKind::SubOrchestrationScheduled { input, .. }
        | EventKind::OrchestrationChained { input, .. } = &event.kind
        {
            assert!(["1", "2"].contains(&input.as_str()), "{input}");
        }
    }
    // Other labels are no divergence.
    world.redeploy(handler(|ctx, _| async move {
        ctx.spawn(CHILD, 1).id("apart");
        let child = ctx.child(CHILD, 2).label("kind", "other");
        child.await.map_err(|error| error.to_string())
    }));
    assert_eq!(world.turn(vec![]).outcome, Outcome::Waiting);
}

#[test]
fn labels_that_are_not_fit_are_refused() {
    let mut world = World::of(|ctx, _| async move {
        let child = ctx.child(CHILD, 2).label("not fit", "");
        Err(child.await.unwrap_err().to_string())
    });
    let turn = world.turn(vec![]);
    assert!(failure(&turn).contains("'not fit'"), "{}", failure(&turn));
    assert_eq!(turn.actions, [], "nothing was started");

    let mut world = World::of(|ctx, _| async move {
        let mut child = ctx.child(CHILD, 2);
        for n in 0..=LABELS_MAX {
            child = child.label(n.to_string(), "");
        }
        Err(child.await.unwrap_err().to_string())
    });
    let turn = world.turn(vec![]);
    assert!(
        failure(&turn).contains("these are 17"),
        "{}",
        failure(&turn)
    );

    let mut world = World::of(|ctx, _| async move {
        for n in 0..=LABELS_MAX {
            ctx.set_label(n.to_string(), "");
        }
        Ok(String::new())
    });
    let turn = world.turn(vec![]);
    assert!(
        failure(&turn).contains("'16' is one more"),
        "{}",
        failure(&turn)
    );
}

#[test]
fn a_changed_label_is_noticed() {
    let mut world = World::of(|ctx, _| async move {
        ctx.set_label("team", "red");
        Ok(ctx.schedule_wait("next").await)
    });
    world.turn(vec![]);
    world.redeploy(handler(|ctx, _| async move {
        ctx.set_label("team", "blue");
        Ok(ctx.schedule_wait("next").await)
    }));
    let diverged = world.try_turn(vec![]).unwrap_err().to_string();
    assert!(diverged.contains("duroxide:label:team"), "{diverged}");
}
