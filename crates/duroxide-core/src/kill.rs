//! Points at which a test may kill this process. Without the feature `kill-points` they are nothing.

/// Kills the process here with SIGKILL, if the environment asks for it: `DUROXIDE_KILL_AT=<point>:<n>` kills it the
/// n-th time it passes the point.
#[cfg(feature = "kill-points")]
pub fn point(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("DUROXIDE_KILL_AT").ok()?;
        let (point, nth) = text.split_once(':')?;
        Some((point.to_owned(), nth.parse().ok()?))
    });
    let Some((_, nth)) = wanted.as_ref().filter(|(point, _)| point == name) else {
        return;
    };
    if PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *nth {
        let me = std::process::id().to_string();
        // No destructor, no flush, no answer: the end must come from outside.
        let _dead = std::process::Command::new("kill")
            .args(["-9", &me])
            .status();
        loop {
            std::thread::park();
        }
    }
}

/// Does nothing: this build has no kill points.
#[cfg(not(feature = "kill-points"))]
pub fn point(_name: &str) {}
