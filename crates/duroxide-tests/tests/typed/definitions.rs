//! What the attributes make: values with names and types, which can still be called.

use std::future::IntoFuture as _;

use duroxide::prelude::*;
use duroxide::testing::{Harness, activity_context};
use duroxide::{
    ActivityBody, Retryable, ToActivity, ToOrchestration, activity_fn, orchestration_fn,
};
use serde::{Deserialize, Serialize};

struct App {
    currency: &'static str,
}

/// Adds two numbers.
#[duroxide::activity]
async fn add(one: u64, other: u64) -> Result<u64, String> {
    Ok(one + other)
}

#[duroxide::activity(name = "shop.price")]
async fn price(ctx: ActivityContext, app: State<App>, cents: u64) -> Result<String, String> {
    Ok(format!(
        "{cents} {} ({})",
        app.currency,
        ctx.activity_name()
    ))
}

#[duroxide::activity]
async fn nothing() -> Result<(), String> {
    Ok(())
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum PickyError {
    Final,
    Passing,
}

impl Retryable for PickyError {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Passing)
    }
}

#[duroxide::activity]
async fn picky() -> Result<(), PickyError> {
    Err(PickyError::Final)
}

type Own<T> = Result<T, String>;

#[duroxide::orchestration(name = "sums", version = "2.3.0")]
async fn sum(ctx: OrchestrationContext, a: u64, b: u64) -> Own<String> {
    ctx.call(nothing, ()).await?;
    let cents = ctx.call(add, (&a, &b)).await?;
    Ok(ctx.call(price, cents).await?)
}

struct Shop {
    prefix: String,
}

#[duroxide::handlers]
impl Shop {
    /// Greets.
    #[activity]
    async fn greet(&self, ctx: ActivityContext, name: String) -> Result<String, String> {
        Ok(self.greeting(&name, ctx.attempt()))
    }

    #[orchestration(version = "1.2.0")]
    async fn welcome(ctx: OrchestrationContext, name: String) -> Result<String, String> {
        Ok(ctx.call(Self::greet, &name).await?)
    }

    fn greeting(&self, name: &str, attempt: u32) -> String {
        format!("{} {name}, attempt {attempt}", self.prefix)
    }
}

fn code() -> Handlers {
    Handlers::new()
        .state(App { currency: "EUR" })
        .state(Shop {
            prefix: "Hello".to_owned(),
        })
        .register(sum)
        .register(add)
        .register(price)
        .register(nothing)
        .register(Shop::greet)
        .register(Shop::welcome)
}

#[test]
fn a_definition_carries_its_name_its_version_and_its_needs() {
    fn name<Via>(activity: impl ToActivity<Via>) -> &'static str {
        activity.to_activity().name()
    }
    fn version<Via>(orchestration: impl ToOrchestration<Via>) -> Option<&'static str> {
        orchestration.to_orchestration().version()
    }
    fn needs<Via, T: ToActivity<Via>>(_activity: T) -> usize
    where
        T::Activity: ActivityBody,
    {
        T::Activity::needs().len()
    }
    assert_eq!((name(add), name(price)), ("add", "shop.price"));
    // The definition is a type named like the function.
    assert_eq!((sum {}.name(), version(sum)), ("sums", Some("2.3.0")));
    assert_eq!(name(Shop::greet), "Shop::greet");
    assert_eq!(version(Shop::welcome), Some("1.2.0"));
    assert_eq!((needs(add), needs(price), needs(Shop::greet)), (0, 1, 1));
}

#[tokio::test]
async fn the_body_is_called_like_the_function_it_was() {
    assert_eq!(add(2, 3).await, Ok(5));
    let ctx = activity_context(price);
    let app = State::new(App { currency: "USD" });
    assert_eq!(price(ctx, app, 7).await.unwrap(), "7 USD (shop.price)");
    let shop = Shop {
        prefix: "Hi".to_owned(),
    };
    let greeting = shop
        .greet(activity_context(Shop::greet), "Ada".to_owned())
        .await;
    assert_eq!(greeting.unwrap(), "Hi Ada, attempt 1");
}

