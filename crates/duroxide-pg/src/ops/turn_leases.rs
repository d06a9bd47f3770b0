//! What the holder of a turn's lease does with it besides committing: stores, renews it, or gives the turn back. In: a
//! lock token. Out: nothing, or a refusal if the lease is lost.

use std::time::Duration;

use duroxide_core::provider::rules::Refusal;

use crate::connection::call::Call;
use crate::error::Result;
use crate::group::Op;
use crate::news::Queues;
use crate::store::Store;
use crate::text;
use crate::time::duration_ms;
use crate::token;

impl Store {
    /// Sees to it that the lease of a turn is stored: of one that was handed out before, and is lost if it cannot be.
    pub(crate) async fn store_turn_lease(&self, lock_token: &str) -> Result<()> {
        let held = token::turn(lock_token)?;
        if self.store_lease(held.random).await? {
            return Ok(());
        }
        Err(Refusal::InvalidToken.into())
    }

    pub(crate) async fn renew_turn(&self, lock_token: &str, extend_for: Duration) -> Result<()> {
        let held = token::turn(lock_token)?;
        let renewal = Op::RenewTurn {
            instance: text::owned(held.instance),
            shown_instance: held.instance.to_owned(),
            token: held.random,
            for_ms: duration_ms(extend_for),
        };
        self.write(renewal).await
    }

    /// Gives a turn back; its messages are hidden for the delay, if there is one.
    pub(crate) async fn abandon_turn(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<()> {
        self.give_turn_back("abandon_turn", lock_token, delay, ignore_attempt)
            .await
    }

    /// Gives a turn back; the whole instance rests, until a message comes.
    pub(crate) async fn rest_turn(
        &self,
        lock_token: &str,
        rest: Duration,
        ignore_attempt: bool,
    ) -> Result<()> {
        self.give_turn_back("rest_turn", lock_token, Some(rest), ignore_attempt)
            .await
    }

    async fn give_turn_back(
        &self,
        function: &'static str,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<()> {
        let held = token::turn(lock_token)?;
        self.store_lease(held.random).await?;
        let id = text::owned(held.instance);
        let call = Call::new(function)
            .int(self.expected())
            .text(&id)
            .uuid(held.random)
            .opt_int(delay.map(duration_ms))
            .flag(ignore_attempt);
        let is_done: bool = self.one(call).await?;
        self.look(Queues::TURNS, &[]);
        Ok(is_done.then_some(()).ok_or(Refusal::InvalidToken)?)
    }
}
