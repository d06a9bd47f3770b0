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
/// or quote, unless it names a platform.
fn is_head(line: &str) -> bool {
    let is_plain = !line.contains(['"', ',', '=']);
    line.starts_with('[') && line.ends_with(']') && (is_plain || line.starts_with("[target."))
}

/// The names of the dependencies of a kind (`dependencies`, `dev-dependencies`), on any platform.
pub(crate) fn dependencies(text: &str, kind: &str) -> Vec<String> {
    let heads = text.lines().map(str::trim).filter(|line| is_head(line));
    let names = heads.map(|head| head.trim_matches(['[', ']']));
    let of_kind = names.filter(|name| {
        let platform = name.strip_prefix("target.");
        let rest = platform.and_then(|rest| rest.strip_suffix(kind));
        *name == kind || rest.is_some_and(|rest| rest.ends_with('.'))
    });
    let keys = of_kind.flat_map(|name| keys(text, name));
    keys.map(|key| key.split('.').next().unwrap_or_default().to_owned())
        .collect()
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
    fn dependencies_of_a_platform_are_dependencies_and_those_of_tests_are_not() {
        let text = "[dependencies]\na.workspace = true\n[target.'cfg(target_os = \"x\")'.dependencies]\nb = { version = \"1\" }\n[dev-dependencies]\nc = \"1\"\n";
        assert_eq!(dependencies(text, "dependencies"), ["a", "b"]);
        assert_eq!(dependencies(text, "dev-dependencies"), ["c"]);
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
