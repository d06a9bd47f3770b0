//! A subscriber's layer that keeps replays silent. In: whether the thread replays an orchestration. Out: spans and
//! lines of its code are dropped then, for every other layer. The engine's own lines pass: they are about the replay,
//! not from it.

use duroxide_core::replay::is_replaying_here;
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Makes plain `tracing` calls in an orchestration, and in the libraries it calls, silent while it is replaying;
/// `ctx.trace_info` and its like are so by themselves. Add it to the subscriber beside the layers that write.
///
/// ```
/// use duroxide::runtime::observability::SilentWhileReplaying;
/// use tracing_subscriber::layer::SubscriberExt as _;
///
/// let subscriber = tracing_subscriber::registry()
///     .with(SilentWhileReplaying)
///     .with(tracing_subscriber::fmt::layer());
/// tracing::subscriber::with_default(subscriber, || tracing::info!("outside of a replay this is heard"));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentWhileReplaying;

impl<S: Subscriber> Layer<S> for SilentWhileReplaying {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // The answer changes from poll to poll.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        !is_replaying_here() || metadata.target().starts_with("duroxide::")
    }
}
