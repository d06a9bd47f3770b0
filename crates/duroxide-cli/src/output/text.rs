//! Times and texts for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The text with everything that could steer a terminal, or hide, written out.
pub(crate) fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // Otherwise `\n` in a text and a line break would look alike.
            '\\' => shown.push_str("\\\\"),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if hides(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// JSON in which those characters are escaped too: they can only stand in its strings.
pub(super) fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => shown.push(c),
            c if hides(c) => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => shown.push(c),
        }
    }
    shown
}

/// Characters that steer a terminal, change the direction of a line, or cannot be seen.
fn hides(c: char) -> bool {
    let is_unseen = matches!(
        c,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
    );
    c.is_control() || is_unseen
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

/// So many things, as in `1 instance` and `2 instances`.
pub(crate) fn count_of(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

/// The verb that belongs to so many.
pub(crate) fn were(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
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
    span(age_ms(ms))
}

/// How many milliseconds have passed since a time; none if it is to come.
pub(crate) fn age_ms(ms: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or(Duration::ZERO).as_millis();
    let since = now.saturating_sub(u128::from(ms));
    u64::try_from(since).unwrap_or(u64::MAX)
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
        assert_eq!(
            escape("a\u{200b}\u{2028}\u{feff}b"),
            "a\\u{200b}\\u{2028}\\u{feff}b"
        );
        assert_eq!(escape("grüße"), "grüße");
        assert_ne!(
            escape("a\\nb"),
            escape("a\nb"),
            "which of the two it was can be seen"
        );
    }

    #[test]
    fn json_hides_nothing_and_means_the_same() {
        let text = "a\u{9b}31m\u{202e}\u{7f}\nb";
        let json = serde_json::to_string(text).expect("a string");
        let shown = visible_json(&json);
        assert!(shown.is_ascii(), "{shown}");
        let read: String = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(read, text);
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
