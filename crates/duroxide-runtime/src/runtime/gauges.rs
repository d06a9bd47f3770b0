//! Gauges read from the store from time to time. Where that takes long, no more than a thousandth of the time is spent
//! on it: counting millions of instances is work.

use std::sync::Arc;
use std::time::Duration;

use duroxide_core::clock::Clock;
use duroxide_core::provider::ReadyWork;
use tokio::time::Instant;

use crate::engine::Engine;

/// How many handlers with ready work are looked at.
const READY_HANDLERS_MAX: u32 = 1_000;
/// Work that is ready for longer than this is reported.
const LONG_WAIT_MS: u64 = 30_000;

/// How many times longer than a reading the pause after it is at least.
const PAUSE_FACTOR: u32 = 1_000;

/// Reads the gauges at start and after every interval, until the runtime stops.
pub(crate) async fn poll(engine: Arc<Engine>) {
    let mut before = Duration::ZERO;
    loop {
        let began = Instant::now();
        tokio::select! {
            biased;
            () = engine.stop.cancelled() => return,
            () = read(&engine) => {}
        }
        let interval = engine.options.observability.gauge_poll_interval;
        let reading = began.elapsed();
        // One slow reading may be a busy machine's fault; a store that takes long does so again.
        let usual = reading.min(std::mem::replace(&mut before, reading));
        if !engine.pause(pause_after(usual, interval)).await {
            return;
        }
    }
}

async fn read(engine: &Engine) {
    let Some(admin) = engine.store.as_management_capability() else {
        return;
    };
    if let Ok(depths) = admin.get_queue_depths().await {
        engine
            .metrics
            .update_queue_depths(depths.orchestrator_queue as u64, depths.worker_queue as u64);
    }
    if let Ok(running) = admin.count_running_instances().await {
        let running = i64::try_from(running).unwrap_or(i64::MAX);
        engine.metrics.set_active_orchestrations(running);
    }
    if let Ok(readings) = admin.readings().await {
        engine.metrics.set_store_readings(&readings);
    }
    if let Ok(letters) = admin.count_dead_letters().await {
        engine.metrics.set_dead_letters(letters);
    }
    if let Ok(Some(ready)) = admin.list_ready_work(READY_HANDLERS_MAX).await {
        report_waiting(engine, &ready);
    }
}

/// Says once for each handler that ready work waits for it, and how much work waits for code altogether.
fn report_waiting(engine: &Engine, ready: &[ReadyWork]) {
    let now_ms = engine.clock.now_ms();
    let mut waiting = 0;
    for work in ready {
        let waited_ms = now_ms.saturating_sub(work.ready_since_ms);
        if waited_ms < LONG_WAIT_MS {
            continue;
        }
        let can_run = engine.code_here.can_run(work);
        let handler = match &work.version {
            Some(version) => format!("{}@{version}", work.name),
            None => work.name.clone(),
        };
        if !can_run {
            waiting += work.count;
        }
        if engine
            .code_wanted
            .is_first_miss(&format!("{can_run} {handler}"))
        {
            let why = if can_run {
                "it has the handler; all its slots are busy, or another engine version began the work"
            } else {
                "it does not have the handler; a node that has it must be started"
            };
            tracing::warn!(
                target: "duroxide::runtime",
                handler = %handler, kind = ?work.kind, count = work.count, waited_ms,
                "ready work has not been claimed for long, and this node does not claim it: {why}"
            );
        }
    }
    engine.metrics.set_waiting_for_code(waiting);
}

fn pause_after(reading: Duration, interval: Duration) -> Duration {
    // A short reading costs the store little, whatever interval was chosen.
    if reading < Duration::from_millis(50) {
        return interval;
    }
    interval.max(reading.saturating_mul(PAUSE_FACTOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_takes_long_to_count_is_asked_less_often() {
        let minute = Duration::from_secs(60);
        assert_eq!(pause_after(Duration::from_millis(5), minute), minute);
        assert_eq!(pause_after(Duration::from_millis(55), minute), minute);
        let pause = pause_after(Duration::from_secs(1), minute);
        assert_eq!(pause, Duration::from_secs(1_000));
    }
}
