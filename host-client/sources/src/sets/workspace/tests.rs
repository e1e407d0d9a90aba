//! Tests of the tools of a workspace, called as the dispatcher calls them.

mod hostile;
mod looking;
mod patching;

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::WorkspaceSet;
use host_client_core::tool::validate::Schema;
use host_client_core::tool::{CallContext, ToolError};
use host_client_core::tools::{Mount, Tools};

pub(super) fn context(tool: &str) -> CallContext {
    CallContext::by_hand(tool.to_owned().try_into().unwrap(), Duration::from_secs(60))
}

/// A folder with a workspace on it.
pub(super) struct Workspace {
    pub(super) folder: TempDir,
    pub(super) tools: Tools,
    _mount: Mount,
}

impl Workspace {
    /// With everything allowed.
    pub(super) fn new() -> Self {
        Self::with(|set| set.writable(["**"]).unwrap().allow_create(true).allow_delete(true))
    }

    pub(super) fn with(set_up: impl FnOnce(WorkspaceSet) -> WorkspaceSet) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tools = Tools::new();
        let mount = set_up(WorkspaceSet::open(folder.path()).unwrap()).mount(&tools, "fs").unwrap();
        Self { folder, tools, _mount: mount }
    }

    pub(super) fn path(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path)
    }

    pub(super) fn write(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(super) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, ToolError> {
        let spec = self.tools.spec(&format!("fs.{tool}")).unwrap();
        let schema = Schema::compile(&spec.input_schema).unwrap();
        let arguments = schema.check(arguments).map_err(ToolError::new)?.into_inner();
        let result = self.tools.tool_by_name(&spec.name).unwrap().call(arguments, context(&spec.name)).await?;
        Ok(serde_json::from_slice(&result).unwrap())
    }

    pub(super) async fn error(&self, tool: &str, arguments: Value) -> String {
        let error = self.call(tool, arguments).await.unwrap_err();
        let (code, message) = error.into_parts();
        format!("{}: {message}", host_client_core::Code::from(code).as_str())
    }

    pub(super) async fn patch(&self, patch: &str) -> Result<Value, ToolError> {
        self.call("apply_patch", json!({"patch": patch})).await
    }

    pub(super) async fn patch_error(&self, patch: &str) -> String {
        self.error("apply_patch", json!({"patch": patch})).await
    }

    /// Every file below the folder with its content, and every link with what it says.
    pub(super) fn snapshot(&self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        collect(self.folder.path(), self.folder.path(), &mut all);
        all.sort();
        all
    }
}

fn collect(root: &Path, folder: &Path, all: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            all.push((format!("{name}/"), Vec::new()));
            collect(root, &path, all);
        } else if kind.is_symlink() {
            all.push((name, fs::read_link(&path).unwrap().to_string_lossy().into_owned().into_bytes()));
        } else if kind.is_file() {
            all.push((name, fs::read(&path).unwrap()));
        }
    }
}
