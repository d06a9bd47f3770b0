//! Turns whose history the server cannot read (`0023_unreadable.sql`). In: claimed turns. Out: the others. Such an
//! instance is leased to nobody for a while and noted as blocked, and no attempt of its messages is counted: it goes on
//! by itself once it can be read again. What is readable and does not decode is handed out with that as its error.

use crate::calls::claim_turns::RawTurn;
use crate::connection::call::Call;
use crate::error::{PgError, Result};
use crate::group::{NOTED_BY, REST};
use crate::store::Store;
use crate::text;
use crate::time::duration_ms;
use crate::undelivered::Undelivered;

impl Store {
    /// Takes the turns away whose history cannot be read. One that cannot be put to rest is given back uncounted.
    pub(crate) async fn rest_unreadable(&self, turns: &mut Undelivered<RawTurn>) {
        let mut resting = Vec::new();
        for turn in turns.iter() {
            let Some(why) = turn.unreadable() else {
                continue;
            };
            let error = PgError::Unreadable {
                why: why.to_owned(),
            };
            let instance = text::shown(turn.instance.clone());
            tracing::error!(target: "duroxide::providers::postgres", code = error.code(), instance_id = %instance, %error, "a history cannot be read; its instance rests and is looked at again");
            match self.rest_history(turn, why).await {
                Ok(true) => resting.push(turn.random),
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(target: "duroxide::providers::postgres", code = error.code(), instance_id = %instance, %error, "what cannot be read could not be put to rest");
                }
            }
        }
        turns.forget(|turn| resting.contains(&turn.random));
        turns.give_back(|turn| turn.unreadable().is_some());
    }

    /// Leases the instance to nobody; `false` if the lease of the turn was lost.
    async fn rest_history(&self, turn: &RawTurn, why: &str) -> Result<bool> {
        self.store_lease(turn.random).await?;
        let call = Call::new("rest_unreadable_history")
            .int(self.expected())
            .text(&turn.instance)
            .uuid(turn.random)
            .int(duration_ms(REST))
            .text(why)
            .text(NOTED_BY);
        self.one(call).await
    }
}
