//! Real MCP servers and clients, pinned and installed on demand by `dev/test-support`.

pub(crate) use relay_test_support::servers::program;
