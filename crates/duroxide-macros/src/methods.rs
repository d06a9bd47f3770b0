//! From the methods of an `impl` to definitions: the method keeps its name and runs its body, which is hidden beside
//! it.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Error, ImplItem, ImplItemFn, ItemImpl, Meta, Result, Type, Visibility};

use crate::attribute::Attribute;
use crate::define::{Attributes, Definition, complaints, marker, plain};
use crate::kind::Kind;
use crate::signature::Shape;

pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    implementation(attribute, item).unwrap_or_else(Error::into_compile_error)
}

fn implementation(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut block: ItemImpl = syn::parse2(item).map_err(|e| {
        Error::new(
            e.span(),
            "`#[duroxide::handlers]` stands at an `impl` block",
        )
    })?;
    // A mistake leaves the methods where they are: otherwise each use of them would be an error too.
    let short = match name_of(attribute, &block) {
        Ok(short) => short,
        Err(error) => {
            let error = error.into_compile_error();
            for item in &mut block.items {
                if let ImplItem::Fn(method) = item {
                    let _ = handler(method);
                }
            }
            return Ok(quote!(#error #block));
        }
    };
    let self_ty = Type::clone(&block.self_ty);
    let mut outside = TokenStream::new();
    let mut items = Vec::new();
    for item in std::mem::take(&mut block.items) {
        let ImplItem::Fn(mut method) = item else {
            items.push(quote!(#item));
            continue;
        };
        let plain = method.clone();
        let defined = handler(&mut method).and_then(|found| match found {
            Some((kind, attribute)) => {
                define(kind, &attribute, &mut method, (&self_ty, &short)).map(Some)
            }
            None => Ok(None),
        });
        match defined {
            Ok(Some((door, beside))) => {
                outside.extend(beside);
                items.push(door);
            }
            Ok(None) => {}
            Err(error) => {
                outside.extend(error.into_compile_error());
                method = plain;
                let _ = handler(&mut method);
            }
        }
        items.push(quote!(#method));
    }
    let attrs = &block.attrs;
    Ok(quote! {
        #outside
        #(#attrs)*
        impl #self_ty {
            #(#items)*
        }
    })
}

/// The name of the type whose methods are handlers.
fn name_of(attribute: TokenStream, block: &ItemImpl) -> Result<String> {
    const GENERIC: &str =
        "handlers have one name and one stored form, so their type cannot be generic";
    if let Some(token) = attribute.into_iter().next() {
        return Err(Error::new(
            token.span(),
            "`#[duroxide::handlers]` takes nothing: names and versions stand at the methods",
        ));
    }
    if let Some((path, _)) = &block.trait_ {
        return Err(Error::new_spanned(
            path,
            "handlers are methods of a type, not of a trait: write `impl Shop { … }`",
        ));
    }
    if !block.generics.params.is_empty() {
        return Err(Error::new_spanned(&block.generics, GENERIC));
    }
    let last = match &*block.self_ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    };
    match last {
        Some(last) if last.arguments.is_empty() => Ok(plain(&last.ident)),
        Some(last) => Err(Error::new_spanned(&last.arguments, GENERIC)),
        None => Err(Error::new_spanned(
            &block.self_ty,
            "handlers are methods of a type with a name: write `impl Shop { … }`",
        )),
    }
}

/// Takes `#[activity]` or `#[orchestration]` off a method.
fn handler(method: &mut ImplItemFn) -> Result<Option<(Kind, Attribute)>> {
    let kind_of = |attribute: &syn::Attribute| {
        let last = attribute.path().segments.last()?.ident.to_string();
        match last.as_str() {
            "activity" => Some(Kind::Activity),
            "orchestration" => Some(Kind::Orchestration),
            _ => None,
        }
    };
    let found = method
        .attrs
        .iter()
        .enumerate()
        .find_map(|(place, attribute)| Some((place, kind_of(attribute)?)));
    let Some((place, kind)) = found else {
        return Ok(None);
    };
    let attribute = method.attrs.remove(place);
    let tokens = match attribute.meta {
        Meta::List(list) => list.tokens,
        _ => TokenStream::new(),
    };
    Ok(Some((kind, Attribute::parse(kind, tokens)?)))
}

fn define(
    kind: Kind,
    attribute: &Attribute,
    method: &mut ImplItemFn,
    (self_ty, short): (&Type, &str),
) -> Result<(TokenStream, TokenStream)> {
    let shape = Shape::of(kind, &method.sig, true)?;
    let complaints = complaints(kind, attribute, &method.sig, &method.block);
    let ident = method.sig.ident.clone();
    let marker_ident = format_ident!("{}_{}", short, plain(&ident), span = ident.span());
    let body = format_ident!("__duroxide_{}", plain(&ident), span = Span::call_site());
    let name = attribute
        .name
        .as_ref()
        .map_or_else(|| format!("{short}::{}", plain(&ident)), syn::LitStr::value);
    let definition = Definition {
        kind,
        attribute,
        shape: &shape,
        marker: &marker_ident,
        name,
        call: quote!(<#self_ty>::#body),
        self_ty: Some(self_ty),
        fingerprint: crate::fingerprint::of(&method.block),
    };
    let traits = definition.traits();
    let Attributes { conditions, door } = Attributes::take(&mut method.attrs);
    let vis = std::mem::replace(&mut method.vis, Visibility::Inherited);
    let marker = marker(&vis, &marker_ident);
    let door = definition.door(&vis, &door, &method.sig);
    let door = quote!(#(#conditions)* #door);
    method.sig.ident = body;
    method.attrs.push(syn::parse_quote!(#[doc(hidden)]));
    let beside = quote! {
        #(#conditions)*
        const _: () = { #complaints };
        #(#conditions)*
        #marker
        #(#conditions)*
        const _: () = { #traits };
    };
    Ok((door, beside))
}
