//! Groups of durable work that a request to cancel ends, and work inside them that it does not touch. In: futures of
//! the author. Out: the value of a group, or the request; never a group that is dropped while something in it is
//! shielded.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use super::OrchestrationContext;
use crate::durable::{Shared, Shields};

/// A group that is being polled: the innermost one until this is dropped, also by a panic.
struct Entered<'a>(&'a Shared);

impl<'a> Entered<'a> {
    fn new(shared: &'a Shared, group: &Shields) -> Self {
        shared.cell().groups.push(group.clone());
        Self(shared)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.cell().groups.pop();
    }
}

/// Shielded work that is being polled, until this is dropped, also by a panic.
struct Shielding<'a>(&'a Shared);

impl<'a> Shielding<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.cell().shields += 1;
        Self(shared)
    }
}

impl Drop for Shielding<'_> {
    fn drop(&mut self) {
        self.0.cell().shields -= 1;
    }
}

/// One piece of shielded work, counted by the groups around it that it holds, until it is dropped.
pub(super) struct Shield {
    shared: Arc<Shared>,
    /// Whether it holds groups, too, whose code has not heard of a request to cancel: the code asked for the work
    /// before the request came, or the work undoes.
    holds_always: bool,
    counted_by: Vec<Shields>,
}

impl Shield {
    /// Counted by the groups that are being polled: the work takes effect when it is asked for, not when it is polled.
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let is_older = shared.cell().cancel_requested.is_none();
        Self::counted(shared, is_older)
    }

    /// As [`new`](Self::new), for work that undoes: it holds the groups around it in any case.
    pub(super) fn for_undoing(shared: &Arc<Shared>) -> Self {
        Self::counted(shared, true)
    }

    fn counted(shared: &Arc<Shared>, holds_always: bool) -> Self {
        let mut shield = Self {
            shared: Arc::clone(shared),
            holds_always,
            counted_by: Vec::new(),
        };
        shield.join();
        shield
    }

    /// Polls the work. No group inside it ends with a request to cancel.
    pub(super) fn poll<F: Future>(
        &mut self,
        work: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<F::Output> {
        self.join();
        let _shielding = Shielding::new(&self.shared);
        work.poll(cx)
    }

    /// Counted by the groups, too, that it was moved into since, or whose code has heard of the request since.
    fn join(&mut self) {
        let groups = self.shared.cell().groups.clone();
        for group in groups {
            let holds = self.holds_always || group.has_heard();
            if holds && !self.counted_by.iter().any(|known| known.is(&group)) {
                group.add();
                self.counted_by.push(group);
            }
        }
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        self.counted_by.iter().for_each(Shields::remove);
    }
}

impl OrchestrationContext {
    /// The value of a group, or the reason of a request to cancel, once nothing in the group is shielded.
    pub(super) async fn until_cancelled<T>(
        &self,
        group: impl Future<Output = T>,
        requested: impl Future<Output = String>,
    ) -> Result<T, String> {
        let shields = Shields::default();
        let (mut group, mut requested) = (pin!(group), pin!(requested));
        std::future::poll_fn(|cx| {
            if let Poll::Ready(value) = self.poll_within(&shields, group.as_mut(), cx) {
                return Poll::Ready(Ok(value));
            }
            if shields.any() || self.is_shielded() {
                return Poll::Pending;
            }
            let reason = std::task::ready!(requested.as_mut().poll(cx));
            // A request that was known before is no operation that tells the groups around this one.
            self.shared.cell().hear_request();
            Poll::Ready(Err(reason))
        })
        .await
    }

    /// Whether the code that is being polled is inside shielded work.
    fn is_shielded(&self) -> bool {
        self.shared.cell().shields > 0
    }

    /// The request to cancel, if there is one and the code is not shielded from it.
    pub(super) fn request_that_counts(&self) -> Option<String> {
        let cell = self.shared.cell();
        if cell.shields > 0 {
            return None;
        }
        cell.cancel_requested.clone()
    }

    fn poll_within<F: Future>(
        &self,
        shields: &Shields,
        group: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let _entered = Entered::new(&self.shared, shields);
        group.poll(cx)
    }
}
