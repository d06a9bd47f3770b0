//! Every example, run as a user runs it, with its output checked.
//!
//! `cargo nextest run` and `cargo xtask test` build the examples first, next to the tests' own programs. With a target
//! named (`--test examples`) cargo builds only that: run
//! `cargo build -p duroxide -p duroxide-tests --examples --all-features` before it.

use std::path::PathBuf;
use std::process::Command;

/// The built program of an example.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let target = test
        .parent()
        .and_then(|deps| deps.parent())
        .expect("tests are built in <target>/<profile>/deps");
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let program = target.join("examples").join(file);
    assert!(
        program.is_file(),
        "{} is not built; run `cargo build -p duroxide -p duroxide-tests --examples --all-features` first",
        program.display()
    );
    program
}

/// What an example prints. Fails if the example does.
fn output(name: &str, args: &[&str]) -> String {
    let done = Command::new(program(name))
        .args(args)
        .output()
        .unwrap_or_else(|e| panic!("{name} does not start: {e}"));
    let text = String::from_utf8(done.stdout).expect("examples print text");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{name}: {}\n{text}\n{errors}",
        done.status
    );
    assert_eq!(errors, "", "{name} complains");
    text
}

fn prints(name: &str, expected: &str) {
    assert_eq!(output(name, &[]), expected, "{name}");
}

const HELLO_HISTORY: &str = "\
the result: HELLO, RUST!
what the store recorded:
   1  hello began with `Rust`
   2  asked for greet of `Rust`
   3  step 2 gave `Hello, Rust!`
   4  set a timer
   5  the timer of step 4 fired
   6  asked for shout of `Hello, Rust!`
   7  step 6 gave `HELLO, RUST!`
   8  ended with `HELLO, RUST!`
";

const HELLO_WORK: &str = "\
start the instance `first` of the orchestration `hello`
  (the activity greet runs)
  (the activity shout runs)
";

#[test]
fn hello_world_tells_what_was_recorded() {
    prints("hello_world", &format!("{HELLO_WORK}{HELLO_HISTORY}"));
}

/// Runs the program of the README in a folder.
fn breakfast(folder: &std::path::Path) -> String {
    let done = Command::new(program("breakfast"))
        .current_dir(folder)
        .output()
        .expect("the example starts");
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).expect("examples print text")
}

#[test]
fn the_program_of_the_readme_does_nothing_twice() {
    const RESULT: &str = "Ada had a cup of coffee and a cup of tea\n";
    let folder = tempfile::tempdir().unwrap();
    let first = breakfast(folder.path());
    assert_eq!(first, format!("brewing coffee\nbrewing tea\n{RESULT}"));
    assert_eq!(breakfast(folder.path()), RESULT);
}

#[test]
fn the_readme_shows_the_example_breakfast() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = std::fs::read_to_string(root.join("../duroxide/examples/breakfast.rs")).unwrap();
    let (_, program) = example.split_once("\n\n").unwrap();
    let page = std::fs::read_to_string(root.join("../../README.md")).unwrap();
    assert!(page.contains(program), "the README shows another program");
}

#[test]
fn hello_world_on_a_kept_file_does_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hello.db");
    let path = path.to_str().unwrap();
    let first = output("hello_world", &[path]);
    assert_eq!(first, format!("{HELLO_WORK}{HELLO_HISTORY}"));
    let second = output("hello_world", &[path]);
    let expected = format!(
        "start the instance `first` of the orchestration `hello`\n  \
         (this file knows it already: nothing runs again)\n{HELLO_HISTORY}"
    );
    assert_eq!(second, expected);
}

#[test]
fn checkout_pays_asks_and_refunds() {
    prints(
        "checkout",
        "\
a pencil
  charge 250 EUR
  sold for 250 cents
a piano, approved
  charge 250000 EUR
  charge 250000 EUR
  sold for 250000 cents
a yacht, and nobody decides
  charge 90000 EUR
  refund 90000 EUR
  nobody decided in time
for nothing
  charge 0 EUR
  not paid: the card was declined
",
    );
}

