//! `duroxide`: the command line on a store. In: a command. Out: tables or JSON on standard output, everything else on
//! standard error, and an exit code that scripts can rely on. It talks to stores through `Client` and the provider
//! contract.

mod args;
mod audit;
mod commands;
mod failure;
mod filter;
mod instance;
mod output;
mod store;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, ColorChoice};
use crate::failure::Failure;
use crate::output::Output;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return misused(&error),
    };
    let output = Output::new(arguments.json, arguments.color);
    let done = match audit::listen() {
        Ok(()) => commands::run(arguments, &output).await,
        Err(failure) => Err(failure),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Help, or what is wrong with the arguments: as JSON too, if one of them asks for that.
fn misused(error: &clap::Error) -> ExitCode {
    let is_json = std::env::args_os()
        .take_while(|argument| argument != "--")
        .any(|argument| argument == "--json");
    if !is_json || !error.use_stderr() {
        error.exit();
    }
    let told = error.to_string();
    let told = told.trim_start_matches("error: ").trim_end();
    let failure = Failure::Usage(told.to_owned());
    Output::new(true, ColorChoice::Never).failure(&failure);
    ExitCode::from(failure.exit_code())
}
