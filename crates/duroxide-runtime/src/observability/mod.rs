//! What can be seen from outside: log lines, metrics, store timings.

pub(crate) mod code_spans;
mod counts;
mod ends;
mod instrumented;
mod labels;
mod layered;
mod logging;
mod metrics;
mod on_host;
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
mod owed;
mod prepare;
mod silent;
mod sink;
mod spans;

use std::sync::Arc;
use std::time::Duration;

pub use counts::MetricsSnapshot;
pub(crate) use ends::{ActivityEnd, ExecutionEnd};
pub use instrumented::{InstrumentedProvider, Measure};
pub use layered::{Layer, Layered};
pub(crate) use logging::check_logging;
pub use logging::init_logging;
pub use metrics::MetricsProvider;
pub(crate) use on_host::OnHost;
#[cfg(feature = "opentelemetry")]
pub use opentelemetry::OpenTelemetrySpans;
pub use silent::SilentWhileReplaying;
pub use spans::{FinishedSpan, SpanOf, SpanSink};

/// How log lines look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Several lines per entry, for people.
    Pretty,
    /// One line per entry.
    #[default]
    Compact,
}

/// Logging and gauges.
#[derive(Debug, Clone)]
pub struct ObservabilityConfig {
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Level of the two author-facing targets, unless `RUST_LOG` says otherwise.
    pub log_level: String,
    /// Named in the start-up line.
    pub service_name: String,
    /// Named in the start-up line.
    pub service_version: Option<String>,
    /// How often gauges are read from the store.
    pub gauge_poll_interval: Duration,
    /// Install a process-global tracing subscriber when the runtime starts. Off unless asked for.
    pub install_subscriber: bool,
}

impl Default for ObservabilityConfig {
    fn default() -> Self {
        Self {
            log_format: LogFormat::default(),
            log_level: "info".to_owned(),
            service_name: "duroxide".to_owned(),
            service_version: None,
            gauge_poll_interval: Duration::from_secs(60),
            install_subscriber: false,
        }
    }
}

/// Logging and metrics of one runtime.
#[derive(Debug, Clone)]
pub struct ObservabilityHandle {
    metrics: Arc<MetricsProvider>,
}

impl ObservabilityHandle {
    /// Sets up metrics and, if asked for, logging.
    ///
    /// # Errors
    ///
    /// When logging was asked for and a subscriber is installed already.
    pub fn init(config: &ObservabilityConfig) -> Result<Self, String> {
        if config.install_subscriber {
            init_logging(config)?;
        }
        let metrics = Arc::new(MetricsProvider::new(config)?);
        Ok(Self { metrics })
    }

    /// The metrics.
    #[must_use]
    pub fn metrics_provider(&self) -> &Arc<MetricsProvider> {
        &self.metrics
    }

    /// The counters as they are now.
    #[must_use]
    pub fn metrics_snapshot(&self) -> MetricsSnapshot {
        self.metrics.snapshot()
    }

    /// Ends observation.
    ///
    /// # Errors
    ///
    /// Never; kept for the published signature.
    pub async fn shutdown(self) -> Result<(), String> {
        Ok(())
    }
}
