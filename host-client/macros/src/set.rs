//! Expands a whole `impl`: removes our attributes, and writes an `impl` of `ToolSet` beside it.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote};
use syn::{Error, ImplItem, ItemImpl, Result};

use crate::method::ToolMethod;
use crate::options::SetOptions;

/// Writes the `impl` without our attributes, and beside it that of `ToolSet`, or the errors.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut implementation: ItemImpl = match syn::parse2(item.clone()) {
        Ok(implementation) => implementation,
        Err(_) => {
            let text =
                "#[tools] stands over an `impl` of a type, with #[tool] over those of its methods that are tools";
            let error = Error::new_spanned(&item, text).to_compile_error();
            return quote!(#error #item);
        }
    };
    let set = tool_set(attribute, &mut implementation).unwrap_or_else(|error| error.to_compile_error());
    quote!(#implementation #set)
}

/// Takes our attributes off an `impl`, and writes the `impl` of `ToolSet`.
fn tool_set(attribute: TokenStream, implementation: &mut ItemImpl) -> Result<TokenStream> {
    // All methods, whatever is wrong with one of them: an attribute that is left would be an error of its own.
    let (mut methods, mut errors) = (Vec::<ToolMethod>::new(), Vec::new());
    for item in &mut implementation.items {
        let ImplItem::Fn(method) = item else { continue };
        match ToolMethod::take(method) {
            Ok(Some(tool)) => match methods.iter().find(|other| other.name == tool.name) {
                Some(_) => errors.push(Error::new(tool.span(), format!("there are two tools {:?}", tool.name))),
                None => methods.push(tool),
            },
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    let set = SetOptions::parse(attribute);
    if let Some((_, other)) = implementation.trait_.as_ref().map(|(path, word)| (path, word.span)) {
        errors.push(Error::new(other, "#[tools] stands over an `impl` without a trait"));
    } else if methods.is_empty() && errors.is_empty() {
        errors.push(Error::new(implementation.impl_token.span, "no method here has the attribute #[tool]"));
    }
    let (set, errors) = match set {
        Ok(set) => (Some(set), errors),
        Err(error) => (None, errors.into_iter().chain([error]).collect()),
    };
    let all = errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    });
    match (set, all) {
        (Some(set), None) => written(&set, implementation, &methods),
        (_, Some(errors)) => Err(errors),
        (None, None) => Ok(TokenStream::new()),
    }
}

fn written(set: &SetOptions, implementation: &ItemImpl, methods: &[ToolMethod]) -> Result<TokenStream> {
    let (library, self_type) = (&set.library, &*implementation.self_ty);
    let (generics, _, conditions) = implementation.generics.split_for_impl();
    let cfgs = implementation.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    let cfgs = cfgs.map(|attribute| attribute.to_token_stream());
    let registrations = methods.iter().map(|method| method.registration(set, self_type));
    let registrations = registrations.collect::<Result<Vec<_>>>()?;
    Ok(quote! {
        #(#cfgs)*
        impl #generics #library::ToolSet for #self_type #conditions {
            fn tools(
                self: ::std::sync::Arc<Self>,
            ) -> ::std::vec::Vec<::std::sync::Arc<dyn #library::Tool>> {
                let state = self;
                let mut tools: ::std::vec::Vec<::std::sync::Arc<dyn #library::Tool>> = ::std::vec::Vec::new();
                #(#registrations)*
                tools
            }
        }
    })
}
