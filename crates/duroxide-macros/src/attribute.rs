//! What stands in the parentheses of an attribute.

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, LitStr, Result, Token};

use crate::kind::Kind;

/// `name = "…"`, `version = "…"`, `unchecked`.
#[derive(Default)]
pub(crate) struct Attribute {
    pub(crate) name: Option<LitStr>,
    pub(crate) version: Option<LitStr>,
    pub(crate) unchecked: bool,
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
        if let Some(version) = &attribute.version {
            check_version(version)?;
        }
        Ok(attribute)
    }
}

impl Parse for Attribute {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut attribute = Self::default();
        while !input.is_empty() {
            let key: Ident = input.parse()?;
            match key.to_string().as_str() {
                "name" => attribute.name = Some(value(&key, input)?),
                "version" => attribute.version = Some(value(&key, input)?),
                "unchecked" => attribute.unchecked = true,
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

fn value(key: &Ident, input: ParseStream<'_>) -> Result<LitStr> {
    input
        .parse::<Token![=]>()
        .and_then(|_| input.parse::<LitStr>())
        .and_then(|text| match text.value().is_empty() {
            true => Err(Error::new(text.span(), "empty")),
            false => Ok(text),
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
