//! The `tracing` subscriber of the engine's threads. In: that of the thread that starts the engine. Out: the subscriber
//! to set around each poll; none if every thread has it anyway, because setting it costs each poll and makes every log
//! line of the program look up the subscriber of its thread.

use tracing::Dispatch;
use tracing::dispatcher::{get_default, has_been_set};
use tracing::subscriber::NoSubscriber;

/// The subscriber that the engine has to set on its threads: one that only this thread has.
pub(super) fn of_this_thread() -> Option<Dispatch> {
    of_the_caller().filter(|own| !is_global(own))
}

/// The subscriber of this thread, if it has any.
pub(super) fn of_the_caller() -> Option<Dispatch> {
    let own = get_default(Clone::clone);
    (!own.is::<NoSubscriber>()).then_some(own)
}

/// Whether this is the global subscriber, the one of every thread that has none of its own.
///
/// `tracing` neither shows the global subscriber nor compares two. So a new thread, which has none of its own, reports
/// which one it finds, and the two are compared by their `Debug` text: the kind and the address of the subscriber. The
/// test below fails if a release of `tracing` shows neither.
fn is_global(own: &Dispatch) -> bool {
    if !has_been_set() {
        return false;
    }
    let shown = || get_default(|subscriber| format!("{subscriber:?}"));
    let of_a_new_thread = std::thread::spawn(shown).join();
    of_a_new_thread.is_ok_and(|theirs| theirs == format!("{own:?}"))
}

#[cfg(test)]
mod tests {
    use tracing::subscriber::{set_global_default, with_default};
    use tracing_subscriber::registry;

    use super::*;

    #[test]
    fn a_subscriber_that_only_this_thread_has_is_set_on_the_engines_threads() {
        with_default(registry(), || assert!(of_this_thread().is_some()));
        // The global one of this process records nothing, so that other tests do not notice.
        set_global_default(registry()).expect("no test installs another one");
        assert!(of_this_thread().is_none(), "every thread has it");
        with_default(registry(), || {
            assert!(of_this_thread().is_some(), "this one has another");
        });
    }
}
