//! A number that follows from code. In: tokens. Out: the same number for the same code, whatever its layout and
//! comments.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// FNV-1a over the tokens: notices a change, and is no protection against an attacker.
pub(crate) fn of(code: &impl ToTokens) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325;
    add(&mut sum, code.to_token_stream());
    sum
}

fn add(sum: &mut u64, tokens: TokenStream) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                text(sum, open);
                add(sum, group.stream());
                text(sum, close);
            }
            TokenTree::Punct(punct) => {
                text(sum, punct.as_char().encode_utf8(&mut [0; 4]));
                // `a & &b` is not `a && b`.
                if punct.spacing() == Spacing::Alone {
                    text(sum, " ");
                }
            }
            TokenTree::Ident(ident) => text(sum, &ident.to_string()),
            TokenTree::Literal(literal) => text(sum, &literal.to_string()),
        }
    }
}

fn text(sum: &mut u64, text: &str) {
    for byte in text.bytes().chain([0xff]) {
        *sum = (*sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(code: &str) -> u64 {
        of(&code.parse::<TokenStream>().expect("these are tokens"))
    }

    #[test]
    fn layout_and_comments_do_not_count_and_code_does() {
        let code = of_text("{ let a = f(1); a + 2 }");
        assert_eq!(of_text("{\n let a = f( 1 ); // one\n a+2 }"), code);
        for other in [
            "{ let a = f(2); a + 2 }",
            "{ let b = f(1); b + 2 }",
            "{ let a = f(1); (a) + 2 }",
        ] {
            assert_ne!(of_text(other), code, "{other}");
        }
        assert_ne!(of_text("ab c"), of_text("a bc"));
    }
}
