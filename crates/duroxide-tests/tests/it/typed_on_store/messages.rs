//! Messages, requests and views.

use duroxide::prelude::*;

use super::account::account;
use super::{SOON, world};

/// Takes two messages per execution.
#[duroxide::orchestration]
async fn basket(
    ctx: OrchestrationContext,
    size: u32,
    items: Vec<String>,
) -> Result<Vec<String>, String> {
    let mut items = items;
    for _ in 0..2 {
        if items.len() == size as usize {
            return Ok(items);
        }
        items.push(ctx.receive::<String>("items").await?);
    }
    ctx.continue_with(basket, (&size, &items)).await
}

#[duroxide::orchestration]
async fn gift(ctx: OrchestrationContext, to: String) -> Result<Vec<String>, String> {
    let sent = ctx.send(&to, "items", "a ribbon").await;
    sent.map_err(|error| error.to_string())?;
    Ok(ctx.await_instance(basket, &to).await?)
}

#[tokio::test]
async fn messages_are_taken_once_in_order_and_refused_after_the_end() {
    let world = world(Handlers::new().register(basket).register(gift)).await;
    let client = &world.client;
    let start = client.start(basket, (&4, &Vec::new())).id("b");
    let basket = start.message("items", "tea").message("items", "cups");
    let basket = basket.await.unwrap();
    for _unsure in 0..3 {
        basket
            .send("items", "milk")
            .dedup_key("click")
            .await
            .unwrap();
    }
    let gift = client.start(gift, "b").await.unwrap();
    let all = ["tea", "cups", "milk", "a ribbon"];
    assert_eq!(basket.result().await.unwrap(), all);
    assert_eq!(gift.result().await.unwrap(), all);
    let late = basket.send("items", "sugar").await;
    assert!(
        matches!(late, Err(SendError::Undelivered(Undelivered::Ended { .. }))),
        "{late:?}"
    );
    let nobody = client.send("nobody", "items", "sugar").await;
    assert!(
        matches!(
            nobody,
            Err(SendError::Undelivered(Undelivered::NotFound { .. }))
        ),
        "{nobody:?}"
    );
    world.stop().await;
}

#[tokio::test]
async fn requests_have_one_reply_each_and_views_are_followed_to_the_end() {
    let world = world(Handlers::new().register(account)).await;
    let account = world.client.start(account, 100).id("a").await.unwrap();
    let mut changes = account.changes::<u64>();
    assert_eq!(changes.next().await.unwrap().unwrap(), 100);
    let withdraw = |cents: u64, id: &str| account.ask::<_, u64>("withdraw", &cents).id(id);
    for _unsure in 0..2 {
        assert_eq!(withdraw(30, "one").await.unwrap(), 70);
    }
    assert_eq!(changes.next().await.unwrap().unwrap(), 70);
    let refused = withdraw(500, "two").await;
    assert!(
        matches!(refused, Err(AskError::Refused { .. })),
        "{refused:?}"
    );
    assert_eq!(withdraw(20, "three").await.unwrap(), 50);
    assert_eq!(changes.next().await.unwrap().unwrap(), 50);
    assert_eq!(withdraw(50, "four").await.unwrap(), 0);
    assert_eq!(changes.next().await.unwrap().unwrap(), 0);
    assert!(changes.next().await.is_none());
    assert_eq!(account.result().await.unwrap(), 2);
    assert_eq!(withdraw(20, "three").await.unwrap(), 50, "after the end");
    let late = withdraw(1, "late").await;
    assert!(matches!(late, Err(AskError::Ended)), "{late:?}");
    assert_eq!(account.view::<u64>().await.unwrap(), Some(0));
    world.stop().await;
}

/// Publishes what it counts, faster than anybody follows.
#[duroxide::orchestration]
async fn counting(ctx: OrchestrationContext, to: u64) -> Result<(), String> {
    for n in 1..=to {
        ctx.publish(&n);
        if n % 10 == 0 {
            ctx.sleep(SOON).await;
        }
    }
    Ok(())
}

#[tokio::test]
async fn whoever_follows_sees_views_in_order_and_the_last_one() {
    let world = world(Handlers::new().register(counting)).await;
    let followed = world.client.handle(counting, "c");
    let following = tokio::spawn(async move {
        let (mut changes, mut seen) = (followed.changes::<u64>(), Vec::new());
        while let Some(view) = changes.next().await {
            seen.push(view.unwrap());
        }
        seen
    });
    world.client.start(counting, 55).id("c").await.unwrap();
    let seen = following.await.unwrap();
    assert!(seen.is_sorted(), "{seen:?}");
    assert_eq!(seen.last(), Some(&55));
    world.stop().await;
}
