//! The service, asked as a browser asks it.
#![allow(clippy::unwrap_used, reason = "tests")]

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use duroxide::Duroxide;
use duroxide_example_web::{handlers, router};
use tower::ServiceExt;

async fn ask(service: &Router, request: Request<Body>) -> (StatusCode, String) {
    let answer = service.clone().oneshot(request).await.unwrap();
    let status = answer.status();
    let body = to_bytes(answer.into_body(), 1_000_000).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

fn order() -> Request<Body> {
    let json = "application/json";
    let body = Body::from(r#"{"id":"o-7","item":"tea"}"#);
    Request::post("/orders")
        .header("content-type", json)
        .body(body)
        .unwrap()
}

/// A change of what is stored, or of the code that replays, is declared in the file and seen by whoever reviews it.
/// `MANIFEST=write cargo test -p duroxide-example-web` writes it anew.
#[test]
fn what_the_service_declares_is_what_the_file_says() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/duroxide.manifest");
    duroxide::testing::assert_manifest(file, &handlers());
}

#[tokio::test]
async fn an_order_is_started_by_a_request_and_followed_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("orders.db").display());
    let app = Duroxide::open(&url)
        .handlers(handlers())
        .start()
        .await
        .unwrap();
    let service = router(app.client());
    assert_eq!(
        ask(&service, get("/orders/o-7")).await.0,
        StatusCode::NOT_FOUND
    );
    let accepted = (StatusCode::ACCEPTED, "o-7".to_owned());
    assert_eq!(ask(&service, order()).await, accepted);
    assert_eq!(
        ask(&service, order()).await,
        accepted,
        "sent twice, done once"
    );
    let (_, events) = ask(&service, get("/orders/o-7/events")).await;
    assert!(
        events.ends_with("event: end\ndata: tea is shipped\n\n"),
        "{events}"
    );
    let last = r#"data: {"step":"shipped","done":2}"#;
    assert!(events.contains(last), "{events}");
    app.shutdown().await;

    // Another process finds what the first one did.
    let app = Duroxide::open(&url)
        .handlers(handlers())
        .start()
        .await
        .unwrap();
    let service = router(app.client());
    let shown = ask(&service, get("/orders/o-7")).await;
    let last = r#"{"step":"shipped","done":2}"#.to_owned();
    assert_eq!(shown, (StatusCode::OK, last));
    app.shutdown().await;
}
