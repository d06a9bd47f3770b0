//! An axum service around an embedded engine: `POST /orders` starts an order, `GET /orders/{id}` tells where it stands,
//! `GET /orders/{id}/events` follows it as server-sent events. The service may be killed and started again at any moment; a
//! browser that follows an order connects again and goes on.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, State as Shared};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::{get, post};
use axum::{Json, Router};
use duroxide::OrchestrationStatus;
use duroxide::prelude::*;
use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};

/// An order as the browser sends it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// Chosen by the browser: a request that is sent twice starts one order.
    pub id: String,
    /// What is ordered.
    pub item: String,
}

/// Does the work of one step.
#[duroxide::activity]
pub async fn work(step: String, item: String) -> Result<String, String> {
    Ok(format!("{item} is {step}"))
}

/// Takes an order through its steps, and shows where it stands.
#[duroxide::orchestration]
pub async fn fulfil(ctx: OrchestrationContext, order: Order) -> Result<String, String> {
    let mut last = String::new();
    for step in ["paid", "packed", "shipped"] {
        ctx.set_custom_status(step);
        last = ctx
            .call(work, (&step.to_owned(), &order.item))
            .retry(RetryPolicy::exponential(5))
            .await?;
        ctx.sleep(Duration::from_millis(50)).await;
    }
    Ok(last)
}

/// The code of the service.
pub fn handlers() -> Handlers {
    Handlers::new().register(work).register(fulfil)
}

/// The service, on any store that the client works on.
pub fn router(client: Client) -> Router {
    Router::new()
        .route("/orders", post(start))
        .route("/orders/{id}", get(show))
        .route("/orders/{id}/events", get(follow))
        .with_state(client)
}

type Failure = (StatusCode, String);

fn failure(error: impl std::fmt::Display) -> Failure {
    (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

/// `Ok` means that the store has the order: it will be done, whatever happens to this process.
async fn start(
    Shared(client): Shared<Client>,
    Json(order): Json<Order>,
) -> Result<(StatusCode, String), Failure> {
    let started = client.start(fulfil, &order).id(&order.id).await;
    let order = started.map_err(failure)?;
    Ok((StatusCode::ACCEPTED, order.id().to_owned()))
}

async fn show(Shared(client): Shared<Client>, Path(id): Path<String>) -> Result<String, Failure> {
    match client
        .get_orchestration_status(&id)
        .await
        .map_err(failure)?
    {
        OrchestrationStatus::NotFound => Err((StatusCode::NOT_FOUND, format!("no order {id}"))),
        status => Ok(told(&status)),
    }
}

/// One event for each change, until the end. The store wakes the stream; nobody polls.
async fn follow(
    Shared(client): Shared<Client>,
    Path(id): Path<String>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let changes = stream::unfold(Some(0), move |seen| {
        let (client, id) = (client.clone(), id.clone());
        async move {
            let (text, next) = next_change(&client, &id, seen?).await;
            Some((Ok(Event::default().data(text)), next))
        }
    });
    Sse::new(changes).keep_alive(KeepAlive::default())
}

/// What changed after a version, and the version that was seen; `None` when there is nothing more to come.
async fn next_change(client: &Client, id: &str, seen: u64) -> (String, Option<u64>) {
    let hour = Duration::from_secs(3600);
    let pause = Duration::from_millis(100);
    match client.wait_for_status_change(id, seen, pause, hour).await {
        Ok(status) => (told(&status), version(&status)),
        Err(error) => (error.to_string(), None),
    }
}

/// The status in words.
fn told(status: &OrchestrationStatus) -> String {
    match status {
        OrchestrationStatus::Completed { output, .. } => output.clone(),
        OrchestrationStatus::Failed { details, .. } => details.display_message(),
        OrchestrationStatus::Running { custom_status, .. } => {
            custom_status.clone().unwrap_or_default()
        }
        OrchestrationStatus::NotFound => "waiting".to_owned(),
    }
}

/// The version to wait for changes after; `None` once it has ended.
fn version(status: &OrchestrationStatus) -> Option<u64> {
    match status {
        OrchestrationStatus::Running {
            custom_status_version,
            ..
        } => Some(*custom_status_version),
        OrchestrationStatus::NotFound => Some(0),
        OrchestrationStatus::Completed { .. } | OrchestrationStatus::Failed { .. } => None,
    }
}
