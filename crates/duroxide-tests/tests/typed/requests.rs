//! Requests and replies: in order, refused or answered, once; and what an instance shows of itself.

use std::time::Duration;

use duroxide::REPLIES_MAX;
use duroxide::prelude::*;
use duroxide::testing::Harness;

use crate::account::account;

const SECOND: Duration = Duration::from_secs(1);

/// Answers a request that an earlier execution took.
#[duroxide::orchestration]
async fn handing_on(
    ctx: OrchestrationContext,
    open: Option<Request<u64, String>>,
) -> Result<String, String> {
    let mut requests = ctx.requests::<u64, String>("ask");
    if let Some(request) = open {
        let answer = format!("{} in execution {}", request.value(), ctx.execution_id());
        ctx.reply(request, &answer);
        ctx.set_kv_value("own", "1");
        ctx.clear_all_kv_values();
        return Ok(answer);
    }
    let request = requests.next().await;
    ctx.sleep(SECOND).await;
    ctx.continue_with(handing_on, Some(request)).await
}

/// Takes requests and never answers; ends with the second.
#[duroxide::orchestration]
async fn silent(ctx: OrchestrationContext) -> Result<(), String> {
    let mut requests = ctx.requests::<u64, u64>("withdraw");
    let _first = requests.next().await;
    let _second = requests.next().await;
    Ok(())
}

/// Answers so many requests of either name with how many there were, among 150 keys of its own.
#[duroxide::orchestration]
async fn busy(ctx: OrchestrationContext, count: u64) -> Result<(), String> {
    for key in 0..150 {
        ctx.set_kv_value(format!("key {key}"), "own");
    }
    let mut ups = ctx.requests::<(), u64>("up");
    let mut downs = ctx.requests::<(), String>("down");
    for n in 1..=count {
        let request = ups.next().await;
        ctx.reply(request, &n);
    }
    let request = downs.next().await;
    ctx.reply(request, &"x".repeat(100_000));
    let request = downs.next().await;
    ctx.reply(request, &"down".to_owned());
    Ok(())
}

async fn harness() -> Harness {
    let code = Handlers::new()
        .register(busy)
        .register(account)
        .register(handing_on)
        .register(silent);
    Harness::builder().handlers(code).start().await
}

fn refused(reason: &str) -> impl Fn(&AskError) -> bool + '_ {
    move |error| matches!(error, AskError::Refused { reason: said } if said.contains(reason))
}

async fn withdraw(client: &Client, cents: u64, id: &str) -> Result<u64, AskError> {
    client.ask("a", "withdraw", &cents).id(id).await
}

