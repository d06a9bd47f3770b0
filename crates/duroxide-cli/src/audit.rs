//! The audit trail of the command line: commands that change a store as a whole and use no client. In: what was done.
//! Out: a log line, and a line in the file that `DUROXIDE_AUDIT_FILE` names.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Mutex;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::failure::Failure;
use crate::store::operator;

const TARGET: &str = "duroxide::audit";

/// An operator did this.
pub(crate) fn line(verb: &'static str, detail: &str) {
    let actor = operator();
    tracing::info!(target: "duroxide::audit", verb, instance_id = "", actor, detail, "an operator changed a store");
}

/// Keeps the trail in the file that the environment names, if it names one.
pub(crate) fn listen() -> Result<(), Failure> {
    let Some(path) = std::env::var_os("DUROXIDE_AUDIT_FILE").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    // Fails only if there is one already.
    let _ = tracing::subscriber::set_global_default(Trail(Mutex::new(file)));
    Ok(())
}

/// Writes the trail, a line of JSON for each deed.
struct Trail(Mutex<File>);

impl Subscriber for Trail {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let at = humantime::format_rfc3339_millis(std::time::SystemTime::now());
        fields.0.insert("at".to_owned(), at.to_string().into());
        let mut text = serde_json::Value::Object(fields.0).to_string();
        text.push('\n');
        // One call for each line: lines of several processes do not run into each other.
        if let Ok(mut file) = self.0.lock()
            && let Err(error) = file.write_all(text.as_bytes())
        {
            eprintln!("the audit trail cannot be written: {error}");
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Fields(serde_json::Map<String, serde_json::Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let mut text = String::new();
        let _ = write!(text, "{value:?}");
        self.0.insert(field.name().to_owned(), text.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}
