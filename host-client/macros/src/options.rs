//! The options of the attributes `#[tools(…)]` and `#[tool(…)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser as _;
use syn::{Attribute, Error, LitBool, LitInt, LitStr, Meta, Path, Result};

/// The options of `#[tools(…)]`.
pub(crate) struct SetOptions {
    pub(crate) server: LitStr,
    /// The path of the library.
    pub(crate) library: Path,
}

/// The options of `#[tool(…)]`.
#[derive(Default)]
pub(crate) struct ToolOptions {
    pub(crate) name: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    pub(crate) effect: Option<LitStr>,
    pub(crate) mode: Option<LitStr>,
    pub(crate) overflow: Option<LitStr>,
    pub(crate) timeout_ms: Option<LitInt>,
    pub(crate) result_bytes: Option<LitInt>,
    pub(crate) concurrency: Option<LitInt>,
    pub(crate) callable_from_code: Option<LitBool>,
    pub(crate) idempotent: Option<LitBool>,
}

/// The values of an option, and the variants of the library that they stand for.
type Names = [(&'static str, &'static str)];

const EFFECTS: &Names = &[("read_only", "ReadOnly"), ("mutating", "Mutating"), ("privileged", "Privileged")];
const MODES: &Names = &[
    ("undeclared", "Undeclared"),
    ("none", "None"),
    ("restricted_local", "RestrictedLocal"),
    ("restricted_remote", "RestrictedRemote"),
    ("privileged", "Privileged"),
];
const OVERFLOWS: &Names = &[("fail", "Fail"), ("cut", "Cut")];

impl SetOptions {
    pub(crate) fn parse(attribute: TokenStream) -> Result<Self> {
        let (mut server, mut library) = (None, None);
        let parser = syn::meta::parser(|meta| {
            if meta.path.is_ident("server") {
                set(&mut server, &meta)
            } else if meta.path.is_ident("crate") {
                set(&mut library, &meta)
            } else {
                Err(meta.error("there is no such option; there are: server, crate"))
            }
        });
        parser.parse2(attribute)?;
        let missing = "the name of the server is missing: #[tools(server = \"…\")]";
        let server: LitStr = server.ok_or_else(|| Error::new(proc_macro2::Span::call_site(), missing))?;
        if server.value().is_empty() || server.value().contains('.') {
            return Err(Error::new(server.span(), "a server's name is not empty and has no dot"));
        }
        let library = match library {
            Some(path) => LitStr::parse(&path)?,
            None => syn::parse_quote!(::host_client),
        };
        Ok(Self { server, library })
    }
}

impl ToolOptions {
    pub(crate) fn parse(attribute: &Attribute) -> Result<Self> {
        let mut options = Self::default();
        if matches!(attribute.meta, Meta::Path(_)) {
            return Ok(options);
        }
        attribute.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            match name.as_str() {
                "name" => set(&mut options.name, &meta),
                "description" => set(&mut options.description, &meta),
                "effect" => set(&mut options.effect, &meta),
                "mode" => set(&mut options.mode, &meta),
                "overflow" => set(&mut options.overflow, &meta),
                "timeout_ms" => set(&mut options.timeout_ms, &meta),
                "result_bytes" => set(&mut options.result_bytes, &meta),
                "concurrency" => set(&mut options.concurrency, &meta),
                "callable_from_code" => set(&mut options.callable_from_code, &meta),
                "idempotent" => set(&mut options.idempotent, &meta),
                _ => Err(meta.error(
                    "there is no such option; there are: name, description, effect, mode, timeout_ms, result_bytes, \
                     overflow, concurrency, callable_from_code, idempotent",
                )),
            }
        })?;
        if let Some(name) = options.name.as_ref().filter(|name| name.value().is_empty()) {
            return Err(Error::new(name.span(), "a tool's name is not empty"));
        }
        Ok(options)
    }

    /// Writes the calls of `ToolSpec` that set what was given.
    pub(crate) fn calls(&self, library: &Path) -> Result<TokenStream> {
        let mut calls = TokenStream::new();
        if let Some(effect) = &self.effect {
            let variant = variant(effect, EFFECTS)?;
            calls.extend(quote!(.effect(#library::Effect::#variant)));
        }
        if let Some(mode) = &self.mode {
            let variant = variant(mode, MODES)?;
            calls.extend(quote!(.mode(#library::Mode::#variant)));
        }
        if let Some(overflow) = &self.overflow {
            let variant = variant(overflow, OVERFLOWS)?;
            calls.extend(quote!(.overflow(#library::Overflow::#variant)));
        }
        if let Some(timeout) = &self.timeout_ms {
            let millis = timeout.base10_parse::<u64>()?;
            calls.extend(quote!(.timeout(::core::time::Duration::from_millis(#millis))));
        }
        if let Some(bytes) = &self.result_bytes {
            calls.extend(quote!(.result_bytes(#bytes)));
        }
        if let Some(concurrency) = &self.concurrency {
            if concurrency.base10_parse::<usize>()? == 0 {
                return Err(Error::new(concurrency.span(), "with no call at once, the tool would never answer"));
            }
            calls.extend(quote!(.concurrency(#concurrency)));
        }
        if let Some(callable) = &self.callable_from_code {
            calls.extend(quote!(.callable_from_code(#callable)));
        }
        if let Some(idempotent) = &self.idempotent {
            calls.extend(quote!(.idempotent(#idempotent)));
        }
        Ok(calls)
    }
}

/// Parses the value of an option; fails if the option was given before.
fn set<T: syn::parse::Parse>(slot: &mut Option<T>, meta: &ParseNestedMeta<'_>) -> Result<()> {
    if slot.is_some() {
        return Err(meta.error("this option stands here twice"));
    }
    *slot = Some(meta.value()?.parse()?);
    Ok(())
}

/// Finds the variant that a value stands for.
fn variant(value: &LitStr, names: &Names) -> Result<syn::Ident> {
    let found = names.iter().find(|(name, _)| *name == value.value());
    let (_, variant) = found.ok_or_else(|| {
        let known: Vec<_> = names.iter().map(|(name, _)| *name).collect();
        Error::new(value.span(), format!("there is no {:?}; there are: {}", value.value(), known.join(", ")))
    })?;
    Ok(syn::Ident::new(variant, value.span()))
}