#[tokio::test(start_paused = true)]
async fn functions_with_none_one_and_several_inputs_run() {
    let mut harness = Harness::builder().handlers(code()).start().await;
    let total = harness.execute(sum, (2, 3)).await;
    assert_eq!(total.unwrap(), "5 EUR (shop.price)");
    assert_eq!(harness.inputs_of(add), [(2, 3)]);
}

#[tokio::test(start_paused = true)]
async fn methods_get_the_state_of_their_type() {
    let mut harness = Harness::builder().handlers(code()).start().await;
    let greeting = harness.execute(Shop::welcome, "Ada").await.unwrap();
    assert_eq!(greeting, "Hello Ada, attempt 1");
}

#[test]
fn an_error_that_knows_is_asked_and_any_other_may_be_retried() {
    fn retryable<Via, A: Activity, T>(_activity: T, error: &A::Error) -> bool
    where
        T: ToActivity<Via, Activity = A>,
    {
        A::is_retryable(error)
    }
    assert!(!retryable(picky, &PickyError::Final));
    assert!(retryable(picky, &PickyError::Passing));
    assert!(retryable(add, &"anything".to_owned()));
}

#[test]
fn missing_state_and_doubled_names_are_all_told_at_once() {
    let mistakes = Handlers::new()
        .register(price)
        .register(add)
        .register(add)
        .register(sum)
        .register(sum)
        .build()
        .unwrap_err();
    assert!(mistakes.contains("asks for State<"), "{mistakes}");
    assert!(mistakes.contains("App>, which was not given"), "{mistakes}");
    assert!(
        mistakes.contains("duplicate activity registration: add@1.0.0"),
        "{mistakes}"
    );
    assert!(
        mistakes.contains("duplicate orchestration registration: sums@2.3.0"),
        "{mistakes}"
    );
}

#[tokio::test(start_paused = true)]
async fn everything_can_be_written_without_macros() {
    const DOUBLE: ActivityRef<u64, u64> = ActivityRef::new("double");
    const TWICE: OrchestrationRef<u64, u64> = OrchestrationRef::new("twice").with_version("1.0.1");
    let code = Handlers::new()
        .register(activity_fn(
            DOUBLE,
            |_ctx: ActivityContext, n: u64| async move { Ok(2 * n) },
        ))
        .register(orchestration_fn(
            TWICE,
            |ctx: OrchestrationContext, n: u64| async move {
                let once = ctx.call(DOUBLE, n).await?;
                Ok(ctx.call(DOUBLE, once).await?)
            },
        ));
    let mut harness = Harness::builder().handlers(code).start().await;
    assert_eq!(harness.execute(TWICE, 3).await.unwrap(), 12);
}

#[tokio::test]
async fn an_app_opens_its_store_runs_and_answers() {
    let app = Duroxide::open("memory:")
        .handlers(code())
        .start()
        .await
        .unwrap();
    let client = app.client();
    let handle = client.start(sum, (4, 5)).id("first").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), "9 EUR (shop.price)");
    // Awaiting a handle waits for the result, and any handle of the id gives the same.
    assert_eq!(
        client.handle(sum, "first").await.unwrap(),
        "9 EUR (shop.price)"
    );
    app.shutdown().await;
}

#[tokio::test]
async fn a_store_that_is_not_known_and_code_that_is_not_complete_do_not_start() {
    let unknown = Duroxide::open("carrier-pigeon:coop")
        .start()
        .await
        .unwrap_err();
    assert!(unknown.to_string().contains("names no store"), "{unknown}");
    let incomplete = Duroxide::open("memory:")
        .register(price)
        .start()
        .await
        .unwrap_err();
    assert!(
        incomplete.to_string().contains("asks for State<"),
        "{incomplete}"
    );
}

