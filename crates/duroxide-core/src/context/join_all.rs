//! Waiting for many at once. In: children in argument order. Out: their results in the same order.
//!
//! Only children that were woken are polled again, lowest first, so a fan-in of n children costs n polls and not n²,
//! and the order of polls is the same in every replay.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Resolves when all children have.
pub(super) struct JoinAll<F: Future> {
    children: Vec<Child<F>>,
    open: usize,
    woken: Arc<Woken>,
}

enum Child<F: Future> {
    Waiting { future: Pin<Box<F>>, waker: Waker },
    Done(Option<F::Output>),
}

impl<F: Future> JoinAll<F> {
    pub(super) fn new(futures: Vec<F>) -> Self {
        let open = futures.len();
        let woken = Arc::new(Woken::all(open));
        let child = |(place, future)| Child::Waiting {
            future: Box::pin(future),
            waker: Waker::from(Arc::new(ChildWaker {
                place,
                woken: Arc::clone(&woken),
            })),
        };
        Self {
            children: futures.into_iter().enumerate().map(child).collect(),
            open,
            woken,
        }
    }
}

// The children are boxed, so moving the list moves none of them; their results are never pinned.
impl<F: Future> Unpin for JoinAll<F> {}

impl<F: Future> Future for JoinAll<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        for place in self.woken.take(cx.waker()) {
            let child = &mut self.children[place];
            if child.poll() {
                self.open -= 1;
            }
        }
        if self.open > 0 {
            return Poll::Pending;
        }
        let results = self.children.iter_mut().filter_map(Child::take_result);
        Poll::Ready(results.collect())
    }
}

impl<F: Future> Child<F> {
    /// Polls if needed; true if the future finished just now.
    fn poll(&mut self) -> bool {
        let Self::Waiting { future, waker } = self else {
            return false;
        };
        match future.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(value) => {
                *self = Self::Done(Some(value));
                true
            }
            Poll::Pending => false,
        }
    }

    fn take_result(&mut self) -> Option<F::Output> {
        match self {
            Self::Done(value) => value.take(),
            Self::Waiting { .. } => None,
        }
    }
}

/// Which children were woken since they were last polled.
struct Woken(Mutex<Places>);

struct Places {
    woken: BTreeSet<usize>,
    parent: Option<Waker>,
}

impl Woken {
    fn all(children: usize) -> Self {
        Self(Mutex::new(Places {
            woken: (0..children).collect(),
            parent: None,
        }))
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The woken children, lowest first. A child that is woken while these are polled waits for the next round.
    fn take(&self, parent: &Waker) -> BTreeSet<usize> {
        let mut places = self.places();
        match &mut places.parent {
            Some(known) => known.clone_from(parent),
            none => *none = Some(parent.clone()),
        }
        std::mem::take(&mut places.woken)
    }

    fn wake(&self, place: usize) {
        let parent = {
            let mut places = self.places();
            places.woken.insert(place);
            places.parent.clone()
        };
        if let Some(parent) = parent {
            parent.wake();
        }
    }
}

struct ChildWaker {
    place: usize,
    woken: Arc<Woken>,
}

impl Wake for ChildWaker {
    fn wake(self: Arc<Self>) {
        self.woken.wake(self.place);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.wake(self.place);
    }
}