#[test]
fn account_answers_refuses_and_publishes() {
    prints(
        "account",
        "\
one account: true
slip 1: 30 of the money, 70 left
slip 2: 50 of the money, 20 left
slip 2: 50 of the money, 20 left
slip 3: refused, only 20 are left
the view: 20 cents, 2 withdrawals
closed after 3 withdrawals
2 short histories
",
    );
}

#[test]
fn actors_send_to_each_other_and_wait_for_each_other() {
    prints(
        "actors",
        "\
the basket: a card, a ribbon, tea
Ada is too late
Bob's gift is number 1
",
    );
}

#[test]
fn long_import_goes_on_where_the_hung_attempt_was() {
    prints(
        "long_import",
        "\x20 begin behind row 0
  silence after row 70
  begin behind row 70
orders-2026.csv: 100 rows, 30 of them by the last attempt
",
    );
}

#[test]
fn safe_deploy_knows_the_careless_from_the_careful() {
    let mut told: Vec<String> = output("safe_deploy", &[])
        .lines()
        .map(str::to_owned)
        .collect();
    // The check of the new order and the end of the old one are anybody's race.
    told[2..].sort();
    assert_eq!(
        told,
        [
            "careless code is safe: false",
            "careful code is safe: true",
            "  order 8 looks fine",
            "order 7 is on its way",
            "order 8 is on its way",
        ]
    );
}

#[test]
fn travel_undoes_in_reverse_and_leaves_the_abandoned_child_alone() {
    let mut told: Vec<String> = output("travel", &[]).lines().map(str::to_owned).collect();
    // Hotel and train are booked at once.
    told[1..3].sort();
    told[7..9].sort();
    assert_eq!(
        told,
        [
            "to Rome",
            "  booked a hotel in Rome",
            "  booked a train in Rome",
            "  booked a guide in Rome",
            "  booked a stamp",
            "by the window, a guide in Rome, a stamp",
            "to the moon",
            "  booked a hotel on the moon",
            "  booked a train on the moon",
            "  cancelled a train on the moon",
            "  cancelled a hotel on the moon",
            "  booked a stamp",
            "not travelled: there are none",
            "and yet: news of on the moon",
        ]
    );
}

#[test]
fn fan_out_collects_in_order() {
    prints(
        "fan_out",
        "\
counting 3 pages at once
  rain: 7 words
  sun: 5 words
  wind: 3 words
together 15 words
",
    );
}

#[test]
fn timers_and_events_lose_nothing() {
    prints(
        "timers_and_events",
        "\
Ada queues up
Grace queues up
Edsger queues up
the ferry is waiting for the whistle
the whistle blows
Captain Hopper took Ada, Grace, Edsger across
",
    );
}

#[test]
fn human_approval_waits_for_a_person_or_for_time() {
    prints(
        "human_approval",
        "\
coffee: small enough, paid
to the manager: please decide about the train ticket
train ticket: paid by Barbara
to the manager: please decide about the yacht
yacht: nobody answered, refused
",
    );
}

#[test]
fn retry_and_saga_undo_in_reverse_order() {
    prints(
        "retry_and_saga",
        "\
a trip to Lisbon:
  hotel booked for Lisbon
  train: the line is busy
  train: the line is busy
  train booked for Lisbon
  guide booked for Lisbon
done: travelled with hotel, train, guide
a trip to the moon:
  hotel booked for the moon
  train booked for the moon
  no guide knows the moon
  no guide knows the moon
  no guide knows the moon
  train cancelled
  hotel cancelled
failed: stayed at home: no guide knows the moon
",
    );
}

