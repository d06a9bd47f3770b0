//! Being observed: labels on every start, a subscriber that formats every span and line, and the node's announcements.
//! In: which of the three. Out: what a slice needs for them.

use std::sync::OnceLock;

use duroxide::{Labels, RuntimeOptions};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

/// What is switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) labels: bool,
    pub(crate) spans: bool,
    pub(crate) announcements: bool,
}

impl Parts {
    const NONE: Self = Self {
        labels: false,
        spans: false,
        announcements: false,
    };
    pub(crate) const ALL: Self = Self {
        labels: true,
        spans: true,
        announcements: true,
    };
    pub(crate) const LABELS: Self = Self {
        labels: true,
        ..Self::NONE
    };
    pub(crate) const SPANS: Self = Self {
        spans: true,
        ..Self::NONE
    };
    pub(crate) const ANNOUNCEMENTS: Self = Self {
        announcements: true,
        ..Self::NONE
    };

    /// These in a slice in which they go on, none in another.
    pub(crate) fn in_slice(self, goes_on: bool) -> Self {
        if goes_on { self } else { Self::NONE }
    }

    /// Switches on what the process as a whole has, and returns the options of a runtime.
    pub(crate) fn options(self) -> RuntimeOptions {
        listen(self.spans);
        let mut options = RuntimeOptions::default();
        if !self.announcements {
            options.node_announce_interval = None;
        }
        options
    }

    /// Two labels, or none.
    pub(crate) fn labels(self) -> Labels {
        let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        if self.labels {
            [("customer", "acme"), ("region", "north")].map(pair).into()
        } else {
            Labels::new()
        }
    }
}

/// What a service logs with: every span and line at INFO is formatted without colours, and goes nowhere. The
/// subscriber is that of the whole process, as usual; between slices only its level changes.
fn listen(is_on: bool) {
    static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();
    let level = LEVEL.get_or_init(|| {
        let (level, handle) = reload::Layer::new(LevelFilter::OFF);
        let lines = fmt::layer().with_ansi(false).with_writer(std::io::sink);
        tracing_subscriber::registry()
            .with(level)
            .with(lines)
            .init();
        handle
    });
    let wanted = if is_on {
        LevelFilter::INFO
    } else {
        LevelFilter::OFF
    };
    level
        .reload(wanted)
        .expect("the subscriber lives as long as the process");
}
