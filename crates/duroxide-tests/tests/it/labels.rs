//! Labels, end to end.

use duroxide::providers::InstanceQuery;
use duroxide::{
    ClientError, LABELS_MAX, LabelChange, Labels, OrchestrationContext, OrchestrationRef,
};

use crate::support::{World, activities, failure, orchestrations, output, quick};

const PARENT: OrchestrationRef<String, String> = OrchestrationRef::new("parent");
const CHILD: OrchestrationRef<String, String> = OrchestrationRef::new("child");

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

async fn parent(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.set_label("state", "asking");
    ctx.spawn(CHILD, &input)
        .id("apart")
        .label("kind", "detached");
    let child = ctx.child(CHILD, &input).id("inner").label("kind", "child");
    let answer = child.await.map_err(|error| error.to_string())?;
    ctx.set_label("state", "done");
    ctx.remove_label("shift");
    Ok(answer)
}

async fn eternal(ctx: OrchestrationContext, round: String) -> Result<String, String> {
    if round != "2" {
        ctx.schedule_wait("go").await;
        return ctx.continue_as_new("2").await;
    }
    Ok(format!("{:?}", ctx.labels()))
}

async fn world() -> World {
    let echo = |_: OrchestrationContext, input: String| async move { Ok(input) };
    World::start(
        activities().build(),
        orchestrations()
            .register("parent", parent)
            .register("child", echo)
            .register("eternal", eternal)
            .build(),
    )
    .await
}

