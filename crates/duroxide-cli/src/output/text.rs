//! Times and texts for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The text with everything that could steer a terminal, or hide, written out.
pub(crate) fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if c.is_control() || turns_direction(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Characters that change in which direction the rest of a line is shown.
fn turns_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// At most `max` characters, with an ellipsis if something is missing.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some(_) => {
            let kept: String = text.chars().take(max.saturating_sub(1)).collect();
            format!("{kept}…")
        }
        None => text.to_owned(),
    }
}

/// A point in time.
pub(crate) fn time(ms: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    // The library cannot write years beyond 9999.
    match at.filter(|_| ms < 253_402_300_800_000) {
        Some(at) => humantime::format_rfc3339_millis(at).to_string(),
        None => "never".to_owned(),
    }
}

/// How long ago something was.
pub(crate) fn ago(ms: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or(Duration::ZERO).as_millis();
    let since = now.saturating_sub(u128::from(ms));
    span(u64::try_from(since).unwrap_or(u64::MAX))
}

/// A span of time in its largest units, at most two.
pub(crate) fn span(ms: u64) -> String {
    let s = ms / 1_000;
    match (ms, s) {
        (0..1_000, _) => format!("{ms}ms"),
        (_, 0..60) => format!("{s}s"),
        (_, 60..3_600) => format!("{}m{:02}s", s / 60, s % 60),
        (_, 3_600..86_400) => format!("{}h{:02}m", s / 3_600, s % 3_600 / 60),
        _ => format!("{}d{:02}h", s / 86_400, s % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_steers_the_terminal() {
        assert_eq!(escape("a\u{1b}[31mb\nc"), "a\\u{1b}[31mb\\nc");
        assert_eq!(escape("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(escape("grüße"), "grüße");
    }

    #[test]
    fn long_texts_are_shortened_by_characters() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äö…");
    }

    #[test]
    fn times_and_spans_are_short() {
        assert_eq!(time(1_000), "1970-01-01T00:00:01.000Z");
        assert_eq!(time(u64::MAX), "never");
        assert_eq!(span(950), "950ms");
        assert_eq!(span(61_000), "1m01s");
        assert_eq!(span(90_000_000), "1d01h");
    }
}
