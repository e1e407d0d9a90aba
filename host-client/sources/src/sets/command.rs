//! `command`: starts one program, with arguments that a JSON Schema checks and a template puts in their places.
//!
//! There is no shell. The program gets the listed environment variables only, a fixed working folder, and a process
//! group of its own, which is killed as a whole when the call ends, is cancelled or takes too long. A process that
//! leaves the group (`setsid`) is not killed. The program may do whatever this process may; its tools are therefore
//! privileged, and each call needs an approval.

mod run;
mod template;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use self::run::Program;
use self::template::Template;
use host_client_core::error::Error;
use host_client_core::tool::{CallContext, CallFuture, Tool, ToolError, ToolSpec};
use host_client_core::tool::{DEFAULT_TIMEOUT, Effect, Mode};
use host_client_core::tools::{Mount, Tools};

/// Default of [`CommandSet::output_bytes`].
const DEFAULT_OUTPUT_BYTES: usize = 256 << 10;
/// Maximum of [`CommandSet::output_bytes`]: both outputs as JSON still fit in a result.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// Maximum number of concurrent calls of one tool.
const CONCURRENCY: usize = 4;

/// One program, and the tools that start it.
///
/// ```no_run
/// use host_client_core::Tools;
/// use host_client_sources::sets::command::{CommandSet, CommandTool};
///
/// # fn example(tools: &Tools) -> Result<(), host_client_core::Error> {
/// let arguments = serde_json::json!({"type": "object", "properties": {
///     "count": {"type": "integer", "minimum": 1, "maximum": 1000},
///     "paths": {"type": "array", "items": {"type": "string"}},
/// }});
/// let log = ["log", "--oneline", "--max-count={count}", "--", "{paths}"];
/// let mount = CommandSet::new("git")
///     .program("/usr/bin/git")
///     .folder("/srv/project")
///     .tool(CommandTool::new("log", "Shows commits.", arguments, log))
///     .mount(tools)?;
/// # drop(mount); Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct CommandSet {
    server: String,
    program: PathBuf,
    folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
    output_bytes: usize,
    tools: Vec<CommandTool>,
}

/// One way to start a program: a tool with its arguments.
#[derive(Debug, Clone)]
pub struct CommandTool {
    name: String,
    description: String,
    input_schema: Value,
    template: Vec<String>,
    stdin: Option<String>,
    timeout: Duration,
}

impl CommandSet {
    /// Creates a set without program and tools. Its tools will be those of the server `server`.
    pub fn new(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            program: PathBuf::new(),
            folder: PathBuf::from("/"),
            environment: Vec::new(),
            output_bytes: DEFAULT_OUTPUT_BYTES,
            tools: Vec::new(),
        }
    }

    /// Sets the absolute path of the program. `PATH` is not searched.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = path.into();
        self
    }

    /// Sets the absolute path of the program's working folder. Default: `/`.
    #[must_use]
    pub fn folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.folder = path.into();
        self
    }

    /// Sets an environment variable of the program. Default: no variables.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Copies the current values of these environment variables from this process. Those that are not set are skipped.
    #[must_use]
    pub fn inherit_env<S: AsRef<str>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        for name in names {
            if let Some(value) = std::env::var_os(name.as_ref()) {
                self.environment.push((name.as_ref().into(), value));
            }
        }
        self
    }

    /// Sets how many bytes of standard output, and of standard error, are kept. Default: 256 KiB; maximum: 1 MiB. The
    /// rest is read and dropped.
    #[must_use]
    pub fn output_bytes(mut self, bytes: usize) -> Self {
        self.output_bytes = bytes.min(MAX_OUTPUT_BYTES);
        self
    }

    /// Adds a tool that starts the program.
    #[must_use]
    pub fn tool(mut self, tool: CommandTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Registers the tools. Dropping the mount removes them.
    ///
    /// # Errors
    /// [`Error::Source`] if the program is not an executable file or the folder is not a folder, each by an absolute
    /// path, or if an environment variable, a schema or a template is invalid; the error of [`Tools::mount`] if the
    /// name of the server is taken or invalid; [`Error::Tool`] if a tool is refused.
    pub fn mount(self, tools: &Tools) -> Result<Mount, Error> {
        self.check().map_err(|reason| refuse(&self.server, reason))?;
        let mount = tools.mount(&self.server, format!("the command {}", self.program.display()))?;
        let program = Arc::new(Program {
            path: self.program,
            folder: self.folder,
            environment: self.environment,
            output_bytes: self.output_bytes,
        });
        let mut set: Vec<Arc<dyn Tool>> = Vec::with_capacity(self.tools.len());
        for tool in self.tools {
            let name = format!("{}.{}", self.server, tool.name);
            set.push(Arc::new(tool.bind(&name, &program).map_err(|reason| refuse(&name, reason))?));
        }
        match mount.replace(set).into_iter().next() {
            Some(error) => Err(error),
            None => Ok(mount),
        }
    }

    /// Checks the program, the folder and the environment.
    fn check(&self) -> Result<(), String> {
        let (program, folder) = (self.program.display(), self.folder.display());
        if !self.program.is_absolute() {
            return Err(format!("the program {program} is not named by an absolute path"));
        }
        let metadata = fs::metadata(&self.program).map_err(|error| format!("the program {program}: {error}"))?;
        if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
            return Err(format!("{program} cannot be executed"));
        }
        if !self.folder.is_absolute() || !self.folder.is_dir() {
            return Err(format!("{folder} is no folder, by an absolute path"));
        }
        let is_name =
            |name: &OsString| !name.is_empty() && !name.as_encoded_bytes().iter().any(|b| matches!(b, b'=' | 0));
        let is_value = |value: &OsString| !value.as_encoded_bytes().contains(&0);
        match self.environment.iter().find(|(name, value)| !is_name(name) || !is_value(value)) {
            Some((name, _)) => Err(format!("{} cannot be a variable of an environment", name.display())),
            None => Ok(()),
        }
    }
}

