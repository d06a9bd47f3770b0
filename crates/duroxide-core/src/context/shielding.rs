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

/// One piece of shielded work, counted by every group around it until it is dropped.
pub(super) struct Shield {
    shared: Arc<Shared>,
    counted_by: Vec<Shields>,
}

impl Shield {
    /// Counted by the groups that are being polled: the work takes effect when it is asked for, not when it is polled.
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let mut shield = Self {
            shared: Arc::clone(shared),
            counted_by: Vec::new(),
        };
        shield.join();
        shield
    }

    /// Counted by the groups, too, that it was moved into since.
    pub(super) fn join(&mut self) {
        let groups = self.shared.cell().groups.clone();
        for group in groups {
            if !self.counted_by.iter().any(|known| known.is(&group)) {
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
            if shields.any() {
                return Poll::Pending;
            }
            requested.as_mut().poll(cx).map(Err)
        })
        .await
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
