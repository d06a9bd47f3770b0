//! A file that says what a program declares. In: its handlers and the file. Out: nothing, or what has changed since the
//! file was written.

use std::collections::BTreeMap;
use std::path::Path;

use duroxide_runtime::{Declared, Handlers, stored_types};

const HEAD: &str = "\
# What this program declares. A test compares it with the code; after a change that you mean,
# write it anew: MANIFEST=write cargo test
";

/// Compares the definitions of a program with a file in its repository, so that no change of them goes unnoticed: a
/// type, a field or a variant of it, the code of an orchestration whose version stayed the same, a definition that is
/// gone while instances may still need it. With `MANIFEST=write` in the environment the file is written instead.
///
/// Structs and enums are compared by the form that they are stored in, as [`stored_types`] tells it; what that cannot
/// see (untagged enums, flattened fields, texts with a form of their own) goes unnoticed, and so does the code that an
/// orchestration calls.
///
/// ```
/// use duroxide::prelude::*;
/// use duroxide::testing::assert_manifest;
///
/// #[duroxide::orchestration(version = "1.0.0")]
/// async fn order(ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
///     Ok(cents)
/// }
///
/// let code = || Handlers::new().register(order);
/// # let folder = std::env::temp_dir().join(format!("duroxide-manifest-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// # let file = folder.join("duroxide.manifest");
/// # let lines: Vec<String> = code().declared().iter().map(ToString::to_string).collect();
/// # std::fs::write(&file, lines.join("\n")).unwrap();
/// assert_manifest(&file, &code()); // in a test: `concat!(env!("CARGO_MANIFEST_DIR"), "/duroxide.manifest")`
/// # std::fs::remove_dir_all(&folder).unwrap();
/// ```
///
/// # Panics
///
/// If the code and the file differ, with every difference and what to do about it; if the file cannot be read or
/// written.
#[track_caller]
pub fn assert_manifest(file: impl AsRef<Path>, handlers: &Handlers) {
    let (file, declared) = (file.as_ref(), handlers.declared());
    if std::env::var_os("MANIFEST").is_some_and(|wish| wish == "write") {
        let written = std::fs::write(file, text(&declared));
        written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        return;
    }
    let recorded = std::fs::read_to_string(file).unwrap_or_else(|error| {
        panic!("{}: {error}; write it with MANIFEST=write", file.display())
    });
    let changes = changes(&recorded, &declared);
    assert!(
        changes.is_empty(),
        "{} does not say what the code declares:\n- {}\nIf you mean it, write it anew: MANIFEST=write cargo test",
        file.display(),
        changes.join("\n- ")
    );
}

fn text(declared: &[Declared]) -> String {
    let mut text = HEAD.to_owned();
    for one in declared {
        text.push_str(&one.to_string());
        text.push('\n');
    }
    for (name, form) in stored_types(declared) {
        text.push_str(&format!("type {name}: {form}\n"));
    }
    text
}

/// What has changed since a manifest was written, in words.
#[must_use]
pub fn changes(recorded: &str, declared: &[Declared]) -> Vec<String> {
    let lines = recorded.lines().filter(|line| !line.starts_with('#'));
    let mut recorded: BTreeMap<&str, &str> =
        lines.filter_map(|line| line.split_once(": ")).collect();
    let mut changes = Vec::new();
    for one in declared {
        let (key, line) = (one.key(), one.to_string());
        let today = line.get(key.len() + 2..).unwrap_or_default();
        match recorded.remove(key.as_str()) {
            Some(before) if before == today => {}
            Some(before) => changes.push(changed(&key, before, today)),
            None => changes.push(format!("{key} is not in the file")),
        }
    }
    for (name, today) in stored_types(declared) {
        let key = format!("type {name}");
        match recorded.remove(key.as_str()) {
            Some(before) if before == today => {}
            Some(before) => changes.push(format!(
                "the stored form of {name} has changed from {before} to {today}: what is stored must still decode"
            )),
            None => changes.push(format!("{key} is not in the file")),
        }
    }
    changes.extend(
        recorded
            .into_keys()
            .map(|key| match key.strip_prefix("type ") {
                Some(name) => format!(
                    "nothing declares {name} any more: what is stored of it must still decode"
                ),
                None => format!(
                    "{key} is gone: instances that run may need it (`verify_store` tells which)"
                ),
            }),
    );
    changes
}

fn changed(key: &str, before: &str, today: &str) -> String {
    let types = |text: &str| text.split("; code ").next().unwrap_or_default().to_owned();
    let (types_before, types_today) = (types(before), types(today));
    if types_before == types_today {
        format!(
            "the code of {key} has changed: instances that run replay it; give it a new version, or put the change behind `ctx.patched`"
        )
    } else {
        format!(
            "the types of {key} have changed from {types_before} to {types_today}: what is stored must still decode"
        )
    }
}
