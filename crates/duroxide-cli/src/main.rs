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

use crate::args::Arguments;
use crate::output::Output;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
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
