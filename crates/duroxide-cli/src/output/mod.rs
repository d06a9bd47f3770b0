//! What a person or a script sees. In: rows and values. Out: text on standard output. Texts of users are escaped here.

mod table;
mod text;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::args::ColorChoice;
use crate::failure::Failure;

pub(crate) use table::Rows;
use text::visible_json;
pub(crate) use text::{age_ms, ago, count_of, escape, shorten, span, time, were};

/// Where a command's answer goes.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    color: bool,
    /// The width of the terminal; `None` if the output is no terminal.
    width: Option<u16>,
    is_terminal: bool,
}

impl Output {
    pub(crate) fn new(json: bool, color: ColorChoice) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let color = match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none(),
        };
        let columns = std::env::var("COLUMNS").ok();
        let chosen = columns.and_then(|columns| columns.parse().ok());
        let width = if is_terminal {
            chosen.or_else(table::terminal_width)
        } else {
            chosen
        };
        Self {
            json,
            color,
            width,
            is_terminal,
        }
    }

    /// One line of text, escaped.
    pub(crate) fn line(&self, text: impl AsRef<str>) -> Result<(), Failure> {
        self.raw(&format!("{}\n", escape(text.as_ref())))
    }

    /// Text as it is.
    pub(crate) fn raw(&self, text: &str) -> Result<(), Failure> {
        let written = io::stdout().lock().write_all(text.as_bytes());
        match written {
            // The reader has closed the pipe: `duroxide list | head`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            other => Ok(other?),
        }
    }

    /// A value as JSON for a person to read.
    pub(crate) fn document(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = visible_json(&serde_json::to_string_pretty(value)?);
        self.raw(&format!("{text}\n"))
    }

    /// A value as one line of JSON.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = visible_json(&serde_json::to_string(value)?);
        self.raw(&format!("{text}\n"))
    }

    /// Something for a person and not for a script.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        self.write_error(&escape(text.as_ref()));
    }

    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            let code = failure.exit_code();
            let error = serde_json::json!({ "error": failure.to_string(), "exit_code": code });
            self.write_error(&visible_json(&error.to_string()));
        } else {
            self.note(format!("error: {failure}"));
        }
    }

    /// A line on standard error. A failure to write it is ignored: there is no other place for it.
    fn write_error(&self, line: &str) {
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// A payload of a user: as it is for a program that reads it, escaped line by line on a terminal.
    pub(crate) fn payload(&self, text: &str) -> Result<(), Failure> {
        if !self.is_terminal {
            return self.raw(&format!("{text}\n"));
        }
        text.split('\n').try_for_each(|line| self.line(line))
    }

    pub(crate) fn table(&self, rows: Rows) -> Result<(), Failure> {
        let text = rows.render(self.width, self.color);
        self.raw(&text)
    }

    /// A sign of life on standard error for something whose length is not known; hidden if that is no terminal.
    pub(crate) fn spinner(&self, what: impl Into<String>) -> ProgressBar {
        let spinner = ProgressBar::new_spinner().with_message(what.into());
        spinner.enable_steady_tick(Duration::from_millis(100));
        spinner
    }

    /// A bar on standard error; hidden if that is no terminal.
    pub(crate) fn progress(&self, total: usize, what: &'static str) -> ProgressBar {
        let bar = ProgressBar::new(total as u64).with_message(what);
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}");
        match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }
}
