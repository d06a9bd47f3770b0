//! Puts the message of a dead letter back into its queue. In: a letter. Out: what became of it. The letter is judged
//! here, by the rules that all stores share; the server makes sure that the instance is still the one that was judged.

use duroxide_core::WorkItem;
use duroxide_core::provider::{DeadLetterOrigin, Incarnation, Requeue};
use tokio_postgres::types::Type;

use crate::calls::verdict::Verdict;
use crate::codec;
use crate::connection::call::Call;
use crate::error::{PgError, Result};
use crate::news::Queues;
use crate::store::Store;
use crate::text;
use crate::watch::InstanceChange;

impl Store {
    pub(crate) async fn requeue(&self, id: u64) -> Result<Requeue> {
        let Ok(id) = i64::try_from(id) else {
            return Ok(Requeue::NoSuchDeadLetter);
        };
        loop {
            let Some((payload, origin)) = self.letter(id).await? else {
                return Ok(Requeue::NoSuchDeadLetter);
            };
            let item = match codec::decode_work_item(&payload) {
                Ok(item) => item,
                Err(error) => {
                    let why = format!("it cannot be read: {error}");
                    return Ok(Requeue::Refused { why });
                }
            };
            let instance = text::owned(item.target_instance());
            let current = self.life_of(&instance).await?;
            let incarnation = current.and_then(Incarnation::from_stored);
            if let Some(why) = origin.refusal(&item, incarnation) {
                return Ok(Requeue::Refused { why });
            }
            match self.put_back(id, &item, current).await? {
                Verdict::Done => {
                    self.watches
                        .announce(item.target_instance(), InstanceChange::Unknown);
                    self.look(Queues::BOTH, &[instance]);
                    return Ok(Requeue::Done);
                }
                Verdict::Gone => return Ok(Requeue::NoSuchDeadLetter),
                // The instance was deleted or began meanwhile: judge again.
                Verdict::Changed => {}
                Verdict::Expired | Verdict::Unknown | Verdict::Held => {
                    let why = "a dead letter was refused like a lease".to_owned();
                    return Err(PgError::Database { why });
                }
            }
        }
    }

    /// What the letter says, and what is known of it.
    async fn letter(&self, id: i64) -> Result<Option<(String, DeadLetterOrigin)>> {
        let sql = "SELECT payload, incarnation, answered FROM {s}.dead_letters WHERE id = $1";
        let rows = self.ask(sql, &[(&id, Type::INT8)]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let origin = DeadLetterOrigin {
            incarnation: row
                .try_get::<_, Option<i64>>(1)?
                .and_then(Incarnation::from_stored),
            answered: row.try_get(2)?,
        };
        Ok(Some((row.try_get(0)?, origin)))
    }

    async fn life_of(&self, instance: &str) -> Result<Option<i64>> {
        let sql = "SELECT incarnation FROM {s}.instances WHERE instance_id = $1";
        let rows = self.ask(sql, &[(&instance, Type::TEXT)]).await?;
        let incarnation = rows.first().map(|row| row.try_get::<_, Option<i64>>(0));
        Ok(incarnation.transpose()?.flatten())
    }

    async fn put_back(
        &self,
        id: i64,
        item: &WorkItem,
        incarnation: Option<i64>,
    ) -> Result<Verdict> {
        let begin = |instance| {
            Call::new("requeue_letter")
                .int(self.expected())
                .int(id)
                .text(instance)
                .opt_int(incarnation)
        };
        if let WorkItem::ActivityExecute { .. } = item {
            let work = codec::work(item)?;
            let call = begin(&work.instance)
                .text("ActivityExecute")
                .text(&work.json)
                .opt_text(None)
                .opt_int(Some(work.execution_id))
                .opt_int(Some(work.activity_id))
                .opt_text(Some(&work.name))
                .opt_text(work.session.as_deref())
                .opt_text(work.tag.as_deref())
                .opt_text(Some(&work.lane));
            return self.one(call).await;
        }
        let message = codec::message(item, None)?;
        let call = begin(&message.instance)
            .text(message.kind)
            .text(&message.json)
            .opt_text(message.begins.as_deref())
            .opt_int(message.answers.map(|(execution, _)| execution))
            .opt_int(message.answers.map(|(_, operation)| operation))
            .opt_text(None)
            .opt_text(None)
            .opt_text(None)
            .opt_text(None);
        self.one(call).await
    }
}
