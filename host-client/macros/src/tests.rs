use quote::quote;

use crate::set::expand;

/// Returns the texts of the errors that the attribute gives for an `impl`.
fn errors(attribute: proc_macro2::TokenStream, item: proc_macro2::TokenStream) -> Vec<String> {
    let expanded = expand(attribute, item);
    let file: syn::File = syn::parse2(expanded).expect("what is written can be read");
    let texts = file.items.iter().filter_map(|item| match item {
        syn::Item::Macro(error) if error.mac.path.segments.last()?.ident == "compile_error" => {
            Some(syn::parse2::<syn::LitStr>(error.mac.tokens.clone()).unwrap().value())
        }
        _ => None,
    });
    texts.collect()
}

/// Returns the one error of the attribute `server = "a"` over an `impl` with this method.
fn refused(method: proc_macro2::TokenStream) -> String {
    let errors = errors(quote!(server = "a"), quote!(impl A { #method }));
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.concat()
}

#[test]
fn options_that_are_wrong_are_named() {
    for (attribute, expected) in [
        (quote!(), "the name of the server is missing"),
        (quote!(server = "a.b"), "has no dot"),
        (quote!(server = ""), "not empty"),
        (quote!(sever = "a"), "there are: server, crate"),
        (quote!(server = "a", server = "b"), "twice"),
        (quote!(server = 7), "expected string literal"),
    ] {
        let text = errors(attribute, quote!(impl A { #[doc = "x"] #[tool] fn b(&self) {} })).concat();
        assert!(text.contains(expected), "{text}");
    }
    for (options, expected) in [
        (quote!(effect = "reads"), "there is no \"reads\"; there are: read_only, mutating, privileged"),
        (quote!(mode = "all"), "there are: undeclared, none, restricted_local, restricted_remote, privileged"),
        (quote!(overflow = "drop"), "there are: fail, cut"),
        (quote!(timeout = 5), "there are: name, description, effect, mode, timeout_ms,"),
        (quote!(timeout_ms = "5"), "expected integer literal"),
        (quote!(concurrency = 0), "never answer"),
        (quote!(callable_from_code = "no"), "expected boolean literal"),
        (quote!(name = ""), "not empty"),
        (quote!(effect = "mutating", effect = "mutating"), "twice"),
    ] {
        let text = refused(quote!(
            #[doc = "x"]
            #[tool(#options)]
            fn b(&self) {}
        ));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn methods_that_can_be_no_tools_are_named() {
    for (method, expected) in [
        (
            quote!(
                #[tool]
                fn b(&self) {}
            ),
            "needs a description",
        ),
        (
            quote!(
                #[doc = "x"]
                #[tool]
                fn b(&mut self) {}
            ),
            "behind a Mutex",
        ),
        (
            quote!(
                #[doc = "x"]
                #[tool]
                fn b(self) {}
            ),
            "take &self",
        ),
        (
            quote!(
                #[doc = "x"]
                #[tool]
                fn b<T>(&self, t: T) {}
            ),
            "no parameters of its own",
        ),
        (
            quote!(
                #[doc = "x"]
                #[tool]
                fn b(&self, text: &str) {}
            ),
            "take String",
        ),
        (
            quote!(
                #[doc = "x"]
                #[tool]
                fn b(&self, args: A, more: u8) {}
            ),
            "is all arguments",
        ),
        (
            quote!(
                #[doc = "x"]
                #[tool]
                fn b(&self, (a, b): (u8, u8), args: A) {}
            ),
            "is all arguments",
        ),
        (
            quote!(
                #[doc = "x"]
                #[tool]
                fn b(&self, a: CallContext, b: x::CallContext) {}
            ),
            "one context",
        ),
        (
            quote!(
                #[doc = "x"]
                #[tool]
                #[tool]
                fn b(&self) {}
            ),
            "one tool",
        ),
        (
            quote!(
                fn b(&self) {}
            ),
            "no method here has the attribute #[tool]",
        ),
        (
            quote!(
                #[doc = "x"]
                #[tool]
                fn b(&self) {}
                #[doc = "x"]
                #[tool(name = "b")]
                fn c(&self) {}
            ),
            "there are two tools \"b\"",
        ),
    ] {
        let text = refused(method);
        assert!(text.contains(expected), "{text}");
    }
    let text = errors(quote!(server = "a"), quote!(impl B for A { #[doc = "x"] #[tool] fn b(&self) {} })).concat();
    assert!(text.contains("without a trait"), "{text}");
    let text = errors(
        quote!(server = "a"),
        quote!(
            struct A;
        ),
    )
    .concat();
    assert!(text.contains("over an `impl`"), "{text}");
}

#[test]
fn every_error_is_said_at_once_and_the_impl_stays() {
    let item = quote!(impl A { #[tool] fn b(&self) {} #[doc = "x"] #[tool(effect = 1)] fn c(&self) {} fn d() {} });
    let expanded = expand(quote!(), item).to_string();
    for text in ["needs a description", "expected string literal", "the name of the server"] {
        assert!(expanded.contains(text), "{text}: {expanded}");
    }
    assert!(!expanded.contains("# [tool") && expanded.contains("fn d ()"), "{expanded}");
}
