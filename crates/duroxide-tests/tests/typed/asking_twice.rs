//! A start whose answer was lost is asked for again: it is stored once, and not refused because of itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::prelude::*;
use duroxide::providers::memory::{MemoryProvider, TokioClock};
use duroxide::providers::{Provider, ProviderError, Submission, Submitted};
use duroxide::runtime::observability::{Layer, Layered};
use duroxide::{App, IfExists};

const SECOND: Duration = Duration::from_secs(1);

/// Two executions; the second takes the messages that are there and tells their sum with its number.
#[duroxide::orchestration]
async fn twofold(ctx: OrchestrationContext, round: u64) -> Result<(u64, u64), String> {
    if round == 1 {
        return ctx.continue_with(twofold, 2).await;
    }
    let mut sum = 0;
    while let Ok(number) = ctx.timeout(SECOND, ctx.receive::<u64>("numbers")).await {
        sum += number.map_err(|error| error.to_string())?;
    }
    Ok((ctx.execution_id(), sum))
}

/// A store that does what it is asked, and loses this many answers.
struct Lossy(AtomicU32);

impl Lossy {
    fn of(answers: u32) -> Self {
        Self(AtomicU32::new(answers))
    }

    fn lose(&self, answers: u32) {
        self.0.store(answers, Ordering::SeqCst);
    }
}

impl Layer for Lossy {
    async fn submit(
        &self,
        next: &dyn Provider,
        submission: Submission,
    ) -> Result<Submitted, ProviderError> {
        let answer = next.submit(submission).await?;
        let fewer = |left: u32| left.checked_sub(1);
        let lost = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
        match lost {
            Ok(_) => Err(ProviderError::retryable("submit", "the answer was lost")),
            Err(_) => Ok(answer),
        }
    }
}

async fn app(lossy: Lossy) -> (App, Arc<Layered<Lossy>>) {
    let store = Arc::new(MemoryProvider::with_clock(TokioClock::starting_at(1)));
    let store = Arc::new(Layered::around(store, lossy));
    let app = Duroxide::on(store.clone())
        .register(twofold)
        .start()
        .await
        .unwrap();
    (app, store)
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_answers_are_lost_is_stored_once_with_its_messages() {
    for choice in [IfExists::Fail, IfExists::Use, IfExists::ReplaceFinished] {
        let (app, store) = app(Lossy::of(2)).await;
        let start = app.client().start(twofold, 1).id("i").if_exists(choice);
        let handle = start.message("numbers", &7_u64).await.unwrap();
        assert_eq!(handle.result().await.unwrap(), (2, 7), "{choice:?}");
        store.layer().lose(1);
        let restarted = app.client().restart_as("i", "again").await;
        restarted.unwrap();
        store.layer().lose(2);
        let started = app.client();
        let started = started.start_orchestration_if_absent("new", "twofold", "1");
        assert!(started.await.unwrap(), "it was this call that started it");
        let other = app.client();
        let other = other.start_orchestration_if_absent("new", "twofold", "1");
        assert!(!other.await.unwrap(), "another call did not");
        app.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_application_that_repeats_its_request_gets_the_first_answer() {
    let (app, store) = app(Lossy::of(0)).await;
    let client = app.client();
    let start = |request: &str, choice: IfExists| {
        let start = client.start(twofold, 1).id("i").if_exists(choice);
        start.request_id(request).message("numbers", &7_u64)
    };
    // More answers are lost than the client asks for.
    store.layer().lose(3);
    let lost = start("click-1", IfExists::Fail).await.unwrap_err();
    assert!(lost.is_retryable(), "{lost}");
    let handle = start("click-1", IfExists::Fail).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), (2, 7));
    for choice in [IfExists::Fail, IfExists::Use, IfExists::ReplaceFinished] {
        let handle = start("click-1", choice).await.unwrap();
        assert_eq!(handle.result().await.unwrap(), (2, 7), "{choice:?}");
    }
    let other = start("click-2", IfExists::Fail).await.unwrap_err();
    assert!(other.to_string().contains("has ended"), "{other}");
    let handle = start("click-2", IfExists::ReplaceFinished).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), (2, 7));
    let unfit = start("two words", IfExists::Fail).await.unwrap_err();
    assert!(unfit.to_string().contains("the id of a request"), "{unfit}");
    app.shutdown().await;
}
