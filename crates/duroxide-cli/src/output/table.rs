//! Tables without lines, as wide as the terminal.

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Table,
    presets,
};
use duroxide_core::provider::InstanceStatus;

use super::text::escape;

/// The head of a column.
#[derive(Debug, Clone, Copy)]
struct Column(&'static str);

/// What a terminal that is too narrow does not show, in this order; `--json` has everything.
const LEFT_OUT: [&str; 9] = [
    "SAYS", "LABELS", "EVENTS", "RUN", "VERSION", "CREATED", "PID", "ENGINE", "STARTED",
];
/// How narrow a column of prose may become before it is left out.
const PROSE_MIN: u16 = 12;
/// The space beside the text of a column.
const PADDING: u16 = 2;

impl Column {
    /// Its text may be cut.
    fn is_prose(self) -> bool {
        matches!(self.0, "SAYS" | "LABELS")
    }

    /// Its text may be broken into lines.
    fn may_wrap(self) -> bool {
        matches!(self.0, "WHAT" | "VALUE" | "WHY" | "REASON" | "HANDLERS")
    }

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

    /// Adds a row. The table escapes the texts, so the caller does not.
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
        let is_empty: Vec<bool> = (0..self.columns.len())
            .map(|at| self.rows.iter().all(|row| row[at].is_empty()))
            .collect();
        for row in self.rows {
            let cells = row.into_iter().zip(&self.columns);
            let mut line = Row::from(
                cells
                    .map(|(text, column)| cell(text, *column))
                    .collect::<Vec<_>>(),
            );
            if self.columns.iter().any(|column| column.is_prose()) {
                line.max_height(1);
            }
            table.add_row(line);
        }
        if let Some(width) = width {
            fit(&mut table, &self.columns, &is_empty, width);
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

/// Makes one line of each row where that is possible: columns that say nothing, and then those that say least, are left
/// out, and words are not broken.
fn fit(table: &mut Table, columns: &[Column], is_empty: &[bool], width: u16) {
    let widths = table.column_max_content_widths();
    // One long id must not take the place of everything else.
    let is_long = widths.first().is_some_and(|id| *id > width / 2);
    let least = |at: usize| {
        let least = match columns[at].is_prose() || columns[at].may_wrap() {
            true => widths[at].min(PROSE_MIN),
            false if at == 0 => widths[at].min(width / 2),
            false => widths[at],
        };
        least.saturating_add(PADDING)
    };
    let mut shown: Vec<usize> = (0..columns.len()).filter(|at| !is_empty[*at]).collect();
    let fits = |shown: &[usize]| {
        let needed: u32 = shown.iter().map(|at| u32::from(least(*at))).sum();
        needed <= u32::from(width)
    };
    for name in LEFT_OUT {
        if fits(&shown) {
            break;
        }
        shown.retain(|at| columns[*at].0 != name);
    }
    let is_whole = fits(&shown);
    for (at, column) in columns.iter().enumerate() {
        let constraint = match shown.contains(&at) {
            false => ColumnConstraint::Hidden,
            true if !is_whole || column.is_prose() || column.may_wrap() => continue,
            true if at == 0 && is_long => continue,
            true => ColumnConstraint::ContentWidth,
        };
        if let Some(column) = table.column_mut(at) {
            column.set_constraint(constraint);
        }
    }
    if !is_whole || is_long {
        // Then texts are broken rather than cut, and an id as late as possible: it is there to be copied.
        for row in table.row_iter_mut() {
            row.max_height(usize::MAX);
        }
        if least(0) <= width / 2
            && let Some(first) = table.column_mut(0)
        {
            first.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
}

fn cell(text: String, column: Column) -> Cell {
    let status = text.split(',').next().unwrap_or_default();
    let color = match (column.0, InstanceStatus::of_stored(status)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn instances(says: &str) -> Rows {
        let columns = [
            "ID", "NAME", "VERSION", "STATUS", "RUN", "EVENTS", "CREATED", "UPDATED", "LABELS",
            "SAYS",
        ];
        let mut rows = Rows::new(&columns);
        for id in ["panicked-1", "order-7"] {
            let cells = [
                id,
                "approval",
                "1.0.0",
                "Completed",
                "1",
                "12",
                "1m44s",
                "1m31s",
                "",
                says,
            ];
            rows.push(cells.map(str::to_owned));
        }
        rows
    }

    #[test]
    fn a_row_is_one_line_of_whole_words_on_a_usual_terminal() {
        for says in ["", "waits for somebody who will never ever come back"] {
            let text = instances(says).render(Some(80), false);
            assert_eq!(text.lines().count(), 3, "{text}");
            assert!(
                text.lines().all(|line| line.chars().count() <= 80),
                "{text}"
            );
            for whole in ["panicked-1", "approval", "Completed", "UPDATED", "1m31s"] {
                assert!(text.contains(whole), "{whole}: {text}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_an_id_never_is() {
        let text = instances("a status").render(Some(44), false);
        assert!(
            text.lines().all(|line| line.chars().count() <= 44),
            "{text}"
        );
        assert!(
            text.contains("panicked-1") && text.contains("Completed"),
            "{text}"
        );
        assert!(!text.contains("SAYS") && !text.contains("EVENTS"), "{text}");
        let text = instances("").render(Some(26), false);
        assert!(text.contains("panicked-1"), "{text}");
    }

    #[test]
    fn a_long_id_may_wrap_and_the_rest_stays() {
        let mut rows = Rows::new(&["ID", "STATUS", "EVENTS", "SAYS"]);
        let long = "x".repeat(200);
        rows.push([long.as_str(), "Running", "3", ""].map(str::to_owned));
        let text = rows.render(Some(80), false);
        assert_eq!(text.matches('x').count(), 200, "{text}");
        assert!(
            text.contains("Running") && text.contains("EVENTS"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }

    #[test]
    fn a_pipe_gets_every_column() {
        let text = instances("").render(None, false);
        assert!(text.contains("SAYS") && text.contains("LABELS"), "{text}");
    }
}
