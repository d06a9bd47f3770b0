//! Labels of instances. A function of the schema changes them; this file calls it and reads.

use std::collections::BTreeMap;

use duroxide_core::provider::{InstanceCount, InstanceQuery, Labelling};
use duroxide_core::{LABELS_MAX, LabelChange, Labels};
use tokio_postgres::types::Type;

use crate::codec::unsigned;
use crate::connection::call::Call;
use crate::error::{PgError, Result};
use crate::ops::admin_sql::{UPDATED, only};
use crate::ops::query::conditions::conditions;
use crate::store::Store;
use crate::text;

impl Store {
    pub(crate) async fn labels_of(&self, instance: &str) -> Result<Labels> {
        let id = text::owned(instance);
        let sql = "SELECT key, value FROM {s}.labels WHERE instance_id = $1";
        let rows = self.ask(sql, &[(&id, Type::TEXT)]).await?;
        let pair = |row: &tokio_postgres::Row| -> Result<(String, String)> {
            Ok((text::shown(row.try_get(0)?), text::shown(row.try_get(1)?)))
        };
        rows.iter().map(pair).collect()
    }

    pub(crate) async fn label(&self, instance: &str, changes: &[LabelChange]) -> Result<Labelling> {
        let id = text::owned(instance);
        // The last change of a key counts.
        let stored: BTreeMap<String, Option<String>> = changes
            .iter()
            .map(|it| (text::owned(&it.key), it.value.as_deref().map(text::owned)))
            .collect();
        let call = Call::new("change_labels")
            .text(&id)
            .texts(stored.keys().map(String::as_str))
            .opt_texts(stored.values().map(Option::as_deref))
            .small(i32::try_from(LABELS_MAX).unwrap_or(i32::MAX));
        let rows = self.db.transact_later(&[call]).await?;
        let row = only(rows.first().map_or(&[], Vec::as_slice))?;
        let texts = |column: usize| -> Result<Vec<String>> {
            let texts: Option<Vec<String>> = row.try_get(column)?;
            Ok(texts
                .unwrap_or_default()
                .into_iter()
                .map(text::shown)
                .collect())
        };
        Ok(match row.try_get::<_, i32>(0)? {
            0 => Labelling::Done(texts(2)?.into_iter().zip(texts(3)?).collect()),
            1 => {
                let number: i32 = row.try_get(1)?;
                Labelling::TooMany(usize::try_from(number).unwrap_or(usize::MAX))
            }
            2 => Labelling::NoSuchInstance,
            other => {
                return Err(PgError::Database {
                    why: format!("a change of labels ended in {other}"),
                });
            }
        })
    }

    pub(crate) async fn counts_by_label(
        &self,
        query: &InstanceQuery,
        key: &str,
    ) -> Result<Vec<InstanceCount>> {
        let handlers = self.handlers(query).await?;
        let mut all = conditions(query);
        let code = handlers.condition(query, &mut all);
        let updated = all.in_range(UPDATED, query.updated);
        let label = all.text(key);
        let sql = format!(
            "SELECT l.value, count(*) FROM {{current}} JOIN {{s}}.labels AS l ON l.instance_id = i.instance_id
             WHERE l.key = {label} AND {code} AND {} GROUP BY 1 ORDER BY 2 DESC, 1",
            [vec![all.joined()], updated].concat().join(" AND ")
        );
        let rows = self.list(&sql, &all.params()).await?;
        let count = |row: &tokio_postgres::Row| -> Result<InstanceCount> {
            Ok(InstanceCount {
                key: text::shown(row.try_get(0)?),
                count: unsigned(row, 1)?,
            })
        };
        rows.iter().map(count).collect()
    }
}
