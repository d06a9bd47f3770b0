//! What an operator asks, among very many finished instances. In: a store, which is filled first. Out: a row for each
//! question, and, if the program `duroxide` lies beside this one, for each command, its start included.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use duroxide::providers::{
    CountBy, InstanceQuery, InstanceStatus, PageCursor, SortKey, SortOrder, TimeRange,
};
use duroxide::{Client, Labels};

use crate::course::{self, FILE, SEED};
use crate::fill::APART_MS;
use crate::measure::{Latencies, Sample};
use crate::report::Row;
use crate::system::Subject;
use crate::workload::{settle, start_many};
use crate::{fill_postgres, open};

pub(crate) const NAME: &str = "operate";

/// How often each question is asked, after once in vain.
const TIMES: usize = 20;
/// How many instances wait, and how many have failed.
const SOME: u32 = 1_000;
/// How many families there are, with ten children each.
const FAMILIES: u32 = 50;

/// A question.
enum Ask {
    Page(InstanceQuery),
    Count(InstanceQuery, CountBy),
    CountByLabel(&'static str),
    Explain(String),
}

pub(crate) async fn run(subject: Subject, folder: &Path, prefill: u32) -> Vec<Row> {
    let filled = folder.join(format!("{subject}-{prefill}-filled"));
    if !filled.exists() {
        fill(subject, folder, prefill).await;
        std::fs::write(&filled, "").expect("note that the store is filled");
    }
    let client = Client::new(open::store(subject, folder).await);
    let mut rows = Vec::new();
    for (what, question) in questions(&client, prefill).await {
        let found = ask(&client, &question).await;
        let sample = Sample::begin(1);
        let mut seen = Vec::new();
        for _ in 0..TIMES {
            let began = Instant::now();
            ask(&client, &question).await;
            seen.push(began.elapsed().as_secs_f64());
        }
        let sample = sample.finish(Latencies::of(seen));
        let row = Row::of(subject, &format!("{NAME}: {what}"), &sample, folder);
        eprintln!("  {:8.2} ms  {what} ({found} found)", row.p50_ms);
        rows.push(row);
    }
    drop(client);
    rows.extend(commands(subject, folder));
    rows
}

async fn fill(subject: Subject, folder: &Path, prefill: u32) {
    course::seed(open::open(subject, folder).await).await;
    match subject {
        Subject::Postgres => fill_postgres::run(&open::schema(folder), prefill).await,
        _ => course::fill(&folder.join(FILE), prefill),
    }
    others(subject, folder).await;
}

/// What is not finished, or not well: some wait with a label, some have failed, some are families, a few are paused.
async fn others(subject: Subject, folder: &Path) {
    let client = Client::new(open::store(subject, folder).await);
    let engine = Arc::new(open::open(subject, folder).await);
    start_many(&engine, "failed", "chain", SOME, "no number").await;
    start_many(&engine, "family", "subs", FAMILIES, "10").await;
    let labels = Labels::from([("customer".to_owned(), "acme".to_owned())]);
    for n in 0..SOME {
        let started = client.start_orchestration_labelled(
            format!("waits-{n}"),
            "park",
            None,
            "",
            labels.clone(),
        );
        started.await.expect("start");
    }
    settle(&engine).await;
    for n in 0..10 {
        let paused = client.pause_instance(&format!("waits-{n}")).await;
        assert!(paused.expect("pause"), "it was not paused");
    }
    if let Ok(engine) = Arc::try_unwrap(engine) {
        crate::system::System::stop(engine).await;
    }
}

async fn questions(client: &Client, prefill: u32) -> Vec<(&'static str, Ask)> {
    let all = InstanceQuery::new;
    let now = filled_at(client).await;
    let span = u64::from(prefill) * u64::from(APART_MS);
    let middle = now - span / 2;
    let minute = TimeRange {
        from_ms: Some(middle),
        until_ms: Some(middle + 1_000),
    };
    let updated = |order| all().sorted(SortKey::Updated, order);
    let page = Ask::Page;
    let deep = deep(client, middle).await;
    vec![
        ("page, newest", page(all())),
        (
            "page, 1,000 of the newest",
            page(all().with_page_size(1_000)),
        ),
        (
            "page, oldest",
            page(all().sorted(SortKey::Created, SortOrder::OldestFirst)),
        ),
        ("page, from the middle on", page(all().after(deep))),
        ("page, last updated", page(updated(SortOrder::NewestFirst))),
        (
            "page, longest not updated",
            page(updated(SortOrder::OldestFirst)),
        ),
        (
            "page, completed",
            page(all().with_status(InstanceStatus::Completed)),
        ),
        (
            "page, running",
            page(all().with_status(InstanceStatus::Running)),
        ),
        (
            "page, failed",
            page(all().with_status(InstanceStatus::Failed)),
        ),
        (
            "page, running and longest not updated",
            page(updated(SortOrder::OldestFirst).with_status(InstanceStatus::Running)),
        ),
        ("page, name of nearly all", page(all().with_name("hello"))),
        ("page, name of few", page(all().with_name("park"))),
        (
            "page, name of few, last updated",
            page(updated(SortOrder::NewestFirst).with_name("park")),
        ),
        (
            "page, version of nearly all",
            page(all().with_version("1.0.0")),
        ),
        ("page, version of none", page(all().with_version("9.9.9"))),
        (
            "page, id prefix of many",
            page(all().with_id_prefix("fill-")),
        ),
        (
            "page, id prefix of few",
            page(all().with_id_prefix("waits-9")),
        ),
        ("page, parent", page(all().with_parent("family-7"))),
        ("page, root", page(all().with_root("family-7"))),
        ("page, roots", page(all().with_roots_only())),
        ("page, label", page(all().with_label("customer", "acme"))),
        (
            "page, label, last updated",
            page(updated(SortOrder::NewestFirst).with_label("customer", "acme")),
        ),
        ("page, dead letters", page(all().with_dead_letters())),
        ("page, paused", page(all().with_paused(true))),
        (
            "page, created in one second",
            page(all().with_created(minute)),
        ),
        (
            "page, updated in one second",
            page(all().with_updated(minute)),
        ),
        ("page, ended in one second", page(all().with_ended(minute))),
        (
            "page, ended since a minute",
            page(all().with_ended(TimeRange::from(now - 60_000))),
        ),
        (
            "page, ended long ago",
            page(all().with_ended(TimeRange::until(now - span + 1_000))),
        ),
        (
            "page, ended long ago, oldest",
            page(
                all()
                    .with_ended(TimeRange::until(middle))
                    .sorted(SortKey::Created, SortOrder::OldestFirst),
            ),
        ),
        ("count", Ask::Count(all(), CountBy::Nothing)),
        ("count by status", Ask::Count(all(), CountBy::Status)),
        ("count by name", Ask::Count(all(), CountBy::Name)),
        ("count by version", Ask::Count(all(), CountBy::Version)),
        ("count by label", Ask::CountByLabel("customer")),
        (
            "count, failed",
            Ask::Count(all().with_status(InstanceStatus::Failed), CountBy::Nothing),
        ),
        (
            "count, name of few",
            Ask::Count(all().with_name("park"), CountBy::Nothing),
        ),
        (
            "explain, one that waits",
            Ask::Explain("waits-500".to_owned()),
        ),
        (
            "explain, one that is paused",
            Ask::Explain("waits-5".to_owned()),
        ),
        (
            "explain, one that failed",
            Ask::Explain("failed-5".to_owned()),
        ),
        ("explain, one that is done", Ask::Explain(SEED.to_owned())),
    ]
}

/// When the newest of the finished instances ended: the store may have been kept for a while.
async fn filled_at(client: &Client) -> u64 {
    let query = InstanceQuery::new().with_id_prefix(SEED);
    let page = client.query_instances(&query).await.expect("a page");
    let seed = page.items.first().and_then(|seed| seed.ended_at_ms);
    seed.expect("the seed has ended")
}

/// Where the page after the middle begins.
async fn deep(client: &Client, middle: u64) -> PageCursor {
    let query = InstanceQuery::new().with_created(TimeRange::until(middle));
    let page = client.query_instances(&query).await.expect("a page");
    page.next.expect("there are more")
}

/// Asks, and tells how much was found.
async fn ask(client: &Client, question: &Ask) -> u64 {
    match question {
        Ask::Page(query) => {
            let page = client.query_instances(query).await.expect("a page");
            page.items.len() as u64
        }
        Ask::Count(query, by) => {
            let counts = client.count_instances(query, *by).await.expect("counts");
            counts.iter().map(|it| it.count).sum()
        }
        Ask::CountByLabel(key) => {
            let query = InstanceQuery::new();
            let counts = client.count_instances_by_label(&query, key).await;
            counts.expect("counts").iter().map(|it| it.count).sum()
        }
        Ask::Explain(id) => {
            let why = client.explain(id).await.expect("an explanation");
            why.to_string().lines().count() as u64
        }
    }
}

/// The same by the command line, each time in a process of its own.
fn commands(subject: Subject, folder: &Path) -> Vec<Row> {
    let this = std::env::current_exe().expect("a running program has a path");
    let program = this.with_file_name("duroxide");
    if !program.exists() {
        eprintln!(
            "  no {} to measure: `cargo build --release -p duroxide-cli`",
            program.display()
        );
        return Vec::new();
    }
    let commands: &[&[&str]] = &[
        &["list"],
        &["list", "--status", "failed"],
        &["list", "--status", "running", "--updated-before", "0s"],
        &["list", "--name", "park"],
        &["list", "--label", "customer=acme"],
        &["explain", "waits-500"],
        &["show", "waits-500"],
        &["count", "--by", "status"],
        &["stats"],
    ];
    let address = open::address(subject, folder);
    let row = |command: &&[&str]| {
        let once = || {
            let mut process = Command::new(&program);
            process.args(&address).args(*command);
            process.stdout(Stdio::null()).stderr(Stdio::null());
            let began = Instant::now();
            let ended = process.status().expect("run the command line");
            assert!(ended.success(), "{command:?} ended with {ended}");
            began.elapsed().as_secs_f64()
        };
        once();
        let sample = Sample::begin(1);
        let seen = (0..TIMES).map(|_| once()).collect();
        let sample = sample.finish(Latencies::of(seen));
        let name = format!("{NAME}: duroxide {}", command.join(" "));
        let row = Row::of(subject, &name, &sample, folder);
        eprintln!("  {:8.2} ms  duroxide {}", row.p50_ms, command.join(" "));
        row
    };
    commands.iter().map(row).collect()
}
