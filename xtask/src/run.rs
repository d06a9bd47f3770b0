//! Running cargo, aloud.

use std::process::Command;
use std::sync::OnceLock;

/// Names an existing PostgreSQL server, which the tests then use.
pub(crate) const SERVER_URL: &str = "DUROXIDE_TEST_POSTGRES_URL";

/// The server that every cargo command of this run is told about.
static SERVER: OnceLock<String> = OnceLock::new();

/// Tells every later cargo command where the PostgreSQL server is.
pub(crate) fn with_server(url: String) {
    // There is one server per run.
    let _ = SERVER.set(url);
}

/// The cargo that runs this program, or the one on the path.
fn command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs cargo with its output shown.
pub(crate) fn cargo(args: &[&str]) -> Result<(), String> {
    cargo_with(args, &[])
}

/// Runs cargo with its output shown and some variables set.
pub(crate) fn cargo_with(args: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
    let said = format!("cargo {}", args.join(" "));
    println!("   {said}");
    let status = command()
        .args(args)
        .envs(env.iter().copied())
        .envs(SERVER.get().map(|url| (SERVER_URL, url)))
        .status()
        .map_err(|e| format!("`{said}` does not start: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{said}` ended with {status}"))
    }
}

/// What cargo prints.
pub(crate) fn cargo_output(args: &[&str]) -> Result<String, String> {
    let said = format!("cargo {}", args.join(" "));
    println!("   {said}");
    let done = command()
        .args(args)
        .output()
        .map_err(|e| format!("`{said}` does not start: {e}"))?;
    if !done.status.success() {
        let errors = String::from_utf8_lossy(&done.stderr);
        return Err(format!("`{said}` ended with {}\n{errors}", done.status));
    }
    String::from_utf8(done.stdout).map_err(|e| format!("`{said}` printed something odd: {e}"))
}

/// Whether a cargo command exists.
pub(crate) fn cargo_knows(subcommand: &str) -> bool {
    command()
        .args([subcommand, "--version"])
        .output()
        .is_ok_and(|done| done.status.success())
}

/// Runs another program with its output shown.
pub(crate) fn program(name: &str, args: &[&str]) -> Result<(), String> {
    let said = format!("{name} {}", args.join(" "));
    println!("   {said}");
    let status = Command::new(name)
        .args(args)
        .status()
        .map_err(|e| format!("`{said}` does not start: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{said}` ended with {status}"))
    }
}

/// Builds a package of the workspace for speed and runs its command with the rest of the words.
pub(crate) fn passing_through(package: &str, command: &str, rest: &[&str]) -> Result<(), String> {
    let args = ["run", "--release", "--package", package, "--", command];
    cargo(&[&args[..], rest].concat())
}

/// Whether this is root, whose machine is a container or a build server.
pub(crate) fn is_root() -> bool {
    let asked = Command::new("id").arg("-u").output();
    asked.is_ok_and(|answer| answer.stdout.trim_ascii() == b"0")
}