#[test]
fn sub_orchestrations_have_lives_of_their_own() {
    prints(
        "sub_orchestrations",
        "\
table 4 orders soup, unicorn and pie
table 4 got: hot soup, nothing (we are out of unicorn), hot pie
the family of instances:
  pie: dish Completed
  soup: dish Completed
  table-4: table Completed
  unicorn: dish Failed
  unicorn~2: dish Failed
and on its own, wash-up-4: 3 plates washed
",
    );
}

#[test]
fn eternal_loop_begins_a_new_execution_each_round() {
    prints(
        "eternal_loop",
        "\
the shop opens
  receipt: 250 cents
  receipt: 399 cents
  receipt: 120 cents
the shop closes: 3 sales, 769 cents
4 executions:
  1: ContinuedAsNew
  2: ContinuedAsNew
  3: ContinuedAsNew
  4: Completed
",
    );
}

#[test]
fn versioned_upgrade_leaves_running_instances_alone() {
    prints(
        "versioned_upgrade",
        "\
the old program starts two instances
the new program takes over and starts one more
  early ended as version 1.0.0: letter to Ada with a blue stamp, by coach
  late ended as version 2.0.0: letter to Alan with a blue stamp, traced, by air
  round ended as version 2.0.0: by bicycle, Tuesday
",
    );
}

#[test]
fn cancellation_reaches_children_and_activities() {
    prints(
        "cancellation",
        "\
the digger begins
the money runs out
the digger was told and packs up
tunnel-1 ended: canceled: no more money
inspector ended: canceled: parent canceled
",
    );
}

#[test]
fn progress_is_seen_while_it_happens() {
    prints(
        "progress",
        "\
batch 1 of 3 done, 100 rows so far
batch 2 of 3 done, 300 rows so far
batch 3 of 3 done, 600 rows so far
finished with 600 rows
the view stays: Some(Progress { done: 3, of: 3, rows: 600 })
",
    );
}

#[test]
fn worker_tags_and_sessions_choose_the_worker() {
    prints(
        "worker_tags_and_sessions",
        "\
write ran on an office machine
render ran on a render machine
no worker took the music
load, cut and save ran on one worker
",
    );
}

#[test]
fn crash_and_resume_does_every_step_once() {
    prints(
        "crash_and_resume",
        "\
a worker process starts
  carry box 1
  carry box 2
  carry box 3
it was killed in the middle of box 3; another one starts
  box 3 is there already, attempt 2
  carry box 4
  carry box 5
done, 5 boxes. The ledger:
box 1 [move/1/2]
box 2 [move/1/4]
box 3 [move/1/6]
box 4 [move/1/8]
box 5 [move/1/10]
",
    );
}
#[test]
fn an_order_and_its_orchestration_are_committed_or_rolled_back_together() {
    let url = std::env::var("DUROXIDE_TEST_POSTGRES_URL")
        .expect("`cargo xtask test` starts a server; for a single run `cargo xtask postgres` does");
    assert_eq!(
        output("order_in_one_transaction", &[&url]),
        "committed: order-7 was shipped\nrolled back: NotFound\n"
    );
}

#[test]
fn an_order_and_its_orchestration_are_committed_or_rolled_back_together_in_one_file() {
    prints(
        "order_in_one_file",
        "committed: order-7 was shipped\nrolled back: NotFound\n",
    );
}

#[test]
fn traced_order() {
    let text = output("traced_order", &[]);
    let count = |line: &str| text.lines().filter(|one| *one == line).count();
    assert_eq!(count("request"), 1);
    assert_eq!(count("  orchestration order"), 1);
    assert_eq!(count("    turn order"), 3);
    assert_eq!(count("    orchestration invoice"), 2);
    assert_eq!(count("      turn invoice"), 4);
    assert_eq!(count("      activity charge"), 2);
    let charged = "charging 500 with traceparent 00-4bf92f3577b34da6a3ce929d0e0e4736-";
    assert_eq!(text.matches(charged).count(), 2);
}
