//! Commands of the command line: `--commands FILE.toml`, programs of this machine as tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host_client::sets::command::{CommandSet, CommandTool};
use host_client::{Mount, Tools};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::exit::Failure;
use crate::files::read;

/// Program that the tools of one server start.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    /// Absolute path of the program.
    program: PathBuf,
    /// Working folder, relative to the folder of the file. Default: that folder.
    folder: Option<PathBuf>,
    /// Environment variables of the program.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Names of environment variables that the program inherits.
    #[serde(default)]
    inherit_env: Vec<String>,
    /// Maximum size in bytes of standard output, and of standard error, that is kept.
    output_bytes: Option<usize>,
    /// Tools by name.
    tools: BTreeMap<String, CommandEntry>,
}

/// One tool.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandEntry {
    /// Description for models.
    description: String,
    /// Arguments of the program, with `{name}` for an argument of the tool.
    args: Vec<String>,
    /// JSON Schema of each argument of the tool, by its name.
    #[serde(default)]
    arguments: Map<String, Value>,
    /// Names of the arguments that may not be left out.
    #[serde(default)]
    required: Vec<String>,
    /// Argument that is written to standard input.
    stdin: Option<String>,
    /// Maximum running time, in seconds. Default: 30.
    timeout_s: Option<u64>,
}

/// Mounts the programs of files.
///
/// # Errors
/// Status 2 with the file, and what is wrong in it.
pub(crate) fn commands(tools: &Tools, files: &[PathBuf]) -> Result<Vec<Mount>, Failure> {
    let mut mounts = Vec::new();
    for file in files {
        mounts.extend(of_file(tools, file)?);
    }
    Ok(mounts)
}

/// Mounts the programs of one file.
///
/// # Errors
/// As of [`commands`].
pub(crate) fn of_file(tools: &Tools, file: &Path) -> Result<Vec<Mount>, Failure> {
    let wrong = |reason: String| Failure::usage(format!("{}: {reason}", file.display()));
    let programs: BTreeMap<String, Program> = toml::from_str(&read(file)?).map_err(|error| wrong(error.to_string()))?;
    if programs.is_empty() {
        return Err(wrong("it names no program; write [NAME] with program = \"/path\"".into()));
    }
    // The program of a set has an absolute folder.
    let folder = file.parent().unwrap_or(Path::new("")).join(".").canonicalize();
    let folder = folder.map_err(|error| wrong(format!("its folder cannot be found: {error}")))?;
    let mut mounts = Vec::new();
    for (server, program) in programs {
        let set = program.set(&server, &folder).map_err(|reason| wrong(format!("{server}: {reason}")))?;
        mounts.push(set.mount(tools).map_err(|error| wrong(error.to_string()))?);
    }
    Ok(mounts)
}

impl Program {
    /// Makes the set of a server.
    ///
    /// # Errors
    /// The reason in words.
    fn set(self, server: &str, folder: &Path) -> Result<CommandSet, String> {
        if self.tools.is_empty() {
            return Err(format!("it has no tools; write [{server}.tools.NAME] with description and args"));
        }
        let own = self.folder.map_or_else(|| folder.to_owned(), |own| folder.join(own));
        let mut set = CommandSet::new(server).program(self.program).folder(own).inherit_env(self.inherit_env);
        for (name, value) in self.env {
            set = set.env(name, value);
        }
        if let Some(bytes) = self.output_bytes {
            set = set.output_bytes(bytes);
        }
        for (name, tool) in self.tools {
            set = set.tool(tool.tool(&name).map_err(|reason| format!("{name}: {reason}"))?);
        }
        Ok(set)
    }
}

impl CommandEntry {
    /// Makes the tool.
    ///
    /// # Errors
    /// The reason in words.
    fn tool(self, name: &str) -> Result<CommandTool, String> {
        if let Some(unknown) = self.required.iter().find(|name| !self.arguments.contains_key(*name)) {
            return Err(format!("{unknown:?} is required and not among its arguments"));
        }
        if let Some(stdin) = self.stdin.as_ref().filter(|name| !self.arguments.contains_key(*name)) {
            return Err(format!("{stdin:?} is its stdin and not among its arguments"));
        }
        if self.timeout_s == Some(0) {
            return Err("timeout_s = 0 leaves it no time; write a number of seconds from 1".into());
        }
        let schema = json!({"type": "object", "properties": self.arguments, "required": self.required});
        let mut tool = CommandTool::new(name, self.description, schema, self.args);
        if let Some(argument) = self.stdin {
            tool = tool.stdin(argument);
        }
        if let Some(seconds) = self.timeout_s {
            tool = tool.timeout(Duration::from_secs(seconds));
        }
        Ok(tool)
    }
}
