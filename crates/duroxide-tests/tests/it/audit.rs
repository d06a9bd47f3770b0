//! The audit trail: what operators did, one line each.

use duroxide::OrchestrationContext;

use crate::logs::Lines;
use crate::support::{World, activities, orchestrations};

#[tokio::test]
async fn every_deed_of_an_operator_is_one_line_of_the_audit_trail() {
    let (lines, _guard) = Lines::collect();
    let waits = |ctx: OrchestrationContext, _| async move { Ok(ctx.schedule_wait("go").await) };
    let world = World::start(
        activities().build(),
        orchestrations().register("waits", waits).build(),
    )
    .await;
    world.begin("i", "waits", "").await;
    world.waits_for("i", "go").await;
    let client = world.client.clone().acting_as("night shift");
    let label = [duroxide::LabelChange::set("team", "blue")];
    client.change_labels("i", &label).await.unwrap();
    client.pause_instance("i").await.unwrap();
    client.pause_instance("i").await.unwrap();
    client.resume_instance("i").await.unwrap();
    client.restart_as("i", "again").await.unwrap();
    world.waits_for("again", "go").await;
    client.cancel_instance("again", "enough").await.unwrap();
    client.terminate_instance("i", "at once").await.unwrap();
    world.outcome("i").await;
    client.delete_instance("i", false).await.unwrap();
    client.pause_instance("stranger").await.unwrap_err();
    let trail = lines.all().into_iter();
    let trail = trail.filter(|line| line.target == "duroxide::audit");
    let told: Vec<[String; 3]> = trail
        .map(|line| {
            assert_eq!(line.fields["actor"], "night shift");
            ["verb", "instance_id", "detail"].map(|field| line.fields[field].clone())
        })
        .collect();
    assert_eq!(
        told,
        [
            ["label", "i", "team=blue"],
            ["pause", "i", ""],
            ["resume", "i", ""],
            ["restart", "i", "again"],
            ["cancel", "again", "enough"],
            ["terminate", "i", "at once"],
            ["delete", "i", ""],
        ],
        "what changed nothing leaves no line"
    );
    world.stop().await;
}
