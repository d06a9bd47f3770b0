//! What a handler takes and gives, read from its signature.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{Error, FnArg, GenericArgument, PathArguments, Result, ReturnType, Signature, Type};

use crate::kind::Kind;

/// One parameter.
pub(crate) enum Parameter {
    Context(Type),
    /// `State<T>`, with `T`.
    State(Type, Box<Type>),
    Input(Type),
}

impl Parameter {
    fn ty(&self) -> &Type {
        match self {
            Self::Context(ty) | Self::State(ty, _) | Self::Input(ty) => ty,
        }
    }
}

/// A signature that is understood.
pub(crate) struct Shape {
    pub(crate) takes_self: bool,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) output: Type,
}

impl Shape {
    pub(crate) fn of(kind: Kind, signature: &Signature, in_impl: bool) -> Result<Self> {
        let noun = kind.noun();
        if signature.asyncness.is_none() {
            return Err(Error::new(
                signature.fn_token.span(),
                format!("{noun} is async: write `async fn {}`", signature.ident),
            ));
        }
        if !signature.generics.params.is_empty() {
            return Err(Error::new(
                signature.generics.span(),
                format!(
                    "{noun} has one name and one stored form, so it cannot be generic: write the types out"
                ),
            ));
        }
        if let syn::Safety::Unsafe(unsafety) = &signature.safety {
            return Err(Error::new(
                unsafety.span(),
                format!("the engine calls {noun}, and cannot keep what an `unsafe fn` asks for"),
            ));
        }
        let shape = Self {
            takes_self: takes_self(kind, signature, in_impl)?,
            parameters: parameters(kind, signature)?,
            output: output(kind, signature)?,
        };
        if kind == Kind::Orchestration
            && !matches!(shape.parameters.first(), Some(Parameter::Context(_)))
        {
            let place = signature
                .inputs
                .first()
                .map_or_else(|| signature.paren_token.span.join(), Spanned::span);
            return Err(Error::new(
                place,
                "an orchestration takes its context first: write `ctx: OrchestrationContext`",
            ));
        }
        Ok(shape)
    }

    pub(crate) fn types(&self) -> impl Iterator<Item = &Type> {
        self.parameters.iter().map(Parameter::ty)
    }

    pub(crate) fn states(&self) -> impl Iterator<Item = &Type> {
        self.parameters
            .iter()
            .filter_map(|parameter| match parameter {
                Parameter::State(_, inner) => Some(&**inner),
                Parameter::Context(_) | Parameter::Input(_) => None,
            })
    }

    pub(crate) fn inputs(&self) -> Vec<&Type> {
        let inputs = self
            .parameters
            .iter()
            .filter_map(|parameter| match parameter {
                Parameter::Input(ty) => Some(ty),
                Parameter::Context(_) | Parameter::State(..) => None,
            });
        inputs.collect()
    }

