//! Labels of an instance. In: a client and changes, if any. Out: the labels as they are then.

use duroxide_core::LabelChange;
use duroxide_runtime::client::Client;
use serde_json::json;

use crate::args::LabelsArgs;
use crate::failure::Failure;
use crate::instance;
use crate::output::{Output, Rows};

pub(crate) async fn run(client: &Client, output: &Output, args: LabelsArgs) -> Result<(), Failure> {
    let id = &args.id;
    let set = args.set.into_iter();
    let set = set.map(|(key, value)| LabelChange::set(key, value));
    let removed = args.remove.into_iter().map(LabelChange::remove);
    let changes: Vec<_> = set.chain(removed).collect();
    let labels = if changes.is_empty() {
        instance::find(client, id).await?;
        client.labels(id).await?
    } else {
        client.change_labels(id, &changes).await?
    };
    if output.json {
        return output.document(&json!({ "instance_id": id, "labels": labels }));
    }
    if labels.is_empty() {
        output.note(format!("{id} has no labels"));
        return Ok(());
    }
    let mut rows = Rows::new(&["LABEL", "VALUE"]);
    for (key, value) in labels {
        rows.push([key, value]);
    }
    output.table(rows)
}
