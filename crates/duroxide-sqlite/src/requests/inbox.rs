//! Requests on their way to a thread. In: one at a time, from any task. Out: all that has queued up, at once.
//!
//! A channel of the standard library spins before it sleeps, and hands out one message per call. The writer wakes up to
//! twenty times a second while idle and takes hundreds of requests at once while busy: neither suits it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Result, SqliteError};

#[derive(Debug)]
pub(crate) struct Inbox<T> {
    state: Mutex<State<T>>,
    /// Whether something is queued; read by [`linger`](Self::linger) without the lock.
    any: AtomicBool,
    arrived: Condvar,
}

#[derive(Debug)]
struct State<T> {
    queue: VecDeque<T>,
    sleepers: usize,
    closed: bool,
}

/// What became of waiting for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Took {
    Some,
    /// The time is over and nothing came.
    Nothing,
    /// Nothing is left and nothing will come.
    Closed,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                sleepers: 0,
                closed: false,
            }),
            any: AtomicBool::new(false),
            arrived: Condvar::new(),
        }
    }

    pub(crate) fn push(&self, request: T) -> Result<()> {
        let mut state = self.state();
        if state.closed {
            return Err(SqliteError::Closed);
        }
        state.queue.push_back(request);
        self.any.store(true, Ordering::Release);
        let is_waited_for = state.sleepers > 0;
        drop(state);
        if is_waited_for {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Moves up to `max` requests into `taken`; waits for the first one, for ever if no time is given.
    pub(crate) fn take(&self, max: usize, wait: Option<Duration>, taken: &mut Vec<T>) -> Took {
        let deadline = wait.map(|wait| Instant::now() + wait);
        let mut state = self.state();
        while state.queue.is_empty() {
            if state.closed {
                return Took::Closed;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Took::Nothing;
            }
            state.sleepers += 1;
            state = self.sleep(state, left);
            state.sleepers -= 1;
        }
        let count = max.min(state.queue.len());
        taken.extend(state.queue.drain(..count));
        self.any.store(!state.queue.is_empty(), Ordering::Release);
        Took::Some
    }

    /// Polls for a request for a short time without sleeping. Waking a thread that sleeps costs more than a short
    /// request, on virtual machines several times more.
    pub(crate) fn linger(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.any.load(Ordering::Acquire) && Instant::now() < until {
            // Another thread that needs the processor gets it.
            std::thread::yield_now();
        }
    }

    /// What is queued is still handed out; nothing more is accepted.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.any.store(true, Ordering::Release);
        self.arrived.notify_all();
    }

    /// How many requests wait.
    pub(crate) fn len(&self) -> usize {
        self.state().queue.len()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Closes, and drops what is queued: its callers learn that no answer will come.
    fn abandon(&self) {
        self.close();
        let left = std::mem::take(&mut self.state().queue);
        drop(left);
    }

    fn sleep<'s>(
        &self,
        state: MutexGuard<'s, State<T>>,
        left: Option<Duration>,
    ) -> MutexGuard<'s, State<T>> {
        match left {
            None => self
                .arrived
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                self.arrived
                    .wait_timeout(state, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // The queue is whole at every point where a panic could leave it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by the thread that serves an inbox. When the thread ends, for whatever reason, it closes the inbox and drops
/// what is queued, so that no caller waits for ever.
pub(crate) struct CloseOnDrop<T>(pub(crate) Arc<Inbox<T>>);

impl<T> Drop for CloseOnDrop<T> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_queued_up_is_taken_at_once_and_in_order() {
        let inbox = Inbox::new();
        for request in 1..=5 {
            inbox.push(request).unwrap();
        }
        let mut taken = Vec::new();
        assert_eq!(inbox.take(3, None, &mut taken), Took::Some);
        assert_eq!(inbox.take(3, None, &mut taken), Took::Some);
        assert_eq!(taken, [1, 2, 3, 4, 5]);
        let wait = Some(Duration::from_millis(1));
        assert_eq!(inbox.take(3, wait, &mut taken), Took::Nothing);
    }

    #[test]
    fn a_closed_inbox_is_emptied_before_it_ends() {
        let inbox = Inbox::new();
        inbox.push(1).unwrap();
        inbox.close();
        assert!(inbox.push(2).is_err());
        let mut taken = Vec::new();
        assert_eq!(inbox.take(9, None, &mut taken), Took::Some);
        assert_eq!(inbox.take(9, None, &mut taken), Took::Closed);
        assert_eq!(taken, [1]);
    }

    #[test]
    fn a_thread_that_dies_leaves_no_request_waiting() {
        let inbox = Arc::new(Inbox::new());
        let (request, answer) = std::sync::mpsc::channel::<()>();
        inbox.push(request).unwrap();
        drop(CloseOnDrop(Arc::clone(&inbox)));
        assert!(answer.recv().is_err(), "the request was dropped");
        assert!(inbox.push(std::sync::mpsc::channel().0).is_err());
    }

    #[test]
    fn a_request_wakes_the_thread_that_sleeps() {
        let inbox = Arc::new(Inbox::new());
        let sleeper = std::thread::spawn({
            let inbox = Arc::clone(&inbox);
            move || {
                let mut taken = Vec::new();
                (inbox.take(1, None, &mut taken), taken)
            }
        });
        inbox.push(7).unwrap();
        assert_eq!(sleeper.join().unwrap(), (Took::Some, vec![7]));
    }
}