/// Starts an account with 100 cents. 30 are withdrawn by request `one`, and 20 by `two`, the last of its execution.
async fn start_and_withdraw(client: &Client) {
    client.start(account, 100).id("a").await.unwrap();
    assert_eq!(withdraw(client, 30, "one").await.unwrap(), 70);
    assert_eq!(withdraw(client, 20, "two").await.unwrap(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_asked_again_has_its_first_reply_also_in_a_later_execution() {
    let harness = harness().await;
    let client = harness.client();
    let handle = client.start(account, 100).id("a").await.unwrap();
    assert_eq!(withdraw(&client, 30, "one").await.unwrap(), 70);
    assert_eq!(handle.view::<u64>().await.unwrap(), Some(70));
    assert_eq!(withdraw(&client, 30, "one").await.unwrap(), 70, "at once");
    assert_eq!(withdraw(&client, 20, "two").await.unwrap(), 50);
    assert_eq!(withdraw(&client, 5, "three").await.unwrap(), 45);
    assert_eq!(withdraw(&client, 30, "one").await.unwrap(), 70, "later");
    harness.assert_deterministic("a").await;
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_may_be_refused_by_the_code_or_because_it_does_not_decode() {
    let harness = harness().await;
    let client = harness.client();
    start_and_withdraw(&client).await;
    let too_much = withdraw(&client, 300, "three").await;
    assert!(too_much.is_err_and(|e| refused("only 50 left")(&e)));
    let wrong: Result<u64, _> = client.ask("a", "withdraw", "much").await;
    assert!(wrong.is_err_and(|e| refused("does not decode")(&e)));
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn replies_and_the_view_outlive_the_instance_which_takes_no_more_requests() {
    let harness = harness().await;
    let client = harness.client();
    start_and_withdraw(&client).await;
    let handle = client.handle(account, "a");
    assert_eq!(handle.ask::<_, u64>("withdraw", &50_u64).await.unwrap(), 0);
    assert_eq!(handle.result().await.unwrap(), 2, "its second execution");
    assert_eq!(client.view::<u64>("a").await.unwrap(), Some(0));
    assert_eq!(withdraw(&client, 20, "two").await.unwrap(), 50);
    let late = withdraw(&client, 1, "late").await.unwrap_err();
    assert!(matches!(late, AskError::Ended), "{late}");
    let values = client.get_kv_all_values("a").await.unwrap();
    assert!(values.is_empty(), "replies are not the author's");
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn requests_are_taken_in_order_whatever_crashes() {
    for commit in 1..=4 {
        let mut harness = harness().await;
        harness.client().start(account, 10).id("a").await.unwrap();
        harness.crash_after_commit(commit);
        let asks: Vec<_> = (1..=4_u64)
            .map(|n| {
                let client = harness.client();
                tokio::spawn(async move {
                    tokio::time::sleep(SECOND * n as u32).await;
                    withdraw(&client, n, &n.to_string()).await.unwrap()
                })
            })
            .collect();
        harness.wait("a").await;
        let mut replies = Vec::new();
        for ask in asks {
            replies.push(ask.await.unwrap());
        }
        assert_eq!(replies, [9, 7, 4, 0]);
        harness.assert_deterministic("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_hears_that_no_reply_can_come() {
    let harness = harness().await;
    let client = harness.client();
    let stranger: Result<u64, _> = client.ask("nobody", "withdraw", &1_u64).await;
    let is_not_found =
        |e: AskError| matches!(e, AskError::Undelivered(Undelivered::NotFound { .. }));
    assert!(stranger.is_err_and(is_not_found));
    client.start(silent, ()).id("a").await.unwrap();
    let waiting = client
        .ask::<_, u64>("a", "withdraw", &1_u64)
        .id("1")
        .timeout(60 * SECOND);
    let late = waiting.await.unwrap_err();
    assert!(
        matches!(late, AskError::Client(ClientError::Timeout)),
        "{late}"
    );
    assert!(matches!(
        withdraw(&client, 1, "2").await,
        Err(AskError::Ended)
    ));
    assert!(matches!(
        withdraw(&client, 1, "1").await,
        Err(AskError::Ended)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_request_can_be_answered_by_the_next_execution() {
    let mut harness = harness().await;
    let client = harness.client();
    client.start(handing_on, &None).id("h").await.unwrap();
    let reply: String = client.ask("h", "ask", &7_u64).id("q").await.unwrap();
    assert_eq!(reply, "7 in execution 2");
    harness.wait("h").await;
    harness.assert_deterministic("h").await;
    // Clearing everything clears what is the author's.
    let again: String = client.ask("h", "ask", &7_u64).id("q").await.unwrap();
    assert_eq!(again, reply);
}

#[tokio::test(start_paused = true)]
async fn the_latest_replies_are_kept() {
    let harness = harness().await;
    let client = harness.client();
    client.start(account, 1000).id("a").await.unwrap();
    for n in 0..=REPLIES_MAX as u64 {
        // Young replies are kept beside the latest ones: their clients may not have them yet.
        tokio::time::sleep(2 * SECOND).await;
        withdraw(&client, 1, &format!("ask {n}")).await.unwrap();
    }
    let last = format!("ask {REPLIES_MAX}");
    assert_eq!(withdraw(&client, 1, &last).await.unwrap(), 1000 - 33);
    let forgotten = client
        .ask::<_, u64>("a", "withdraw", &1_u64)
        .id("ask 0")
        .timeout(SECOND);
    let late = forgotten.await.unwrap_err();
    assert!(
        matches!(late, AskError::Client(ClientError::Timeout)),
        "not taken twice: {late}"
    );
}

#[tokio::test(start_paused = true)]
async fn every_request_of_a_burst_has_its_reply() {
    let harness = harness().await;
    let client = harness.client();
    // All of them come before the first turn.
    let handle = client.start(busy, 100).id("b").delay(SECOND).await.unwrap();
    let asks = (0..100).map(|n| {
        let ask = client.ask::<_, u64>("b", "up", &()).id(n.to_string());
        tokio::spawn(ask.into_future())
    });
    let mut replies = Vec::new();
    for ask in asks.collect::<Vec<_>>() {
        replies.push(ask.await.unwrap().unwrap());
    }
    replies.sort_unstable();
    assert_eq!(replies, (1..=100).collect::<Vec<_>>());
    // An id belongs to the name that it is used with; a reply that is too large is refused, and fails nobody.
    let large = client.ask::<_, String>("b", "down", &()).id("0").await;
    assert!(large.is_err_and(|e| refused("larger than")(&e)));
    let down: String = client.ask("b", "down", &()).id("1").await.unwrap();
    assert_eq!(down, "down");
    handle.result().await.unwrap();
    harness.assert_deterministic("b").await;
}

#[tokio::test(start_paused = true)]
async fn a_request_to_a_deleted_instance_is_an_error_or_is_answered_by_the_next_life() {
    let harness = harness().await;
    let client = harness.client();
    client.start(silent, ()).id("a").await.unwrap();
    let ask = |id: &str| {
        tokio::spawn(
            client
                .ask::<_, u64>("a", "withdraw", &1_u64)
                .id(id)
                .into_future(),
        )
    };
    let first = ask("1");
    tokio::time::sleep(SECOND).await;
    client.delete_instance("a", true).await.unwrap();
    let gone = first.await.unwrap().unwrap_err();
    assert!(
        matches!(gone, AskError::Undelivered(Undelivered::NotFound { .. })),
        "{gone}"
    );
    client.start(silent, ()).id("a").await.unwrap();
    let second = ask("2");
    tokio::time::sleep(SECOND).await;
    client.delete_instance("a", true).await.unwrap();
    client.start(account, 10).id("a").await.unwrap();
    match second.await.unwrap() {
        Ok(left) => assert_eq!(left, 9),
        // The client looked between the two lives.
        Err(error) => assert!(
            matches!(error, AskError::Undelivered(Undelivered::NotFound { .. })),
            "{error}"
        ),
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_empty_or_long_is_refused() {
    let harness = harness().await;
    let client = harness.client();
    for id in ["", &"x".repeat(513)] {
        let refused = client.ask::<_, u64>("a", "withdraw", &1_u64).id(id).await;
        assert!(matches!(
            refused,
            Err(AskError::Client(ClientError::InvalidInput { .. }))
        ));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_forgotten_by_its_age_once_there_are_many() {
    let harness = harness().await;
    let client = harness.client();
    let ask = |id: String| {
        let ask = client.ask::<_, u64>("b", "up", &()).id(id).timeout(SECOND);
        ask.into_future()
    };
    let many = REPLIES_MAX as u64 + 8;
    let kept = async || {
        let mut kept = 0;
        for n in 0..many {
            kept += usize::from(ask(n.to_string()).await.is_ok());
        }
        kept
    };
    client.start(busy, many + 1).id("b").await.unwrap();
    for n in 0..many {
        ask(n.to_string()).await.unwrap();
    }
    assert_eq!(kept().await, many as usize, "all of them are young");
    tokio::time::sleep(61 * SECOND).await;
    assert_eq!(kept().await, many as usize, "none comes, none goes");
    ask("last".to_owned()).await.unwrap();
    assert_eq!(kept().await, REPLIES_MAX - 1, "and the last one");
    harness.stop().await;
}
