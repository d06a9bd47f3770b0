//! The project's own commands: `cargo xtask test` is what a contributor and the build server run.

mod builds;
mod cycles;
mod deny;
mod dependencies;
mod files;
mod gates;
mod license;
mod manifest;
mod package;
mod postgres;
mod prose;
mod run;
mod setup;
mod sim;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [] | ["help" | "--help" | "-h"] => {
            help();
            Ok(())
        }
        ["setup"] => setup::install(false),
        ["setup", "--dry-run"] => setup::install(true),
        ["wrap"] => prose::wrap(),
        ["test"] => gates::all(),
        ["test", names @ ..] => gates::some(names),
        ["postgres"] => postgres::serve(),
        ["chaos", rest @ ..] => run::passing_through("duroxide-chaos", "run", rest),
        ["soak", rest @ ..] => run::passing_through("duroxide-chaos", "soak", rest),
        ["sim", rest @ ..] => sim::run(rest),
        ["bench", rest @ ..] => run::passing_through("duroxide-bench", "run", rest),
        [other, ..] => Err(format!("unknown command `{other}`; try `cargo xtask help`")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn help() {
    println!("cargo xtask setup           install what the gates need; --dry-run only says what");
    println!(
        "cargo xtask test            run every gate, in this order; stops at the first that fails"
    );
    println!("cargo xtask test GATE ...   run only these");
    println!("cargo xtask postgres        start a private PostgreSQL server and print its url");
    println!("cargo xtask chaos --kills N kill a worker N times, check, write --report FILE");
    println!(
        "cargo xtask soak --hours N  watch one process for hours while another is killed and stopped"
    );
    println!("cargo xtask sim --seeds N   simulate N deployments; --seed N --trace shows one");
    println!(
        "cargo xtask sim --defects   put known defects back and count the seeds that show them"
    );
    println!("cargo xtask bench ...       measure every store and the published crate");
    println!("cargo xtask wrap            break the long lines of the pages");
    println!("cargo xtask help            this text");
    println!();
    println!("gates:");
    for gate in gates::GATES {
        println!("  {:<16} {}", gate.name, gate.about);
    }
}
