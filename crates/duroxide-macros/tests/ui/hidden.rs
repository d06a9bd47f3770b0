use duroxide::prelude::*;

mod pool {
    pub struct Pool;
    impl Pool {
        pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
            work()
        }
    }
}

mod own {
    pub mod fs {
        pub fn read() -> u32 {
            1
        }
    }
}

#[duroxide::orchestration]
async fn in_macros(ctx: OrchestrationContext) -> Result<(), String> {
    println!("{:?}", std::time::SystemTime::now());
    let _list = vec![std::env::var("HOME")];
    let _both = duroxide::join!(
        ctx.sleep(std::time::Duration::ZERO),
        ctx.run("fine", || async { Ok::<_, String>(std::env::var("HOME").is_ok()) })
    );
    duroxide::select! {
        () = ctx.sleep(std::time::Duration::ZERO) => { let _ = std::fs::read("x"); },
        _ = ctx.run("fine", || async { Ok::<_, String>(std::env::var("HOME").is_ok()) }) => {},
    }
    Ok(())
}

#[duroxide::orchestration]
async fn as_values(ctx: OrchestrationContext) -> Result<(), String> {
    let _ = ctx;
    let _at = None.unwrap_or_else(std::time::SystemTime::now);
    let _text = Some("x").map(std::fs::read_to_string);
    pool::Pool.run(|| std::env::var("HOME").is_ok());
    Ok(())
}

#[duroxide::orchestration]
async fn in_items(ctx: OrchestrationContext) -> Result<u32, String> {
    #[duroxide::activity]
    async fn reads() -> Result<String, String> {
        std::fs::read_to_string("x").map_err(|e| e.to_string())
    }
    ctx.call(reads, ()).await?;
    Ok(crate::own::fs::read() + self::own::fs::read())
}

#[duroxide::orchestration(unchecked("fs::read"))]
async fn answered_for(ctx: OrchestrationContext) -> Result<(), String> {
    use own::fs;
    let _ = (ctx, fs::read());
    let _home = std::env::var("HOME");
    Ok(())
}

fn main() {}
