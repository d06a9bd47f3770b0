//! A complete provider in a few hundred lines, and the kit that proves it.
//!
//! Everything lives in one [`State`](state::State) behind one mutex, so that every call is one atomic step: look at how
//! `turns.rs` and `work.rs` check everything before they change anything. Run it with
//! `cargo run -p duroxide-validation --example tiny_provider`.

mod admin;
mod factory;
mod history;
mod provider;
mod state;
mod turns;
mod work;

use std::process::ExitCode;

use duroxide_validation::run_all_validations;

#[tokio::main]
async fn main() -> ExitCode {
    match run_all_validations(factory::TinyFactory::default())
        .await
        .into_result()
    {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
