//! A method as a tool: its name, its description, and its parameters.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, ImplItemFn, Lit, Meta, Pat, PatType, Receiver, ReceiverKind, Result,
    ReturnType, Type,
};

use crate::options::{SetOptions, ToolOptions};

/// A method that is a tool.
pub(crate) struct ToolMethod {
    /// The part of the tool's name after the dot.
    pub(crate) name: String,
    options: ToolOptions,
    description: String,
    /// The attributes `cfg` of the method.
    conditions: Vec<Attribute>,
    ident: Ident,
    is_async: bool,
    has_receiver: bool,
    /// `true`: it returns a `Result`.
    can_fail: bool,
    parameters: Vec<Parameter>,
}

/// One parameter of a method, without its receiver.
struct Parameter {
    ident: Ident,
    ty: Type,
    docs: Vec<Attribute>,
    role: Role,
}

/// The value that a parameter is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The context of the call.
    Context,
    /// All arguments.
    Whole,
    /// One property of the arguments.
    Property,
}

impl ToolMethod {
    /// Takes the attribute `#[tool]` and the documentation of parameters off a method; `None`: the method is no tool.
    pub(crate) fn take(method: &mut ImplItemFn) -> Result<Option<Self>> {
        let Some(at) = method.attrs.iter().position(|attribute| attribute.path().is_ident("tool")) else {
            return Ok(None);
        };
        let options = ToolOptions::parse(&method.attrs.remove(at))?;
        if let Some(again) = method.attrs.iter().find(|attribute| attribute.path().is_ident("tool")) {
            return Err(Error::new(again.span(), "a method is one tool"));
        }
        let signature = &mut method.sig;
        if !signature.generics.params.is_empty() {
            let text = "a tool's method has no parameters of its own for types and lifetimes";
            return Err(Error::new(signature.generics.span(), text));
        }
        let (mut has_receiver, mut parameters) = (false, Vec::new());
        for input in &mut signature.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    check_receiver(receiver)?;
                    has_receiver = true;
                }
                FnArg::Typed(parameter) => parameters.push(Parameter::take(parameter, parameters.len())?),
            }
        }
        check_roles(&parameters)?;
        let written = options.description.as_ref().map(syn::LitStr::value);
        let description = written.unwrap_or_else(|| documentation(&method.attrs));
        if description.is_empty() {
            let text =
                "a tool needs a description for the model: a documentation comment, or #[tool(description = \"…\")]";
            return Err(Error::new(signature.ident.span(), text));
        }
        let own = || signature.ident.unraw().to_string();
        Ok(Some(Self {
            name: options.name.as_ref().map_or_else(own, syn::LitStr::value),
            description,
            conditions: method.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect(),
            ident: signature.ident.clone(),
            is_async: signature.asyncness.is_some(),
            has_receiver,
            can_fail: is_result(&signature.output),
            parameters,
            options,
        }))
    }

    pub(crate) fn span(&self) -> proc_macro2::Span {
        self.ident.span()
    }

    /// Writes the statement that adds the tool to `tools`, where `state` is an `Arc` of the type.
    pub(crate) fn registration(&self, set: &SetOptions, self_type: &Type) -> Result<TokenStream> {
        let SetOptions { server, library } = set;
        let (name, description) = (format!("{}.{}", server.value(), self.name), &self.description);
        let (conditions, settings) = (&self.conditions, self.options.calls(library)?);
        let (arguments, taken, definition) = self.arguments(library);
        let context = match self.parameters.iter().find(|parameter| parameter.role == Role::Context) {
            Some(parameter) => &parameter.ident,
            None => &format_ident!("_context"),
        };
        let call = self.call(library, self_type);
        Ok(quote! {
            #(#conditions)*
            {
                #definition
                let state = ::std::sync::Arc::clone(&state);
                tools.push(#library::__private::typed_tool(
                    #library::ToolSpec::new(#name, #description, #library::__private::Value::Null) #settings,
                    move |#taken: #arguments, #context: #library::CallContext| {
                        let state = ::std::sync::Arc::clone(&state);
                        async move { #call }
                    },
                ));
            }
        })
    }

    /// Returns the type of the arguments, the pattern that takes them apart, and the definition of the type; empty: the
    /// method has its own type, or no arguments.
    fn arguments(&self, library: &syn::Path) -> (TokenStream, TokenStream, TokenStream) {
        if let Some(Parameter { ident, ty, .. }) = self.parameters.iter().find(|it| it.role == Role::Whole) {
            return (quote!(#ty), quote!(#ident), TokenStream::new());
        }
        let properties: Vec<_> = self.parameters.iter().filter(|it| it.role == Role::Property).collect();
        if properties.is_empty() {
            return (quote!(()), quote!(()), TokenStream::new());
        }
        let fields = properties.iter().map(|Parameter { ident, ty, docs, .. }| quote!(#(#docs)* #ident: #ty));
        let idents = properties.iter().map(|parameter| &parameter.ident);
        let path = |name: &str| {
            let path = format!("{}::__private::{name}", quote!(#library));
            path.replace(' ', "")
        };
        let (serde, schemars) = (path("serde"), path("schemars"));
        let definition = quote! {
            #[derive(#library::__private::serde::Deserialize, #library::__private::schemars::JsonSchema)]
            #[serde(crate = #serde, rename = "Arguments", deny_unknown_fields)]
            #[schemars(crate = #schemars)]
            struct __Arguments { #(#fields),* }
        };
        (quote!(__Arguments), quote!(__Arguments { #(#idents),* }), definition)
    }

    /// Writes the call of the method, as a `Result` with a `ToolError`.
    fn call(&self, library: &syn::Path, self_type: &Type) -> TokenStream {
        let (method, span) = (&self.ident, self.span());
        let passed = self.parameters.iter().map(|parameter| &parameter.ident);
        let mut call = if self.has_receiver {
            quote_spanned!(span=> state.#method(#(#passed),*))
        } else {
            quote_spanned!(span=> { let _ = state; <#self_type>::#method(#(#passed),*) })
        };
        if self.is_async {
            call.extend(quote_spanned!(span=> .await));
        }
        if self.can_fail {
            quote_spanned!(span=> ::core::result::Result::map_err(#call, #library::ToolError::from))
        } else {
            quote_spanned!(span=> ::core::result::Result::Ok(#call))
        }
    }
}

impl Parameter {
    /// Reads a parameter, and takes its documentation off it.
    fn take(parameter: &mut PatType, number: usize) -> Result<Self> {
        let is_doc = |attribute: &Attribute| attribute.path().is_ident("doc");
        let docs = parameter.attrs.iter().filter(|attribute| is_doc(attribute)).cloned().collect();
        parameter.attrs.retain(|attribute| !is_doc(attribute));
        if let Type::Reference(reference) = &*parameter.ty {
            let text = "a tool owns its arguments: take String in the place of &str, Vec<T> in that of &[T]";
            return Err(Error::new(reference.span(), text));
        }
        let ident = match &*parameter.pat {
            Pat::Ident(pattern) if pattern.subpat.is_none() => Some(&pattern.ident),
            _ => None,
        };
        let role = match ident {
            _ if is_named(&parameter.ty, "CallContext") => Role::Context,
            Some(ident) if ident != "args" => Role::Property,
            _ => Role::Whole,
        };
        let ident = match (role, ident) {
            (Role::Property, Some(ident)) => ident.clone(),
            _ => format_ident!("parameter_{number}"),
        };
        Ok(Self { ident, ty: (*parameter.ty).clone(), docs, role })
    }
}

fn check_receiver(receiver: &Receiver) -> Result<()> {
    let text = match &receiver.kind {
        ReceiverKind::Reference(_, _, None) | ReceiverKind::Typed(..) => return Ok(()),
        ReceiverKind::Value => "a tool is called more than once: take &self",
        _ => "calls of a tool run at the same time: take &self, and put what changes behind a Mutex",
    };
    Err(Error::new(receiver.span(), text))
}

fn check_roles(parameters: &[Parameter]) -> Result<()> {
    let mut whole = parameters.iter().filter(|parameter| parameter.role == Role::Whole);
    let others = parameters.iter().filter(|parameter| parameter.role == Role::Property).count();
    if let Some(first) = whole.next()
        && (others > 0 || whole.next().is_some())
    {
        let text = "a parameter that is named `args`, or is a pattern, is all arguments: no others stand beside it but a \
                    CallContext";
        return Err(Error::new(first.ty.span(), text));
    }
    let mut contexts = parameters.iter().filter(|parameter| parameter.role == Role::Context);
    match contexts.nth(1) {
        Some(second) => Err(Error::new(second.ty.span(), "a call has one context")),
        None => Ok(()),
    }
}

/// Returns whether a type is a path that ends with this name.
fn is_named(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| segment.ident == name),
        _ => false,
    }
}

fn is_result(output: &ReturnType) -> bool {
    match output {
        ReturnType::Default => false,
        ReturnType::Type(_, ty) => is_named(ty, "Result"),
    }
}

/// Returns the text of documentation comments, as it was written.
fn documentation(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                let text = text.value();
                Some(text.strip_prefix(' ').unwrap_or(&text).trim_end().to_owned())
            }
            _ => None,
        },
        _ => None,
    };
    attributes.iter().filter_map(line).collect::<Vec<_>>().join("\n").trim().to_owned()
}
