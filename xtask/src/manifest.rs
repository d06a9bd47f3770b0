//! Reading the few things the gates want from TOML files. In: the text. Out: keys and quoted words. Never a full
//! parser: it knows `[section]`, `key = "word"` and lists of words, which is how the files here are written.

/// The lines of a section, without comments.
fn section<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let head = format!("[{name}]");
    text.lines()
        .map(str::trim)
        .skip_while(move |line| *line != head)
        .skip(1)
        .take_while(|line| !is_head(line))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// `[section]` or `[[section]]`; a line of a list may begin with a bracket too, but none ends with one and has no comma
/// or quote.
fn is_head(line: &str) -> bool {
    line.starts_with('[') && line.ends_with(']') && !line.contains(['"', ',', '='])
}

/// The keys of a section, in order.
pub(crate) fn keys(text: &str, name: &str) -> Vec<String> {
    section(text, name)
        .filter_map(|line| line.split_once('='))
        .map(|(key, _)| key.trim().to_owned())
        .collect()
}

/// The quoted words of one key, in one line or in a list over several.
pub(crate) fn words(text: &str, name: &str, key: &str) -> Vec<String> {
    let mut lines = section(text, name).skip_while(|line| !is_key(line, key));
    let mut value = String::new();
    for line in &mut lines {
        value.push_str(line);
        if !value.contains('[') || value.trim_end().ends_with(']') {
            break;
        }
    }
    let value = value.split_once('=').map_or("", |(_, value)| value);
    value
        .split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn is_key(line: &str, key: &str) -> bool {
    line.split_once('=')
        .is_some_and(|(found, _)| found.trim() == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[a]\nx = \"no\"\n\n[b.c]\n# x = \"not this\"\nx = [\n  \"one\",\n  \"two\", # why\n]\ny = \"three\"\n[d]\nx = []\n";

    #[test]
    fn a_list_over_several_lines_is_read_from_its_own_section() {
        assert_eq!(words(TEXT, "b.c", "x"), ["one", "two"]);
        assert_eq!(words(TEXT, "b.c", "y"), ["three"]);
        assert_eq!(words(TEXT, "d", "x"), Vec::<String>::new());
        assert_eq!(words(TEXT, "d", "missing"), Vec::<String>::new());
    }

    #[test]
    fn the_keys_of_a_section_end_with_the_section() {
        assert_eq!(
            keys(
                "[features]\ndefault = [\"a\"]\n# said\na = []\n[other]\nb = 1\n",
                "features"
            ),
            ["default", "a"]
        );
    }
}
