//! Retention by hand. In: a client and the arguments as a policy. Out: what was deleted, or what would be. Deletes
//! nothing without consent.

use duroxide_runtime::client::Client;
use duroxide_runtime::{RetentionPolicy, RetentionReport, RetentionRule};
use serde_json::json;

use crate::args::RetentionArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) async fn run(
    client: &Client,
    output: &Output,
    args: RetentionArgs,
) -> Result<(), Failure> {
    if args.ended_for.is_none() && args.keep.is_none() && args.keep_executions.is_none() {
        let text = "say what is no longer kept: --ended-for, --keep or --keep-executions";
        return Err(Failure::Usage(text.to_owned()));
    }
    let rule = RetentionRule {
        statuses: args.status,
        name: args.name,
        ended_for: args.ended_for,
        newest_kept: args.keep,
        executions_kept: args.keep_executions,
    };
    let policy = RetentionPolicy::new().rule(rule);
    policy.validate().map_err(Failure::Usage)?;
    if args.consent.yes {
        let spinner = output.spinner("looking for what is no longer kept");
        let done = client.apply_retention_with(&policy, |so_far| {
            let (instances, executions) = (so_far.instances, so_far.executions);
            spinner.set_message(format!(
                "{instances} instances and {executions} executions were deleted so far"
            ));
        });
        let done = done.await;
        spinner.finish_and_clear();
        return report(output, done?, true);
    }
    let spinner = output.spinner("counting what is no longer kept");
    let would = client.preview_retention(&policy).await;
    spinner.finish_and_clear();
    let would = would?;
    if args.consent.dry_run {
        return report(output, would, false);
    }
    Err(Failure::NeedsYes(in_words(would, false)))
}

fn report(output: &Output, deleted: RetentionReport, done: bool) -> Result<(), Failure> {
    if output.json {
        output.document(&json!({ "done": done, "deleted": deleted }))
    } else {
        output.line(in_words(deleted, done))
    }
}

fn in_words(deleted: RetentionReport, done: bool) -> String {
    let (instances, executions, events) = (deleted.instances, deleted.executions, deleted.events);
    if done {
        let bytes = match deleted.bytes_given_back {
            0 => String::new(),
            bytes => format!("; {bytes} bytes were given back"),
        };
        format!(
            "{instances} instances and {executions} executions were deleted, with {events} events{bytes}"
        )
    } else {
        format!(
            "{instances} instances with their children, and {executions} old executions of others, would be deleted"
        )
    }
}
