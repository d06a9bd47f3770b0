//! Tables without lines, as wide as the terminal.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use duroxide_core::provider::InstanceStatus;

use super::text::escape;

/// The head of a column.
#[derive(Debug, Clone, Copy)]
struct Column(&'static str);

impl Column {
    /// Numbers stand to the right.
    fn is_number(self) -> bool {
        matches!(self.0, "EVENTS" | "RUN" | "COUNT" | "NUMBER" | "EVENT")
    }
}

/// A table that is being filled.
#[derive(Debug)]
pub(crate) struct Rows {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    pub(crate) fn new(columns: &[&'static str]) -> Self {
        Self {
            columns: columns.iter().map(|name| Column(name)).collect(),
            rows: Vec::new(),
        }
    }

    /// Texts are escaped; they need not be.
    pub(crate) fn push<const N: usize>(&mut self, cells: [String; N]) {
        self.rows
            .push(cells.into_iter().map(|text| escape(&text)).collect());
    }

    pub(crate) fn render(self, width: Option<u16>, color: bool) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        match width {
            Some(width) => {
                table.set_content_arrangement(ContentArrangement::Dynamic);
                table.set_width(width);
            }
            None => {
                table.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        if color {
            table.enforce_styling()
        } else {
            table.force_no_tty()
        };
        let head = |column: &Column| Cell::new(column.0).add_attribute(Attribute::Bold);
        table.set_header(self.columns.iter().map(head));
        for row in self.rows {
            let cells = row.into_iter().zip(&self.columns);
            table.add_row(cells.map(|(text, column)| cell(text, *column)));
        }
        let mut text = String::new();
        for line in table.lines() {
            // The first column begins at the left edge, and nothing trails.
            text.push_str(line.strip_prefix(' ').unwrap_or(&line).trim_end());
            text.push('\n');
        }
        text
    }
}

fn cell(text: String, column: Column) -> Cell {
    let color = match (column.0, InstanceStatus::of_stored(&text)) {
        ("STATUS", InstanceStatus::Running) => Some(Color::Cyan),
        ("STATUS", InstanceStatus::Completed) => Some(Color::Green),
        ("STATUS", InstanceStatus::Failed) => Some(Color::Red),
        ("STATUS", InstanceStatus::ContinuedAsNew) => Some(Color::Yellow),
        _ => None,
    };
    let cell = Cell::new(text);
    let cell = if column.is_number() {
        cell.set_alignment(CellAlignment::Right)
    } else {
        cell
    };
    match color {
        Some(color) => cell.fg(color),
        None => cell,
    }
}

/// The width of the terminal that standard output is.
pub(super) fn terminal_width() -> Option<u16> {
    Table::new().width()
}
