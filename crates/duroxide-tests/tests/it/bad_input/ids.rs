//! Ids and texts of any content.

use duroxide::{ClientError, OrchestrationContext, OrchestrationStatus};

use super::echo;
use crate::support::{World, activities, orchestrations, output, quick};

#[tokio::test]
async fn any_text_is_an_instance_id_an_input_and_a_key_and_stays_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let store = duroxide::providers::sqlite::SqliteProvider::new(&url, None)
        .await
        .unwrap();
    let world = World::on(
        std::sync::Arc::new(store),
        activities()
            .register("echo", |_, input| async move { Ok(input) })
            .build(),
        echo(),
        quick(),
    )
    .await;
    let hostile = [
        "'; DROP TABLE instances; --",
        "\" OR 1=1",
        "<script>alert(1)</script>",
        "line\nbreak\ttab\r\u{7}bell",
        "nul\0inside",
        "\u{202e}right to left \u{1f980} ünï",
        "../../etc/passwd",
        "%s%n{}{0}",
        " ",
        "::",
        "a::b",
    ];
    for id in hostile {
        world.begin(id, "echo", id).await;
        world.waits_for(id, "go").await;
        world.raise(id, "go", id).await;
        assert_eq!(output(&world.outcome(id).await), id);
        assert_eq!(
            world.client.get_kv_value(id, id).await.unwrap().as_deref(),
            Some(id)
        );
        assert_eq!(
            world
                .client
                .get_instance_info(id)
                .await
                .unwrap()
                .instance_id,
            id
        );
        let tree = world.client.get_instance_tree(id).await.unwrap();
        assert_eq!(tree.size(), 2, "{:?}", tree.all_ids);
    }
    assert_eq!(
        world.client.list_all_instances().await.unwrap().len(),
        2 * hostile.len()
    );
    let deleted = world
        .client
        .delete_instance(hostile[0], false)
        .await
        .unwrap();
    assert_eq!(deleted.instances_deleted, 2);
    world.stop().await;
}

#[tokio::test]
async fn ids_that_cannot_be_used_are_refused_before_anything_is_stored() {
    let world = World::start(activities().build(), echo()).await;
    let long = "x".repeat(10 * 1024);
    for (id, why) in [
        ("", "must not be empty"),
        (long.as_str(), "exceeds limit"),
        ("sub::1", "reserved sub-orchestration marker 'sub::'"),
        ("a::sub::1", "reserved sub-orchestration marker 'sub::'"),
    ] {
        let refused = world
            .client
            .start_orchestration(id, "leaf", "")
            .await
            .unwrap_err();
        assert!(
            matches!(refused, ClientError::InvalidInput { .. }),
            "{refused:?}"
        );
        assert!(refused.to_string().contains(why), "{refused}");
        assert!(!refused.is_retryable());
    }
    // Others may be asked about them all the same.
    for id in ["", long.as_str(), "sub::1"] {
        let status = world.client.get_orchestration_status(id).await.unwrap();
        assert_eq!(status, OrchestrationStatus::NotFound);
        world.raise(id, "go", "").await;
        world.cancel(id, "").await;
    }
    assert_eq!(output(&world.run("i", "leaf", "alive").await), "alive");
    world.stop().await;
}

#[tokio::test]
async fn a_child_or_detached_id_that_is_empty_or_too_long_hurts_nobody_else() {
    let world = World::start(
        activities().build(),
        orchestrations()
            .register(
                "leaf",
                |_: OrchestrationContext, input: String| async move { Ok(input) },
            )
            .register(
                "child",
                |ctx: OrchestrationContext, id: String| async move {
                    ctx.schedule_sub_orchestration_with_id("leaf", id, "").await
                },
            )
            .build(),
    )
    .await;
    for (n, id) in ["x".repeat(10 * 1024), String::new()]
        .into_iter()
        .enumerate()
    {
        world.begin(format!("p{n}"), "child", id).await;
        let ended = world.outcome(&format!("p{n}")).await;
        assert!(
            !matches!(ended, OrchestrationStatus::Running { .. }),
            "{ended:?}"
        );
    }
    assert_eq!(output(&world.run("i", "leaf", "alive").await), "alive");
    world.stop().await;
}