fn refuse(set: &str, reason: String) -> Error {
    Error::source(format!("the command {set}"), reason)
}

impl CommandTool {
    /// Creates a tool. `input_schema` is the JSON Schema of its arguments, an object; arguments that it does not name
    /// are refused. `template` holds one item for each argument of the program:
    /// - `{name}` is replaced by an argument of the tool: a string, a number or a boolean.
    /// - An item that is `{name}` alone may be an array, and becomes as many items.
    /// - An item with an argument that is absent or `null` is left out.
    /// - An item that begins with a value may not become one that begins with `-`, so that no value passes for an
    ///   option; `{-name}` allows it.
    /// - `{{` and `}}` stand for braces.
    pub fn new<S: Into<String>>(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
        template: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema,
            template: template.into_iter().map(Into::into).collect(),
            stdin: None,
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// Sets the argument, a string, that is written to the program's standard input. Default: an empty standard input.
    #[must_use]
    pub fn stdin(mut self, argument: impl Into<String>) -> Self {
        self.stdin = Some(argument.into());
        self
    }

    /// Sets the maximum running time. Default: 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Checks the schema and the template, and joins the tool with its program.
    fn bind(mut self, name: &str, program: &Arc<Program>) -> Result<BoundTool, String> {
        let Some(schema) = self.input_schema.as_object_mut() else {
            return Err("its schema is not that of an object".into());
        };
        schema.entry("type").or_insert_with(|| json!("object"));
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
        let none = serde_json::Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let names: Vec<&str> = properties.keys().map(String::as_str).collect();
        let template =
            Template::parse(&self.template, &names, self.stdin.as_deref()).map_err(|error| error.to_string())?;
        let spec = ToolSpec::new(name, self.description, self.input_schema)
            .output_schema(schemars::schema_for!(run::Ended).to_value())
            .effect(Effect::Privileged)
            .mode(Mode::Privileged)
            .timeout(self.timeout);
        Ok(BoundTool { spec, template, stdin: self.stdin, program: Arc::clone(program) })
    }
}

/// Tool with the program that it starts.
struct BoundTool {
    spec: ToolSpec,
    template: Template,
    stdin: Option<String>,
    program: Arc<Program>,
}

impl Tool for BoundTool {
    fn spec(&self) -> ToolSpec {
        let mut spec = self.spec.clone();
        spec.manifest.concurrency = Some(CONCURRENCY);
        spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> CallFuture {
        let argv = self.template.expand(&arguments);
        let input = self.stdin.as_ref().and_then(|name| arguments.get(name)?.as_str()).map(str::to_owned);
        let program = Arc::clone(&self.program);
        let deadline = context.deadline.min(tokio::time::Instant::now() + self.spec.manifest.timeout);
        Box::pin(async move {
            let argv = argv.map_err(|error| ToolError::denied(error.to_string()))?;
            let ended = run::run(&program, &argv, input, deadline).await.map_err(run::RunError::into_tool_error)?;
            Ok(serde_json::to_vec(&ended)?.into())
        })
    }

    fn result_fits_by_type(&self) -> bool {
        true
    }
}
