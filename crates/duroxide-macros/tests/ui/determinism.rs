use std::time::{Duration, SystemTime};

use duroxide::prelude::*;

#[duroxide::orchestration]
async fn diverges(ctx: OrchestrationContext) -> Result<(), String> {
    let _began = SystemTime::now();
    let _measured = std::time::Instant::now();
    std::thread::sleep(Duration::from_secs(1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    tokio::spawn(async {});
    let _number: u64 = rand::random();
    let _setting = std::env::var("HOME");
    let _text = std::fs::read_to_string("file");
    if ctx.is_replaying() {
        let _id = uuid::Uuid::new_v4();
    }
    tokio::select! {
        () = ctx.sleep(Duration::from_secs(1)) => {}
    }
    // Inside `ctx.run` all of it is fine.
    let _read = ctx.run("read", || async { Ok::<_, String>(std::env::var("HOME").is_ok()) }).await;
    Ok(())
}

/// As far as the lint is concerned, these are the crates.
mod rand {
    pub fn random() -> u64 {
        4
    }
}

mod uuid {
    pub struct Uuid;
    impl Uuid {
        pub fn new_v4() -> Self {
            Self
        }
    }
}

mod tokio {
    pub fn spawn(_task: impl Future<Output = ()>) {}

    macro_rules! select {
        ($value:pat = $work:expr => $then:expr) => {{
            let $value = $work.await;
            $then
        }};
    }
    pub(crate) use select;

    pub mod time {
        pub async fn sleep(_duration: std::time::Duration) {}
    }
}

fn main() {}
