//! Commits a turn. In: its lock token and what it writes. Out: nothing; the group sends it with the next exchange.

use duroxide_core::provider::TurnWrites;

use crate::calls::commit_turn::Commit;
use crate::error::Result;
use crate::group::Op;
use crate::store::Store;

impl Store {
    pub(crate) async fn commit(&self, lock_token: &str, writes: TurnWrites) -> Result<()> {
        let commit = Commit::new(lock_token, writes)?;
        self.write(Op::Commit(Box::new(commit))).await
    }

    /// Commits a turn, after which claims take no queue messages of its instance until the next one.
    pub(crate) async fn commit_holding_queue_messages(
        &self,
        lock_token: &str,
        writes: TurnWrites,
    ) -> Result<()> {
        let commit = Commit::new(lock_token, writes)?.holding_queue_messages();
        self.write(Op::Commit(Box::new(commit))).await
    }
}
