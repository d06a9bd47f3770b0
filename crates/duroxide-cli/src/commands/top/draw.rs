//! One sample as a screen. In: a sample and the space there is. Out: text; what comes from users is escaped. Fits 80
//! columns and 24 lines, and uses more where there is more.

use duroxide_core::provider::InstanceSummary;
use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table};

use super::sample::Sample;
use crate::output::{ago, escape, span};

/// The size of the screen that `--once` writes.
const ONCE: (u16, u16) = (80, 24);

pub(super) fn screen(frame: &mut Frame<'_>, sample: &Sample) {
    let nodes = u16::try_from(sample.nodes.len()).unwrap_or(u16::MAX);
    let areas = Layout::vertical([
        Constraint::Length(4),
        Constraint::Min(4),
        Constraint::Min(4),
        Constraint::Length(nodes.saturating_add(2).min(6)),
        Constraint::Length(1),
    ])
    .split(frame.area());
    frame.render_widget(Paragraph::new(numbers(sample)), areas[0]);
    list(frame, areas[1], "SLOWEST", "AGE", &sample.slowest);
    list(frame, areas[2], "FAILED LAST", "ENDED", &sample.failing);
    who(frame, areas[3], sample);
    let foot = match &sample.trouble {
        Some(why) => Span::styled(escape(why), Style::new().fg(Color::Red)),
        None => Span::raw("q quits, any other key looks at once"),
    };
    frame.render_widget(Paragraph::new(foot), areas[4]);
}

/// The screen of a sample, as text.
pub(super) fn as_text(sample: &Sample) -> String {
    let backend = TestBackend::new(ONCE.0, ONCE.1);
    let Ok(mut terminal) = Terminal::new(backend);
    let Ok(_) = terminal.draw(|frame| screen(frame, sample));
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for line in buffer.content().chunks(usize::from(ONCE.0)) {
        let line: String = line.iter().map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn numbers(sample: &Sample) -> Vec<Line<'static>> {
    let time = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), span);
    let alarm = |count: u64| match count {
        0 => Style::new(),
        _ => Style::new().fg(Color::Red),
    };
    vec![
        Line::from(vec![
            Span::raw(format!("running {:<10} ", sample.running)),
            Span::styled(
                format!("failed {:<10} ", sample.failed),
                alarm(sample.failed),
            ),
            Span::styled(
                format!("dead letters {}", sample.dead_letters),
                alarm(sample.dead_letters),
            ),
        ]),
        Line::raw(format!(
            "per second: started {:<8.1} completed {:<8.1} failed {:<8.1}",
            sample.started_per_s, sample.completed_per_s, sample.failed_per_s
        )),
        Line::raw(format!(
            "to the end: half within {:<8} 99 % within {:<8}",
            time(sample.p50_ms),
            time(sample.p99_ms)
        )),
        Line::raw(format!(
            "queues:     messages {:<8} activities {:<8} timers {:<8}",
            sample.messages, sample.activities, sample.timers
        )),
    ]
}

fn list(frame: &mut Frame<'_>, area: Rect, title: &str, time: &str, of: &[InstanceSummary]) {
    let row = |one: &InstanceSummary| {
        let at_ms = one.ended_at_ms.unwrap_or(one.created_at_ms);
        let status = one.custom_status.as_deref();
        Row::new([
            escape(&one.instance_id),
            escape(&one.name),
            ago(at_ms),
            escape(status.unwrap_or_default()),
        ])
    };
    let widths = [
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Length(12),
        Constraint::Fill(2),
    ];
    let table = Table::new(of.iter().map(row), widths).header(heading([title, "NAME", time, ""]));
    frame.render_widget(table, area);
}

fn who(frame: &mut Frame<'_>, area: Rect, sample: &Sample) {
    let rows = sample.nodes.iter().map(|seen| {
        let (state, style) = if seen.is_gone {
            ("gone", Style::new().fg(Color::Red))
        } else {
            ("up", Style::new())
        };
        Row::new([
            escape(&seen.node.name),
            escape(&seen.node.host),
            state.to_owned(),
            ago(seen.last_seen_ms),
        ])
        .style(style)
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Length(12),
        Constraint::Fill(2),
    ];
    let title = if sample.nodes.is_empty() {
        "NODE (none is up)"
    } else {
        "NODE"
    };
    let table = Table::new(rows, widths).header(heading([title, "HOST", "STATE", "SEEN"]));
    frame.render_widget(table, area);
}

fn heading<const N: usize>(words: [&str; N]) -> Row<'static> {
    let style = Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED);
    Row::new(words.map(str::to_owned)).style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_fits_a_small_terminal_and_an_empty_store_is_shown() {
        let text = as_text(&Sample::default());
        assert_eq!(text.lines().count(), 24);
        for word in [
            "running 0",
            "SLOWEST",
            "FAILED LAST",
            "NODE (none is up)",
            "q quits",
        ] {
            assert!(text.contains(word), "{word} is missing:\n{text}");
        }
    }

    #[test]
    fn trouble_is_told_and_steers_no_terminal() {
        let trouble = Some("away \u{1b}[2J".to_owned());
        let text = as_text(&Sample {
            trouble,
            ..Sample::default()
        });
        assert!(text.contains("away") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_tiny_terminal_is_no_reason_to_panic() {
        let backend = TestBackend::new(10, 3);
        let Ok(mut terminal) = Terminal::new(backend);
        let Ok(_) = terminal.draw(|frame| screen(frame, &Sample::default()));
    }
}
