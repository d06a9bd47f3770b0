//! Texts and numbers that a careless store trips over.

mod everything;
mod numbers;
mod texts;

pub use everything::*;
pub use numbers::*;
pub use texts::*;

/// Texts that break quoting, escaping, matching, normalisation or display.
const TEXTS: &[&str] = &[
    "'; DROP TABLE instances; --",
    "\" OR \"1\"=\"1",
    "`backtick` $(command) ${variable}",
    "100%_sure",
    "back\\slash\\n",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "%2e%2e%2f",
    "line\nbreak\r\nand\ttab",
    "\u{1b}[31mred\u{1b}[0m",
    "right\u{202e}to left",
    "zero\u{200b}width",
    "e\u{301} decomposed",
    "\u{e9} composed",
    "😀 four bytes",
    "sub::2",
    "parent::sub::2",
    "{\"json\": [1, null]}",
    "null",
    "  spaces around  ",
    "",
];
