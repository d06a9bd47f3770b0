//! An axum service around an embedded engine: `POST /orders` starts an order, `GET /orders/{id}` tells where it stands,
//! `GET /orders/{id}/events` follows it as server-sent events. The service may be killed and started again at any
//! moment; a browser that follows an order connects again and goes on.

use std::time::Duration;

use axum::extract::{Path, State as Shared};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::{get, post};
use axum::{Json, Router};
use duroxide::prelude::*;
use futures_util::stream::{self, Stream, StreamExt};
use serde::{Deserialize, Serialize};

/// An order as the browser sends it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// Chosen by the browser: a request that is sent twice starts one order.
    pub id: String,
    /// What is ordered.
    pub item: String,
}

/// Where an order stands, as it publishes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The step that is under way.
    pub step: String,
    /// How many steps are done.
    pub done: usize,
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
    for (done, step) in ["paid", "packed", "shipped"].into_iter().enumerate() {
        let step = step.to_owned();
        ctx.publish(&Progress {
            step: step.clone(),
            done,
        });
        last = ctx
            .call(work, (&step, &order.item))
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

/// What the browser is told of a call that failed: whether it may try again.
fn failure(error: &ClientError) -> Failure {
    let status = if error.is_retryable() {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::BAD_REQUEST
    };
    (status, error.to_string())
}

/// `Ok` means that the store has the order: it will be done, whatever happens to this process.
async fn start(
    Shared(client): Shared<Client>,
    Json(order): Json<Order>,
) -> Result<(StatusCode, String), Failure> {
    let started = client.start(fulfil, &order).id(&order.id).await;
    let order = started.map_err(|error| failure(&error))?;
    Ok((StatusCode::ACCEPTED, order.id().to_owned()))
}

/// The last progress, whether the order is done or not.
async fn show(
    Shared(client): Shared<Client>,
    Path(id): Path<String>,
) -> Result<Json<Progress>, Failure> {
    let progress = client.view::<Progress>(&id).await;
    let progress = progress.map_err(|error| failure(&error))?;
    let unknown = || (StatusCode::NOT_FOUND, format!("nothing of order {id} yet"));
    progress.map(Json).ok_or_else(unknown)
}

/// One event for each change, and one for the end. The store wakes the stream; nobody polls.
async fn follow(
    Shared(client): Shared<Client>,
    Path(id): Path<String>,
) -> Sse<impl Stream<Item = Result<Event, axum::Error>>> {
    let order = client.handle(fulfil, id);
    let changes = order.changes::<Progress>().map(|progress| {
        let progress = progress.map_err(axum::Error::new)?;
        Event::default().event("progress").json_data(progress)
    });
    let end = stream::once(async move {
        // It has ended, or somebody deleted it.
        let told = match order.result_within(Duration::from_secs(5)).await {
            Ok(shipped) => shipped,
            Err(error) => error.to_string(),
        };
        Ok(Event::default().event("end").data(told))
    });
    Sse::new(changes.chain(end)).keep_alive(KeepAlive::default())
}