    /// `()`, the type itself, or a tuple.
    pub(crate) fn input(&self) -> TokenStream {
        match self.inputs().as_slice() {
            [] => quote!(()),
            [one] => one.to_token_stream(),
            several => quote!((#(#several,)*)),
        }
    }
}

fn takes_self(kind: Kind, signature: &Signature, in_impl: bool) -> Result<bool> {
    let Some(receiver) = signature.receiver() else {
        return Ok(false);
    };
    let text = receiver.to_token_stream().to_string().replace(' ', "");
    let help = match kind {
        _ if !in_impl => {
            "methods become handlers together: put `#[duroxide::handlers]` on the `impl`"
        }
        Kind::Orchestration => {
            "an orchestration takes no `self`: what it decides by is recorded, so hand it over as input or ask an activity"
        }
        Kind::Activity if text != "&self" => {
            "activities run side by side, so they share the value: write `&self`"
        }
        Kind::Activity => return Ok(true),
    };
    Err(Error::new(receiver.span(), help))
}

fn parameters(kind: Kind, signature: &Signature) -> Result<Vec<Parameter>> {
    let mut parameters = Vec::new();
    for argument in &signature.inputs {
        let FnArg::Typed(typed) = argument else {
            continue;
        };
        parameters.push(parameter(kind, &typed.ty)?);
    }
    Ok(parameters)
}

fn parameter(kind: Kind, ty: &Type) -> Result<Parameter> {
    if let Type::Reference(_) = ty {
        return Err(Error::new(
            ty.span(),
            "inputs are stored and read again, so they are owned: write the type without `&`, `String` instead of `&str`",
        ));
    }
    if let Type::ImplTrait(_) = ty {
        return Err(Error::new(
            ty.span(),
            "inputs are stored and read again, so their type has a name: write it instead of `impl …`",
        ));
    }
    if let Some(borrowed) = borrow(ty.to_token_stream()) {
        return Err(Error::new(
            borrowed,
            "inputs are stored and read again, so they borrow nothing: write an owned type, `String` instead of `Cow<'_, str>`",
        ));
    }
    let Type::Path(path) = ty else {
        return Ok(Parameter::Input(ty.clone()));
    };
    let Some(last) = path.path.segments.last() else {
        return Ok(Parameter::Input(ty.clone()));
    };
    match (kind, last.ident.to_string().as_str(), &last.arguments) {
        (Kind::Activity, "ActivityContext", _)
        | (Kind::Orchestration, "OrchestrationContext", _) => Ok(Parameter::Context(ty.clone())),
        (Kind::Activity, "OrchestrationContext", _) => Err(Error::new(
            ty.span(),
            "an activity does the work and decides nothing: write `ctx: ActivityContext`, or leave the context out",
        )),
        (Kind::Orchestration, "ActivityContext", _) => Err(Error::new(
            ty.span(),
            "an orchestration decides what happens next: write `ctx: OrchestrationContext`",
        )),
        (Kind::Activity, "State", PathArguments::AngleBracketed(arguments)) => {
            match arguments.args.first() {
                Some(GenericArgument::Type(inner)) => {
                    Ok(Parameter::State(ty.clone(), Box::new(inner.clone())))
                }
                _ => Ok(Parameter::Input(ty.clone())),
            }
        }
        (Kind::Orchestration, "State", PathArguments::AngleBracketed(_)) => Err(Error::new(
            ty.span(),
            "an orchestration has no `State`: what it decides by is recorded, so hand it over as input or ask an activity",
        )),
        _ => Ok(Parameter::Input(ty.clone())),
    }
}

/// The first lifetime in a type that is not `'static`.
fn borrow(tokens: TokenStream) -> Option<Span> {
    let mut is_lifetime = false;
    for token in tokens {
        match token {
            TokenTree::Punct(mark) => is_lifetime = mark.as_char() == '\'',
            TokenTree::Ident(name) => {
                if is_lifetime && name != "static" {
                    return Some(name.span());
                }
                is_lifetime = false;
            }
            TokenTree::Group(group) => {
                if let Some(found) = borrow(group.stream()) {
                    return Some(found);
                }
            }
            TokenTree::Literal(_) => is_lifetime = false,
        }
    }
    None
}

fn output(kind: Kind, signature: &Signature) -> Result<Type> {
    match &signature.output {
        ReturnType::Type(_, ty) => Ok(Type::clone(ty)),
        ReturnType::Default => Err(Error::new(
            signature.ident.span(),
            format!("{} can fail: write `-> Result<(), String>`", kind.noun()),
        )),
    }
}

/// Tokens with `Self` replaced by a type.
pub(crate) fn without_self(tokens: TokenStream, self_ty: &Type) -> TokenStream {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Ident(ident) if ident == "Self" => quote!(#self_ty),
            TokenTree::Group(group) => {
                let inner = without_self(group.stream(), self_ty);
                let mut replaced = proc_macro2::Group::new(group.delimiter(), inner);
                replaced.set_span(group.span());
                TokenTree::Group(replaced).into()
            }
            other => other.into(),
        })
        .collect()
}

/// `a0`, `a1`, …
pub(crate) fn names(count: usize) -> Vec<syn::Ident> {
    (0..count)
        .map(|n| syn::Ident::new(&format!("__a{n}"), Span::mixed_site()))
        .collect()
}

/// The author's names where they are plain, `__a0` and so on where they are patterns.
pub(crate) fn parameter_names(signature: &Signature) -> Vec<syn::Ident> {
    let typed = signature
        .inputs
        .iter()
        .filter_map(|argument| match argument {
            FnArg::Typed(typed) => Some(&*typed.pat),
            FnArg::Receiver(_) => None,
        });
    let patterns: Vec<&syn::Pat> = typed.collect();
    let spare = names(patterns.len());
    let name = |(pattern, spare): (&syn::Pat, syn::Ident)| match pattern {
        syn::Pat::Ident(plain) if plain.subpat.is_none() => plain.ident.clone(),
        _ => spare,
    };
    patterns.into_iter().zip(spare).map(name).collect()
}
