//! What stands in the parentheses of an attribute.

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, LitStr, Result, Token, token};

use crate::kind::Kind;

/// What the lint leaves alone.
#[derive(Default)]
pub(crate) enum Unchecked {
    #[default]
    Nothing,
    Everything,
    /// `unchecked("fs::read")`: these paths.
    Paths(Vec<LitStr>),
}

/// `name = "…"`, `version = "…"`, `unchecked` or `unchecked("…")`.
#[derive(Default)]
pub(crate) struct Attribute {
    pub(crate) name: Option<LitStr>,
    pub(crate) version: Option<LitStr>,
    pub(crate) unchecked: Unchecked,
    unchecked_at: Option<Ident>,
}

impl Attribute {
    pub(crate) fn parse(kind: Kind, tokens: TokenStream) -> Result<Self> {
        let attribute: Self = syn::parse2(tokens)?;
        if let (Kind::Activity, Some(version)) = (kind, &attribute.version) {
            return Err(Error::new(
                version.span(),
                "activities have no versions: give the changed one a name of its own, with `name = \"…\"`",
            ));
        }
        if let (Kind::Activity, Some(key)) = (kind, &attribute.unchecked_at) {
            return Err(Error::new(
                key.span(),
                "an activity may do anything, so there is nothing to leave unchecked",
            ));
        }
        if let Some(version) = &attribute.version {
            check_version(version)?;
        }
        Ok(attribute)
    }
}

impl Parse for Attribute {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut attribute = Self::default();
        let mut seen = Vec::new();
        while !input.is_empty() {
            let key: Ident = input.parse()?;
            if seen.contains(&key) {
                let text = format!("`{key}` is given twice");
                return Err(Error::new(key.span(), text));
            }
            seen.push(key.clone());
            match key.to_string().as_str() {
                "name" => attribute.name = Some(value(&key, input)?),
                "version" => attribute.version = Some(value(&key, input)?),
                "unchecked" => {
                    attribute.unchecked = unchecked(input)?;
                    attribute.unchecked_at = Some(key);
                }
                other => {
                    return Err(Error::new(
                        key.span(),
                        format!(
                            "`{other}` is not known here: write `name = \"…\"`, `version = \"1.0.0\"` or `unchecked`"
                        ),
                    ));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(attribute)
    }
}

/// All, or the paths in parentheses.
fn unchecked(input: ParseStream<'_>) -> Result<Unchecked> {
    if !input.peek(token::Paren) {
        return Ok(Unchecked::Everything);
    }
    let list;
    syn::parenthesized!(list in input);
    let paths = list.parse_terminated(<LitStr as Parse>::parse, Token![,])?;
    Ok(Unchecked::Paths(paths.into_iter().collect()))
}

fn value(key: &Ident, input: ParseStream<'_>) -> Result<LitStr> {
    input
        .parse::<Token![=]>()
        .and_then(|_| input.parse::<LitStr>())
        .and_then(|text| {
            if text.value().is_empty() {
                Err(Error::new(text.span(), "empty"))
            } else {
                Ok(text)
            }
        })
        .map_err(|e| Error::new(e.span(), format!("write `{key} = \"…\"` with a text in it")))
}

/// Three numbers, and what semver allows behind them. The registry checks the rest.
fn check_version(version: &LitStr) -> Result<()> {
    let text = version.value();
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = numbers.split('.').collect();
    let is_number = |part: &&str| part.parse::<u64>().is_ok();
    if parts.len() == 3 && parts.iter().all(is_number) {
        return Ok(());
    }
    Err(Error::new(
        version.span(),
        format!("`{text}` is not a version: write three numbers, as in `version = \"1.1.0\"`"),
    ))
}
