//! Puts messages and activities on their queues. In: work items. Out: nothing; the group sends them with the next
//! exchange.

use std::time::Duration;

use duroxide_core::provider::WorkItem;

use crate::codec;
use crate::error::Result;
use crate::group::Op;
use crate::store::Store;

impl Store {
    pub(crate) async fn enqueue_message(
        &self,
        item: &WorkItem,
        delay: Option<Duration>,
    ) -> Result<()> {
        self.write(Op::Message(codec::message(item, delay)?)).await
    }

    pub(crate) async fn enqueue_work(&self, item: &WorkItem) -> Result<()> {
        self.write(Op::Work(codec::work(item)?)).await
    }
}
