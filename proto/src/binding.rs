//! Bindings: what an execution may have beside `mcp`, by the names that `welcome` offers and `execute` asks for.

use std::fmt;
use std::str::FromStr;

macro_rules! bindings {
    ($($(#[$doc:meta])* $variant:ident = $text:literal: $globals:expr;)*) => {
        /// A binding that this version knows.
        ///
        /// ```
        /// use relay_proto::Binding;
        ///
        /// assert_eq!("timers".parse(), Ok(Binding::Timers));
        /// assert!(Binding::Timers.globals().contains(&"setTimeout"));
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Binding {
            $($(#[$doc])* $variant,)*
        }

        impl Binding {
            /// Lists every binding, in the order of the docs.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Returns the names of the globals that the binding defines.
            pub fn globals(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &$globals,)* }
            }
        }
    };
}

bindings! {
    /// Captures `console.log` and its like and streams them to the host as output.
    Console = "console": ["console"];
    /// Adds `setTimeout` and its like.
    Timers = "timers": ["clearInterval", "clearTimeout", "setInterval", "setTimeout"];
    /// Adds `read_input()` and `emit(text)`.
    Io = "io": ["emit", "read_input"];
    /// Adds one object for each server, with one async function for each tool, in `servers` and as globals.
    Servers = "servers": ["servers"];
    /// Adds `mcp.search`, `mcp.describe` and the functions that tell a tool's interface.
    Introspection = "introspection": ["__getToolInterface", "__interfaces"];
    /// Adds a small JSON key-value store that lives as long as the session.
    Store = "store": ["store"];
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reports a text that names no binding of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a binding that this version knows")]
pub struct UnknownBinding;

impl FromStr for Binding {
    type Err = UnknownBinding;

    fn from_str(text: &str) -> Result<Self, UnknownBinding> {
        Self::ALL.iter().copied().find(|binding| binding.as_str() == text).ok_or(UnknownBinding)
    }
}
