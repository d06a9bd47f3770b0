//! From a function to a definition: a unit struct with its traits, and the function inside.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ItemFn, Type, Visibility};

use crate::attribute::{Attribute, Unchecked};
use crate::fingerprint;
use crate::kind::Kind;
use crate::lint;
use crate::signature::{Parameter, Shape, names, parameter_names, without_self};

/// A free function.
pub(crate) fn free(kind: Kind, attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let function: ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(e) => {
            let e = syn::Error::new(e.span(), format!("{} is an async function", kind.noun()));
            let e = e.into_compile_error();
            return quote!(#e #item);
        }
    };
    match expand(kind, attribute, function) {
        Ok(tokens) => tokens,
        Err(e) => {
            let e = e.into_compile_error();
            quote!(#e #item)
        }
    }
}

fn expand(kind: Kind, attribute: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    let attribute = Attribute::parse(kind, attribute)?;
    let shape = Shape::of(kind, &function.sig, false)?;
    let complaints = complaints(kind, &attribute, &function.sig, &function.block);
    let ident = function.sig.ident.clone();
    let name = attribute
        .name
        .as_ref()
        .map_or_else(|| plain(&ident), syn::LitStr::value);
    let definition = Definition {
        kind,
        attribute: &attribute,
        shape: &shape,
        marker: &ident,
        name,
        call: quote!(#ident::__duroxide_body),
        self_ty: None,
        fingerprint: fingerprint::of(&function.block),
    };
    let traits = definition.traits();
    let vis = function.vis.clone();
    let Attributes { conditions, door } = Attributes::take(&mut function.attrs);
    let marker = marker(&vis, &ident);
    let door = definition.door(&vis, &door, &function.sig);
    function.sig.ident = format_ident!("__duroxide_body");
    function.vis = Visibility::Inherited;
    Ok(quote! {
        #(#conditions)*
        const _: () = { #complaints };
        #(#conditions)*
        #marker
        #(#conditions)*
        #door
        #(#conditions)*
        const _: () = {
            impl #ident {
                #function
            }
            #traits
        };
    })
}

/// Errors of the lint, if it is on.
pub(crate) fn complaints(
    kind: Kind,
    attribute: &Attribute,
    signature: &syn::Signature,
    block: &syn::Block,
) -> TokenStream {
    let unchecked = match (kind, &attribute.unchecked) {
        (Kind::Activity, _) | (_, Unchecked::Everything) => return TokenStream::new(),
        (Kind::Orchestration, Unchecked::Nothing) => &[][..],
        (Kind::Orchestration, Unchecked::Paths(paths)) => paths,
    };
    let names = parameter_names(signature);
    let complaints = lint::complaints(block, names.first(), unchecked);
    complaints.map_or_else(TokenStream::new, syn::Error::into_compile_error)
}

/// The attributes of a handler, by where they go.
pub(crate) struct Attributes {
    /// Conditions, for everything that is generated.
    pub(crate) conditions: Vec<syn::Attribute>,
    /// For the function that users see: documentation, lint levels, `deprecated`, `must_use`.
    pub(crate) door: Vec<syn::Attribute>,
}

impl Attributes {
    /// Sorts the attributes of a handler. The body keeps what is not about the function that users see.
    pub(crate) fn take(attributes: &mut Vec<syn::Attribute>) -> Self {
        let (mut conditions, mut door) = (Vec::new(), Vec::new());
        attributes.retain(|attribute| {
            let name = attribute.path().get_ident().map(ToString::to_string);
            match name.as_deref() {
                Some("cfg") => conditions.push(attribute.clone()),
                Some("cfg_attr" | "allow" | "warn" | "deny" | "forbid") => {
                    door.push(attribute.clone());
                }
                // The body fulfils the expectation; the door must only not complain.
                Some("expect") => {
                    if let syn::Meta::List(list) = &attribute.meta {
                        let lints = &list.tokens;
                        door.push(syn::parse_quote!(#[allow(#lints)]));
                    }
                }
                Some("doc" | "deprecated" | "must_use") => {
                    door.push(attribute.clone());
                    return false;
                }
                _ => {}
            }
            true
        });
        Self { conditions, door }
    }
}

/// The definition: a type named like the function. Braced, so that it takes no name from values.
pub(crate) fn marker(vis: &Visibility, ident: &Ident) -> TokenStream {
    let doc = format!("The definition of `{ident}`: its name and its types.");
    quote! {
        #[doc = #doc]
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, Default)]
        #vis struct #ident {}
    }
}

/// A name without `r#`.
pub(crate) fn plain(ident: &Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").map_or(text.clone(), str::to_owned)
}

/// What a marker stands for.
pub(crate) struct Definition<'a> {
    pub(crate) kind: Kind,
    pub(crate) attribute: &'a Attribute,
    pub(crate) shape: &'a Shape,
    pub(crate) marker: &'a Ident,
    pub(crate) name: String,
    /// The path of the function.
    pub(crate) call: TokenStream,
    pub(crate) self_ty: Option<&'a Type>,
    /// Of the function's body.
    pub(crate) fingerprint: u64,
}

impl Definition<'_> {
    /// The traits of the marker.
    pub(crate) fn traits(&self) -> TokenStream {
        [self.types(), self.body()].into_iter().collect()
    }

    /// The function that users see: it runs the body, and its type names the definition.
    pub(crate) fn door(
        &self,
        vis: &Visibility,
        docs: &[syn::Attribute],
        signature: &syn::Signature,
    ) -> TokenStream {
        let (marker, call, ident) = (self.marker, &self.call, &signature.ident);
        let output = &self.shape.output;
        let names = parameter_names(signature);
        let types = self.shape.types();
        let (receiver, own, life) = if self.shape.takes_self {
            (quote!(&self,), quote!(self,), quote!('_))
        } else {
            (quote!(), quote!(), quote!('static))
        };
        quote! {
            #(#docs)*
            #vis fn #ident(
                #receiver #(#names: #types),*
            ) -> ::duroxide::__private::Body<#life, #marker, #output> {
                ::duroxide::__private::Body::new(#call(#own #(#names),*))
            }
        }
    }

    fn types(&self) -> TokenStream {
        let (marker, name) = (self.marker, &self.name);
        let (input, output) = (self.input(), self.output());
        let span = self.shape.output.span();
        // Where the author wrote them: the compiler says there what is wrong with them.
        let ok = quote_spanned!(span=> <#output as ::duroxide::__private::IsResult>::Ok);
        let err = quote_spanned!(span=> <#output as ::duroxide::__private::IsResult>::Err);
        let (which, more) = match self.kind {
            Kind::Activity => (quote!(Activity), quote!()),
            Kind::Orchestration => {
                let version = match &self.attribute.version {
                    Some(version) => quote!(::core::option::Option::Some(#version)),
                    None => quote!(::core::option::Option::None),
                };
                let fingerprint = self.fingerprint;
                (
                    quote!(Orchestration),
                    quote! {
                        fn fingerprint(&self) -> ::core::option::Option<u64> {
                            ::core::option::Option::Some(#fingerprint)
                        }
                        fn version(&self) -> ::core::option::Option<&'static str> {
                            #version
                        }
                    },
                )
            }
        };
        quote! {
            impl ::duroxide::#which for #marker {
                type Input = #input;
                type Output = #ok;
                type Error = #err;
                fn name(&self) -> &'static str {
                    #name
                }
                fn is_retryable(error: &Self::Error) -> bool {
                    #[allow(unused_imports)]
                    use ::duroxide::__private::{AskDefault as _, AskRetryable as _};
                    (&::duroxide::__private::Ask(error)).ask()
                }
                #more
            }
        }
    }

    fn body(&self) -> TokenStream {
        match self.kind {
            Kind::Activity => self.activity_body(),
            Kind::Orchestration => self.orchestration_body(),
        }
    }

    fn activity_body(&self) -> TokenStream {
        let (marker, call, input) = (self.marker, &self.call, self.input());
        let states: Vec<TokenStream> = self.shape.states().map(|ty| self.outside(ty)).collect();
        let own = match (self.shape.takes_self, self.self_ty) {
            (true, Some(self_ty)) => Some(self_ty),
            _ => None,
        };
        let (inputs, arguments) = self.arguments();
        let needs = states.iter().cloned().chain(own.map(|ty| quote!(#ty)));
        let running = match own {
            Some(own) => quote! {
                let __own = __states.get::<#own>();
                async move { #call(&*__own, #(#arguments),*).await }
            },
            None => quote!(#call(#(#arguments),*)),
        };
        quote! {
            impl ::duroxide::ActivityBody for #marker {
                fn needs() -> ::std::vec::Vec<::duroxide::Needed> {
                    ::std::vec![#(::duroxide::Needed::of::<#needs>()),*]
                }
                #[allow(unused_variables, clippy::let_unit_value, clippy::manual_async_fn)]
                fn run(
                    &self,
                    __ctx: ::duroxide::ActivityContext,
                    __states: &::duroxide::States,
                    __input: #input,
                ) -> impl ::core::future::Future<
                    Output = ::core::result::Result<
                        <Self as ::duroxide::Activity>::Output,
                        <Self as ::duroxide::Activity>::Error,
                    >,
                > + ::core::marker::Send + 'static {
                    let #inputs = __input;
                    #running
                }
            }
        }
    }

    fn orchestration_body(&self) -> TokenStream {
        let (marker, call, input) = (self.marker, &self.call, self.input());
        let (inputs, arguments) = self.arguments();
        quote! {
            impl ::duroxide::OrchestrationBody for #marker {
                #[allow(unused_variables, clippy::let_unit_value)]
                fn run(
                    &self,
                    __ctx: ::duroxide::OrchestrationContext,
                    __input: #input,
                ) -> impl ::core::future::Future<
                    Output = ::core::result::Result<
                        <Self as ::duroxide::Orchestration>::Output,
                        <Self as ::duroxide::Orchestration>::Error,
                    >,
                > + ::core::marker::Send + 'static {
                    let #inputs = __input;
                    #call(#(#arguments),*)
                }
            }
        }
    }

    /// The pattern that takes the input apart, and the arguments of the function.
    fn arguments(&self) -> (TokenStream, Vec<TokenStream>) {
        let mut names = names(self.shape.inputs().len()).into_iter();
        let pattern = match names.as_slice() {
            [] => quote!(()),
            [one] => quote!(#one),
            several => quote!((#(#several,)*)),
        };
        let argument = |parameter: &Parameter| match parameter {
            Parameter::Context(_) => quote!(__ctx),
            Parameter::State(_, inner) => {
                let inner = self.outside(inner);
                quote!(__states.get::<#inner>())
            }
            Parameter::Input(_) => {
                let name = names.next();
                quote!(#name)
            }
        };
        (
            pattern,
            self.shape.parameters.iter().map(argument).collect(),
        )
    }

    fn input(&self) -> TokenStream {
        self.outside(self.shape.input())
    }

    fn output(&self) -> TokenStream {
        self.outside(&self.shape.output)
    }

    /// A type of the signature, as the marker's traits name it.
    fn outside(&self, tokens: impl quote::ToTokens) -> TokenStream {
        let tokens = tokens.into_token_stream();
        match self.self_ty {
            Some(self_ty) => without_self(tokens, self_ty),
            None => tokens,
        }
    }
}
