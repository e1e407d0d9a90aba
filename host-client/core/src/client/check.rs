//! The check of code before it runs: mistakes that are certain from its syntax tree and the schemas of the tools.
//!
//! The crate `relay-script` tells which calls are made for certain and what is known of their arguments. Here they are
//! held against the tools that the code may call.

mod arguments;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use relay_proto::spelling::{nearest, sanitize};
use relay_proto::{Binding, ErrorCode, INTROSPECTION_SERVER, LOCAL_SERVER, ToolName, ToolPatterns};
use relay_script::{Callee, ProgramCall, calls, shortcut};

use super::request::ExecuteRequest;
use crate::error::ExecutionError;
use crate::rules::policy::{Decision, Policy};
use crate::tool::Registered;
use crate::tools::Tools;

/// The most mistakes that are told of one program.
const MAX_MISTAKES: usize = 20;
/// The members that every object has, also one that stands for a server.
const OF_EVERY_OBJECT: [&str; 9] = [
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "then",
    "toJSON",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// A mistake in code that was found without running it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line in the author's text, from 1.
    pub line: u32,
    /// The column, from 1 in UTF-16 code units.
    pub column: u32,
    /// The mistake and its likely correction, as one sentence.
    pub message: String,
    /// The signature of the tool that was called or may have been meant; `None`: there is none.
    pub declaration: Option<String>,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)?;
        self.declaration.iter().try_for_each(|declaration| write!(f, "\n  {declaration}"))
    }
}

/// The tools and rules that a request is checked against.
pub(super) struct Surroundings<'a> {
    tools: &'a Tools,
    policy: &'a Policy,
    /// The patterns of the tools that the code may call.
    patterns: &'a ToolPatterns,
    /// The tools that code may call, by name.
    callable: Vec<Arc<Registered>>,
    /// The servers without tools, which may still come.
    empty: Vec<String>,
}

impl<'a> Surroundings<'a> {
    /// Looks at the tools as they are now.
    pub(super) fn new(tools: &'a Tools, policy: &'a Policy, patterns: &'a ToolPatterns) -> Self {
        let callable = tools.callable();
        let filled: BTreeSet<&str> = callable.iter().map(|tool| tool.name.server()).collect();
        let servers = tools.servers().into_iter().map(|(server, _)| server);
        let empty = servers.filter(|server| !filled.contains(server.as_str())).collect();
        Self { tools, policy, patterns, callable, empty }
    }
}

/// Returns the mistakes of a request's code, at most [`MAX_MISTAKES`], in the order of the text.
pub(super) fn mistakes(request: &ExecuteRequest, around: &Surroundings<'_>) -> Vec<Mistake> {
    let mut found = Vec::new();
    // Code that is one call of a tool has the outcome of that call, on the short path or not.
    let is_one_call = shortcut(&request.code).is_some();
    for call in calls(&request.code) {
        found.extend(around.mistakes(request, &call, is_one_call));
        if found.len() >= MAX_MISTAKES {
            break;
        }
    }
    found.truncate(MAX_MISTAKES);
    found
}

/// Makes the error of code that was not run because of these mistakes; `None`: there are none.
pub(super) fn refusal(mistakes: &[Mistake]) -> Option<ExecutionError> {
    let first = mistakes.first()?;
    let lines: Vec<_> = mistakes.iter().map(|mistake| format!("- {mistake}")).collect();
    let message = format!("nothing has run, because the code is certain to fail:\n{}", lines.join("\n"));
    Some(ExecutionError {
        line: Some(first.line),
        column: Some(first.column),
        hint: Some("mend all of these and send the whole program again".into()),
        ..ExecutionError::new(ErrorCode::CheckFailed, message)
    })
}

/// The tool that a call means.
enum Meant {
    Tool(ToolName),
    /// A tool that there is not, with the reason.
    None {
        message: String,
        /// The tool that may have been meant.
        near: Option<ToolName>,
    },
    /// It is uncertain whether the name is that of a tool: one may still come, or it is no tool's.
    Unclear,
}