async fn found(world: &World, key: &str, value: &str) -> Vec<String> {
    let query = InstanceQuery::new().with_label(key, value);
    let page = world.client.query_instances(&query).await.unwrap();
    let ids = page.items.into_iter().map(|one| one.instance_id);
    let mut ids: Vec<_> = ids.collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn labels_of_a_start_of_children_and_of_the_code_are_found() {
    let world = world().await;
    let start = world.client.start(PARENT, "in".to_owned()).id("family");
    let start = start.label("team", "blue").label("shift", "day");
    let handle = start.await.unwrap();
    assert_eq!(handle.result().await.unwrap(), "in");
    world.outcome("apart").await;
    let expected = labels(&[("team", "blue"), ("state", "done")]);
    assert_eq!(world.client.labels("family").await.unwrap(), expected);
    assert_eq!(found(&world, "team", "blue").await, ["family"]);
    assert_eq!(found(&world, "kind", "child").await, ["inner"]);
    assert_eq!(found(&world, "kind", "detached").await, ["apart"]);
    let all = InstanceQuery::new();
    let counts = world.client.count_instances_by_label(&all, "kind").await;
    assert_eq!(counts.unwrap().len(), 2);
    // The same handler and input, and the same labels.
    world.client.restart_as("apart", "again").await.unwrap();
    world.outcome("again").await;
    assert_eq!(found(&world, "kind", "detached").await, ["again", "apart"]);
    world.stop().await;
}

#[tokio::test]
async fn labels_go_with_the_instance_through_continue_as_new_and_an_operator_has_the_last_word() {
    let world = world().await;
    let given = labels(&[("team", "blue"), ("shift", "day")]);
    let start = world
        .client
        .start_orchestration_labelled("e", "eternal", None, "1", given);
    start.await.unwrap();
    world.waits_for("e", "go").await;
    let changes = [
        LabelChange::set("team", "red"),
        LabelChange::remove("shift"),
    ];
    let changed = world.client.change_labels("e", &changes).await.unwrap();
    assert_eq!(changed, labels(&[("team", "red")]));
    world.client.raise_event("e", "go", "").await.unwrap();
    let said = world.outcome("e").await;
    assert_eq!(output(&said), r#"{"shift": "day", "team": "blue"}"#);
    assert_eq!(world.client.labels("e").await.unwrap(), changed);
    let done = [LabelChange::set("seen", "yes")];
    let after_its_end = world.client.change_labels("e", &done).await.unwrap();
    assert_eq!(after_its_end.len(), 2);
    world.stop().await;
}

#[tokio::test]
async fn an_instance_that_fails_before_its_code_keeps_its_labels() {
    let world = world().await;
    let given = labels(&[("team", "blue")]);
    let start =
        world
            .client
            .start_orchestration_labelled("lost", "nobody has it", None, "", given.clone());
    start.await.unwrap();
    world
        .client
        .terminate_instance("lost", "enough")
        .await
        .unwrap();
    failure(&world.outcome("lost").await);
    assert_eq!(world.client.labels("lost").await.unwrap(), given);
    world.stop().await;
}

#[tokio::test]
async fn what_is_not_fit_is_refused_before_anything_is_sent() {
    let world = world().await;
    let client = &world.client;
    let start = client.start(CHILD, String::new()).id("x").label("a b", "");
    let refused = start.await.unwrap_err();
    assert!(
        matches!(refused, ClientError::InvalidInput { .. }),
        "{refused}"
    );
    let long = "v".repeat(257);
    let changes = [LabelChange::set("k", long)];
    let refused = client.change_labels("x", &changes).await.unwrap_err();
    assert!(
        matches!(refused, ClientError::InvalidInput { .. }),
        "{refused}"
    );
    let changes = [LabelChange::set("k", "v")];
    let refused = client.change_labels("x", &changes).await.unwrap_err();
    assert!(
        matches!(refused, ClientError::InstanceNotFound { .. }),
        "{refused}"
    );
    world.stop().await;
}

/// An input that looks as if it carried labels is the author's input.
#[tokio::test]
async fn an_input_never_passes_for_labels() {
    let world = world().await;
    for input in ["duroxide:labels:2:{}x", "duroxide:labels:", "plain"] {
        let status = world.run(&format!("of {input}"), "child", input).await;
        assert_eq!(output(&status), input);
        let found = world.client.labels(&format!("of {input}")).await.unwrap();
        assert!(found.is_empty());
    }
    world.stop().await;
}

/// Gives itself half of the labels that it may have, and the others when it is told to.
async fn marked(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    for n in 0..LABELS_MAX / 2 {
        ctx.set_label(format!("own-{n:02}"), "code");
    }
    ctx.schedule_wait("go").await;
    for n in LABELS_MAX / 2..LABELS_MAX {
        ctx.set_label(format!("own-{n:02}"), "code");
    }
    Ok(String::new())
}

#[tokio::test]
async fn a_restart_begins_with_the_labels_that_are_stored_as_far_as_they_fit() {
    let code = orchestrations().register("marked", marked).build();
    let world = World::start(activities().build(), code).await;
    world.begin("i", "marked", "").await;
    world.waits_for("i", "go").await;
    let given = (0..LABELS_MAX / 2).map(|n| LabelChange::set(format!("theirs-{n:02}"), "op"));
    let mut changes: Vec<LabelChange> = given.collect();
    changes.push(LabelChange::set("own-00", "op"));
    changes.push(LabelChange::remove("own-01"));
    world.client.change_labels("i", &changes).await.unwrap();
    world.raise("i", "go", "").await;
    world.outcome("i").await;
    let stored = world.client.labels("i").await.unwrap();
    assert!(stored.len() > LABELS_MAX, "more than one may begin with");
    let store = world.store.clone();
    world.stop().await;
    // Code that gives none.
    let echo = |_: OrchestrationContext, input: String| async move { Ok(input) };
    let code = orchestrations().register("marked", echo).build();
    let world = World::on(store, activities().build(), code, quick()).await;
    world.client.restart_as("i", "again").await.unwrap();
    world.outcome("again").await;
    let begun = world.client.labels("again").await.unwrap();
    assert_eq!(begun.len(), LABELS_MAX, "{begun:?}");
    assert_eq!(begun["own-00"], "op", "the operator has the last word");
    assert!(!begun.contains_key("own-01"), "also on what is gone");
    let own = begun.keys().filter(|key| key.starts_with("own-"));
    assert_eq!(own.count(), LABELS_MAX - 1, "the code's go first");
    world.stop().await;
}
