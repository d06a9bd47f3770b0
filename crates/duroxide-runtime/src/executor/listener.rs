//! Where the log lines of what the engine polls go. In: the subscriber of the thread that starts the engine. Out: what
//! its threads must be told; nothing if they hear of it anyway. Telling them costs every poll, and makes every line of
//! the program look for the subscriber of its thread.

use tracing::Dispatch;
use tracing::dispatcher::{get_default, has_been_set};
use tracing::subscriber::NoSubscriber;

/// The subscriber that threads of the engine need to be told: one that only this thread has.
pub(super) fn of_this_thread() -> Option<Dispatch> {
    of_the_caller().filter(|own| !is_that_of_every_thread(own))
}

/// The subscriber of this thread, if it has any.
pub(super) fn of_the_caller() -> Option<Dispatch> {
    let own = get_default(Clone::clone);
    (!own.is::<NoSubscriber>()).then_some(own)
}

/// Whether a thread that was told nothing has the same one. A new thread is asked: `tracing` does not tell.
fn is_that_of_every_thread(own: &Dispatch) -> bool {
    if !has_been_set() {
        return false;
    }
    // A subscriber shows as its kind and its address.
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
    fn threads_are_told_of_a_subscriber_that_only_this_one_has() {
        with_default(registry(), || assert!(of_this_thread().is_some()));
        // That of the whole process listens to nothing, so that other tests do not notice.
        set_global_default(registry()).expect("no test installs another one");
        assert!(of_this_thread().is_none(), "every thread has it");
        with_default(registry(), || {
            assert!(of_this_thread().is_some(), "this one has another");
        });
    }
}
