//! Gauges read from the store from time to time.

use std::sync::Arc;

use crate::engine::Engine;

/// Reads the gauges at start and after every interval, until the runtime stops.
pub(crate) async fn poll(engine: Arc<Engine>) {
    loop {
        if let Some(admin) = engine.store.as_management_capability() {
            if let Ok(depths) = admin.get_queue_depths().await {
                engine.metrics.update_queue_depths(
                    depths.orchestrator_queue as u64,
                    depths.worker_queue as u64,
                );
            }
            if let Ok(totals) = admin.get_system_metrics().await {
                let running = i64::try_from(totals.running_instances).unwrap_or(i64::MAX);
                engine.metrics.set_active_orchestrations(running);
            }
        }
        if !engine
            .pause(engine.options.observability.gauge_poll_interval)
            .await
        {
            return;
        }
    }
}
