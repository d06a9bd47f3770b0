//! One verb for every instance that a filter admits: what would be reached, or the doing, with progress. The client
//! reads the store in pages and reaches the lives that the filter saw; called again after it was stopped halfway, a
//! command reaches the rest.

use duroxide_core::provider::InstanceSummary;
use duroxide_runtime::client::{Applied, Applying, Client, Verb};
use serde_json::{Value, json};

use super::list;
use crate::args::Consent;
use crate::failure::Failure;
use crate::filter::FilterArgs;
use crate::output::{Output, count_of};

/// How many lines of a table are put together at once.
const TABLE: usize = 1_000;

/// What became of the instances.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    pub(crate) ids: Vec<String>,
    /// How many of what the verb is about: instances, or their dead letters.
    pub(crate) count: u64,
    /// Those that were refused, and why.
    pub(crate) refused: Vec<(String, String)>,
    /// Whether it was done, and not only tried.
    pub(crate) done: bool,
}

impl Reached {
    fn note(&mut self, one: &InstanceSummary, became: &Applied) -> bool {
        let id = one.instance_id.clone();
        match became {
            Applied::Reached { count } => {
                self.count += count;
                self.ids.push(id);
                true
            }
            Applied::Refused { count, why } => {
                self.count += count;
                self.refused.push((id, why.clone()));
                false
            }
            _ => false,
        }
    }

    /// Its refusals as JSON.
    pub(crate) fn refused_as_json(&self) -> Vec<Value> {
        let refused = self.refused.iter();
        refused
            .map(|(id, why)| json!({ "instance": id, "why": why }))
            .collect()
    }

    /// Notes the refusals for a person, and makes them a failure.
    pub(crate) fn or_refusals(&self, output: &Output, what: &str) -> Result<(), Failure> {
        if !output.json {
            for (id, why) in &self.refused {
                output.note(format!("{id}: {why}"));
            }
        }
        match self.refused.len() {
            0 => Ok(()),
            count => Err(Failure::Store(format!("{count} instances were not {what}"))),
        }
    }
}

/// Applies a verb to what a filter admits, as far as the person wants it done. A filter that names nothing would mean
/// everything: refused.
pub(crate) async fn run(
    client: &Client,
    output: &Output,
    (filter, consent): (&FilterArgs, Consent),
    (verb, word): (Verb, &'static str),
) -> Result<Reached, Failure> {
    if !filter.narrows() {
        return Err(Failure::Usage("give an instance or a filter".to_owned()));
    }
    let applying = client.apply(&filter.query()?, verb);
    if consent.dry_run {
        return dry(output, applying.dry_run()).await;
    }
    let count = applying.count().await?;
    if !consent.yes {
        let would = format!("{word} would reach {}", count_of(count, "instance"));
        return Err(Failure::NeedsYes(would));
    }
    done(output, applying, count, word).await
}

async fn dry(output: &Output, mut applying: Applying<'_>) -> Result<Reached, Failure> {
    let mut reached = Reached::default();
    let mut rows = Vec::new();
    while let Some((one, became)) = applying.next().await? {
        if reached.note(&one, &became) && !output.json {
            rows.push(one);
        }
        if rows.len() == TABLE {
            output.table(list::table(&rows))?;
            rows.clear();
        }
    }
    if !rows.is_empty() {
        output.table(list::table(&rows))?;
    }
    Ok(reached)
}

async fn done(
    output: &Output,
    mut applying: Applying<'_>,
    count: u64,
    word: &'static str,
) -> Result<Reached, Failure> {
    let bar = output.progress(usize::try_from(count).unwrap_or(usize::MAX), word);
    let mut reached = Reached {
        done: true,
        ..Reached::default()
    };
    loop {
        let next = applying.next().await;
        if next.is_err() && !reached.ids.is_empty() {
            let some = count_of(reached.ids.len() as u64, "instance");
            output.note(format!(
                "{some} had been reached; the same command goes on with the rest"
            ));
        }
        let Some((one, became)) = next? else {
            bar.finish_and_clear();
            return Ok(reached);
        };
        reached.note(&one, &became);
        bar.inc(1);
    }
}
