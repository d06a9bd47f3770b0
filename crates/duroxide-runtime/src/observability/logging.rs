//! The subscriber that a program without one of its own may install.

use std::io::IsTerminal;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::{LogFormat, ObservabilityConfig, SilentWhileReplaying};

/// Installs a process-global subscriber. `RUST_LOG` decides what is shown, as a list of levels and `target=level`;
/// without it, warnings and the two author-facing targets at the configured level. Orchestrations are silent while they
/// are replaying. Lines are coloured on a terminal only, and not if `NO_COLOR` is set.
///
/// # Errors
///
/// When a subscriber is installed already, or when `RUST_LOG` or the configured level is not understood.
pub fn init_logging(config: &ObservabilityConfig) -> Result<(), String> {
    let shown = shown(config)?;
    let is_coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer().with_ansi(is_coloured);
    let (name, lines) = match config.log_format {
        LogFormat::Json => ("JSON", lines.json().boxed()),
        LogFormat::Pretty => ("pretty", lines.pretty().boxed()),
        LogFormat::Compact => ("compact", lines.compact().boxed()),
    };
    tracing_subscriber::registry()
        .with(SilentWhileReplaying)
        .with(lines.with_filter(shown))
        .try_init()
        .map_err(|e| format!("Failed to initialize {name} logging: {e}"))
}

/// Whether it is understood which lines are to be shown.
pub(crate) fn check_logging(config: &ObservabilityConfig) -> Result<(), String> {
    shown(config).map(drop)
}

/// Which lines are shown.
fn shown(config: &ObservabilityConfig) -> Result<Targets, String> {
    let level = &config.log_level;
    let wanted = std::env::var("RUST_LOG").unwrap_or_else(|_| {
        format!("warn,duroxide::orchestration={level},duroxide::activity={level}")
    });
    wanted
        .parse()
        .map_err(|e| format!("cannot show log lines by `{wanted}`: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_none_is_refused() {
        let levelled = |level: &str| ObservabilityConfig {
            log_level: level.to_owned(),
            ..ObservabilityConfig::default()
        };
        check_logging(&levelled("debug")).expect("it is one");
        let why = check_logging(&levelled("loud")).expect_err("it is none");
        assert!(why.contains("=loud"), "{why}");
    }
}
