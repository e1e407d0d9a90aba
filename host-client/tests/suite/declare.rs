//! Declarations of tools, held against the real TypeScript compiler: those of real MCP servers, and hard ones.

mod compiler;
mod hard;
mod hostile;
mod real;
