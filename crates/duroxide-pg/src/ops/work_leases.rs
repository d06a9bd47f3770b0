//! What the holder of an activity's lease does with it, and what can be asked about it. In: lock tokens. Out: nothing,
//! or a refusal if the lease is lost.

use std::time::Duration;

use duroxide_core::provider::rules::Refusal;
use duroxide_core::provider::{ScheduledActivityIdentifier, WorkItem};
use tokio_postgres::types::Type;

use crate::calls::enqueue::Ack;
use crate::codec;
use crate::connection::call::Call;
use crate::error::Result;
use crate::group::Op;
use crate::news::{NOTHING_NEW, News};
use crate::store::Store;
use crate::text;
use crate::time::duration_ms;
use crate::token;

impl Store {
    /// Removes an activity that has run, and stores its completion.
    pub(crate) async fn ack_work(
        &self,
        lock_token: &str,
        completion: Option<&WorkItem>,
    ) -> Result<()> {
        let completion = completion.map(codec::completion).transpose()?;
        let held = token::work(lock_token)?;
        let ack = Ack {
            id: held.id,
            token: held.random,
            completion,
        };
        self.write(Op::Ack(ack)).await
    }

    pub(crate) async fn renew_work(&self, lock_token: &str, extend_for: Duration) -> Result<()> {
        let held = token::work(lock_token)?;
        let renewal = Op::RenewWork {
            id: held.id,
            token: held.random,
            for_ms: duration_ms(extend_for),
        };
        self.write(renewal).await
    }

    pub(crate) async fn abandon_work(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore: bool,
    ) -> Result<()> {
        let held = token::work(lock_token)?;
        let call = Call::new("abandon_work")
            .int(self.expected())
            .int(held.id)
            .uuid(held.random)
            .opt_int(delay.map(duration_ms))
            .flag(ignore);
        let is_done: bool = self.one(call).await?;
        // The row was there all the time.
        let news = News {
            work: Some(NOTHING_NEW),
            ..News::default()
        };
        self.look(news, &[]);
        Ok(is_done.then_some(()).ok_or(Refusal::InvalidToken)?)
    }

    /// Of these leases, the ones that are lost.
    pub(crate) async fn lost_work(&self, tokens: &[String]) -> Result<Vec<String>> {
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        let held: Vec<(Option<token::WorkToken>, &String)> = tokens
            .iter()
            .map(|text| (token::work(text).ok(), text))
            .collect();
        let known: Vec<token::WorkToken> = held.iter().filter_map(|(work, _)| *work).collect();
        let ids: Vec<i64> = known.iter().map(|work| work.id).collect();
        let randoms: Vec<uuid::Uuid> = known.iter().map(|work| work.random).collect();
        let rows = self.db
            .rows(
                "SELECT w.id FROM unnest($1::bigint[], $2::uuid[]) AS h (id, token)
                 JOIN {s}.worker_queue AS w ON w.id = ANY (ARRAY[h.id]) AND w.lock_token = h.token
                 WHERE w.locked_until > (SELECT {s}.server_ms(clock_timestamp()) + c.ahead_ms FROM {s}.clock AS c)",
                &[(&ids, Type::INT8_ARRAY), (&randoms, Type::UUID_ARRAY)],
            )
            .await?;
        let valid = rows
            .iter()
            .map(|row| Ok(row.try_get(0)?))
            .collect::<Result<std::collections::HashSet<i64>>>()?;
        Ok(held
            .into_iter()
            .filter(|(work, _)| work.is_none_or(|work| !valid.contains(&work.id)))
            .map(|(_, text)| text.clone())
            .collect())
    }

    /// Whether a worker has claimed this activity.
    pub(crate) async fn was_claimed(&self, activity: &ScheduledActivityIdentifier) -> Result<bool> {
        let id = text::owned(&activity.instance);
        let execution = codec::number("execution", activity.execution_id)?;
        let activity = codec::number("activity", activity.activity_id)?;
        let unclaimed = self
            .db
            .rows(
                "SELECT 1 FROM {s}.worker_queue
                 WHERE instance_id = $1 AND execution_id = $2 AND activity_id = $3 AND attempt_count = 0",
                &[(&id, Type::TEXT), (&execution, Type::INT8), (&activity, Type::INT8)],
            )
            .await?;
        // Only a claimed activity leaves the queue, so one that is gone was claimed.
        Ok(unclaimed.is_empty())
    }
}
