//! Compiles every block of Rust in README and docs, as tests of this package's own documentation.
//!
//! One module for each page; a test in `tests/docs` fails when a page with Rust has none.

/// Names a page by a module, whose documentation it is while tests of documentation are collected.
#[cfg(doctest)]
macro_rules! pages {
    ($($page:ident = $path:literal,)*) => {
        $(#[doc = include_str!(concat!("../../../", $path))] mod $page {})*
    };
}

#[cfg(doctest)]
pages! {
    readme = "README.md",
    durable_runs = "docs/durable-runs.md",
    journal = "docs/journal.md",
    lost_connections = "docs/lost-connections.md",
    mcp_and_openapi = "docs/mcp-and-openapi.md",
    page = "docs/page.md",
    policies_and_approvals = "docs/policies-and-approvals.md",
    rust = "docs/rust.md",
    tokens_and_tls = "docs/tokens-and-tls.md",
}