// What is not compiled names types that do not exist: a condition must hold for everything that is generated.
#[duroxide::activity]
#[cfg(any())]
async fn absent(input: Missing) -> Result<Missing, String> {
    Ok(input)
}

struct Conditional;

#[duroxide::handlers]
impl Conditional {
    #[activity]
    #[cfg(any())]
    async fn absent(&self, input: Missing) -> Result<Missing, String> {
        Ok(input)
    }

    #[orchestration]
    #[cfg(any())]
    async fn never(ctx: OrchestrationContext, input: Missing) -> Result<Missing, String> {
        let _ = std::time::SystemTime::now();
        Ok(input)
    }

    #[activity]
    #[cfg(test)]
    #[allow(clippy::too_many_arguments, reason = "there are eight")]
    async fn wide(&self, input: (u8, u8, u8, u8, u8, u8, u8, u8)) -> Result<u8, String> {
        Ok(input.0)
    }
}

#[tokio::test]
async fn a_condition_at_a_handler_holds_for_its_definition() {
    fn name<Via>(activity: impl ToActivity<Via>) -> &'static str {
        activity.to_activity().name()
    }
    assert_eq!(name(Conditional::wide), "Conditional::wide");
    let conditional = Conditional;
    let given = conditional.wide((1, 2, 3, 4, 5, 6, 7, 8)).await;
    assert_eq!(given, Ok(1));
}

trait Mailer: Send + Sync {
    fn mail(&self, text: &str) -> String;
}

struct Pigeons;

impl Mailer for Pigeons {
    fn mail(&self, text: &str) -> String {
        format!("pigeons carry {text}")
    }
}

#[duroxide::activity]
async fn mail(mailer: State<dyn Mailer>, text: String) -> Result<String, String> {
    Ok(mailer.mail(&text))
}

#[duroxide::orchestration]
async fn mailing(ctx: OrchestrationContext, text: String) -> Result<String, String> {
    Ok(ctx.call(mail, &text).await?)
}

#[tokio::test]
async fn a_state_may_be_known_by_its_trait_alone() {
    let mailer: std::sync::Arc<dyn Mailer> = std::sync::Arc::new(Pigeons);
    let app = Duroxide::open("memory:")
        .shared_state(mailer)
        .register(mail)
        .register(mailing)
        .start()
        .await
        .unwrap();
    let sent = app.client().start(mailing, "a letter").await.unwrap();
    assert_eq!(sent.result().await.unwrap(), "pigeons carry a letter");
    app.shutdown().await;
}

#[duroxide::orchestration]
async fn waiting(ctx: OrchestrationContext, answer: u64) -> Result<u64, String> {
    match answer {
        0 => {
            ctx.schedule_wait("go").await;
            Ok(0)
        }
        other => Ok(other),
    }
}

#[tokio::test]
async fn a_start_says_what_becomes_of_an_instance_that_has_the_id() {
    use duroxide::IfExists;
    let app = Duroxide::open("sqlite::memory:")
        .register(waiting)
        .start()
        .await
        .unwrap();
    let client = app.client();
    let start = |answer: u64, choice: IfExists| {
        client
            .start(waiting, answer)
            .id("one")
            .if_exists(choice)
            .into_future()
    };
    let first = start(1, IfExists::Fail).await.unwrap();
    assert_eq!(first.result().await.unwrap(), 1);
    assert!(start(2, IfExists::Fail).await.is_err());
    let used = start(2, IfExists::Use).await.unwrap();
    assert_eq!(
        used.result().await.unwrap(),
        1,
        "it is the one that was there"
    );
    let replaced = start(3, IfExists::ReplaceFinished).await.unwrap();
    assert_eq!(replaced.result().await.unwrap(), 3);
    start(0, IfExists::ReplaceFinished).await.unwrap();
    let running = start(4, IfExists::ReplaceFinished).await;
    assert!(running.is_err(), "one that has not ended is not replaced");
    client.raise_event("one", "go", "").await.unwrap();
    app.shutdown().await;
}
