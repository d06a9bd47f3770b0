//! The simulator. In: the words of its command line. Out: seeds run, in a build for speed; for `--defects`, in a build
//! that can have them, in a folder of its own, because every crate is built anew.

use crate::run;

pub(crate) fn run(rest: &[&str]) -> Result<(), String> {
    let args = ["run", "--release", "--package", "duroxide-sim", "--"];
    let args = [&args[..], rest].concat();
    if !rest.contains(&"--defects") {
        return run::cargo(&args);
    }
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let target = format!("{target}/defects");
    let flags = format!(
        "{} --cfg duroxide_mutants",
        std::env::var("RUSTFLAGS").unwrap_or_default()
    );
    run::cargo_with(
        &args,
        &[("RUSTFLAGS", flags.trim()), ("CARGO_TARGET_DIR", &target)],
    )
}

/// What every build runs.
pub(crate) fn gate() -> Result<(), String> {
    run(&["--seeds", "1000", "--twice"])?;
    run(&["--from", "1000", "--seeds", "9000"])
}
