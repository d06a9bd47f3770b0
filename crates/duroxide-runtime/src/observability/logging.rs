//! The subscriber that a program without one of its own may install.

use tracing_subscriber::EnvFilter;

use super::{LogFormat, ObservabilityConfig};

/// Installs a process-global subscriber. `RUST_LOG` decides what is shown; without it, warnings and the two
/// author-facing targets at the configured level.
///
/// # Errors
///
/// When a subscriber is installed already.
pub fn init_logging(config: &ObservabilityConfig) -> Result<(), String> {
    let level = &config.log_level;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        EnvFilter::new(format!(
            "warn,duroxide::orchestration={level},duroxide::activity={level}"
        ))
    });
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    let (name, installed) = match config.log_format {
        LogFormat::Json => ("JSON", builder.json().try_init()),
        LogFormat::Pretty => ("pretty", builder.pretty().try_init()),
        LogFormat::Compact => ("compact", builder.compact().try_init()),
    };
    installed.map_err(|e| format!("Failed to initialize {name} logging: {e}"))
}