impl Surroundings<'_> {
    /// Returns the mistakes of one call.
    fn mistakes(&self, request: &ExecuteRequest, call: &ProgramCall, is_one_call: bool) -> Vec<Mistake> {
        let meant = match &call.callee {
            Callee::Named(name) => self.named(name),
            Callee::Member { server, tool } => self.member(request, server, tool),
        };
        let mistake = |message: String, tool: Option<&ToolName>| Mistake {
            line: call.line,
            column: call.column,
            message,
            declaration: tool.and_then(|tool| self.declaration(tool)),
        };
        let name = match meant {
            Meant::Tool(name) if !is_one_call => name,
            Meant::None { message, near } => return vec![mistake(message, near.as_ref())],
            Meant::Tool(_) | Meant::Unclear => return Vec::new(),
        };
        let mut found = Vec::new();
        if let Some(used) = &call.promise {
            let message = format!(
                "{} is used on the Promise of {name}, not on its result; write await before the call, in brackets",
                used.what
            );
            found.push(Mistake { line: used.line, column: used.column, message, declaration: None });
        }
        let Some(tool) = self.tools.get(name.as_str()) else { return found };
        let ruling = self.policy.decide(&name, &tool.spec.manifest, request.phase);
        if let Decision::Deny { reason } = &ruling.decision {
            found.push(mistake(format!("{name} may not be called: {reason}"), None));
            return found;
        }
        let faults = arguments::faults(&tool.spec.input_schema, &call.arguments);
        if !faults.is_empty() {
            let message = format!("the arguments of {name} do not fit: {}", faults.join("; "));
            found.push(mistake(message, Some(&name)));
        }
        found
    }

    /// Returns the signature of a tool that may be called.
    fn declaration(&self, name: &ToolName) -> Option<String> {
        Some(self.tools.declarations().signature(&*self.tools.get(name.as_str())?))
    }

    /// Finds the tool of `mcp.call("name")`.
    fn named(&self, name: &str) -> Meant {
        let Ok(name) = ToolName::try_from(name.to_owned()) else {
            let near = self.nearest_tool(name);
            let hint = near.as_ref().map(|near| format!("; did you mean {:?}?", near.as_str())).unwrap_or_default();
            let message = format!("{name:.100?} is no name of a tool, which is \"server.tool\"{hint}");
            return Meant::None { message, near };
        };
        if [INTROSPECTION_SERVER, LOCAL_SERVER].contains(&name.server()) {
            return Meant::Unclear;
        }
        if self.tools.get(name.as_str()).is_some() {
            return self.if_allowed(name);
        }
        if self.may_come(|server| server == name.server()) {
            return Meant::Unclear;
        }
        let (_, message) = self.tools.unknown(&name);
        let near = self.near(&name);
        Meant::None { message, near }
    }

    /// Finds the tool of `server.tool(…)`.
    fn member(&self, request: &ExecuteRequest, server: &str, tool: &str) -> Meant {
        let has_servers = request.bindings.iter().any(|name| name == Binding::Servers.as_str());
        let is_bound = Binding::ALL.iter().any(|binding| binding.globals().contains(&server));
        if !has_servers || is_bound || OF_EVERY_OBJECT.contains(&tool) || self.may_come(|name| sanitize(name) == server)
        {
            return Meant::Unclear;
        }
        let callable = &self.callable;
        let mut servers: Vec<_> =
            callable.iter().map(|it| it.name.server()).filter(|it| sanitize(it) == server).collect();
        servers.dedup();
        match *servers {
            [known] => {
                let mut names = callable.iter().map(|it| &it.name).filter(|it| it.server() == known);
                match names.find(|name| sanitize(name.tool()) == tool) {
                    Some(name) => self.if_allowed(name.clone()),
                    None => match ToolName::try_from(format!("{known}.{tool}")) {
                        Ok(name) => Meant::None { message: self.tools.unknown(&name).1, near: self.near(&name) },
                        Err(_) => Meant::Unclear,
                    },
                }
            }
            // A global of JavaScript begins with a capital, or is `console` and the like, which are bound.
            [] if server.starts_with(|first: char| first.is_ascii_lowercase()) => {
                let servers = self.tools.servers();
                let names: Vec<_> = servers.iter().map(|(name, _)| sanitize(name)).collect();
                match nearest(server, names.iter().map(String::as_str)) {
                    Some(near) => {
                        let message = format!("there is no server {server:?}; did you mean {near:?}?");
                        let meant = callable.iter().map(|it| &it.name).filter(|it| sanitize(it.server()) == near);
                        let near = nearest(tool, meant.clone().map(ToolName::tool));
                        let near = meant.clone().find(|it| Some(it.tool()) == near).cloned();
                        Meant::None { message, near }
                    }
                    None => Meant::Unclear,
                }
            }
            _ => Meant::Unclear,
        }
    }

    /// Returns the tool if the code may call it.
    fn if_allowed(&self, name: ToolName) -> Meant {
        if self.patterns.allow(&name) {
            return Meant::Tool(name);
        }
        Meant::None { message: format!("{name} is not among the tools that this code may call"), near: None }
    }

    /// Returns `true` if a server has no tools now: they may still come.
    fn may_come(&self, is_server: impl Fn(&str) -> bool) -> bool {
        self.empty.iter().any(|server| is_server(server))
    }

    /// Returns the tool of the same server whose name is the most similar.
    fn near(&self, name: &ToolName) -> Option<ToolName> {
        let callable = &self.callable;
        let of_server = || callable.iter().map(|it| &it.name).filter(|it| it.server() == name.server());
        let near = nearest(name.tool(), of_server().map(ToolName::tool))?;
        of_server().find(|it| it.tool() == near).cloned()
    }

    /// Returns the tool whose name without its server is the most similar.
    fn nearest_tool(&self, name: &str) -> Option<ToolName> {
        let callable = &self.callable;
        let near = nearest(name, callable.iter().map(|it| it.name.tool()))?;
        callable.iter().find(|it| it.name.tool() == near).map(|it| it.name.clone())
    }
}
