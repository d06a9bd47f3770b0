//! An instance with its descendants, drawn as a tree.

use std::collections::BTreeMap;

use duroxide_core::provider::{InstanceQuery, InstanceSummary};
use duroxide_runtime::client::Client;

use crate::failure::Failure;
use crate::filter;
use crate::instance;
use crate::output::{Output, escape, shorten};

/// How much of a custom status is shown.
const STATUS_WIDTH: usize = 40;

pub(crate) async fn run(client: &Client, output: &Output, id: &str) -> Result<(), Failure> {
    instance::begun(client, id).await?;
    let family = filter::all(client, InstanceQuery::new().with_root(id)).await?;
    if output.json {
        return output.document(&family);
    }
    let mut children: BTreeMap<&str, Vec<&InstanceSummary>> = BTreeMap::new();
    for one in family.iter().filter(|one| one.instance_id != id) {
        let parent = one.parent.as_deref().unwrap_or_default();
        children.entry(parent).or_default().push(one);
    }
    for siblings in children.values_mut() {
        siblings.sort_by_key(|one| (one.created_at_ms, one.instance_id.as_str()));
    }
    let Some(root) = family.iter().find(|one| one.instance_id == id) else {
        return Err(Failure::NotFound(format!("Instance {id} not found")));
    };
    let mut text = String::new();
    // Depth first without recursion: a chain of children may be long.
    let mut open = vec![(root, String::new(), String::new())];
    while let Some((one, head, rest)) = open.pop() {
        text.push_str(&format!("{head}{}\n", escape(&line(one))));
        let below = children
            .remove(one.instance_id.as_str())
            .unwrap_or_default();
        let last = below.len();
        for (at, child) in below.into_iter().enumerate().rev() {
            let (branch, trunk) = if at + 1 == last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            open.push((child, format!("{rest}{branch}"), format!("{rest}{trunk}")));
        }
    }
    output.raw(&text)
}

fn line(one: &InstanceSummary) -> String {
    let says = one.custom_status.as_deref().unwrap_or_default();
    let says = match says {
        "" => String::new(),
        says => format!("  {}", shorten(says, STATUS_WIDTH)),
    };
    let (id, name, version, status) = (&one.instance_id, &one.name, &one.version, one.status);
    format!("{id}  {name} {version}  {status}{says}")
}
