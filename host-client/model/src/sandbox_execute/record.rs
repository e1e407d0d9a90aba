//! Records what a run does, in a layer between the policy and the tools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tower::{BoxError, Layer, Service, ServiceExt};

use super::arguments::{OutputMode, SandboxInput};
use super::output::{SandboxError, SandboxOutput};
use host_client_core::executor::{ToolRequest, ToolService};
use host_client_core::rules::policy::Phase;
use host_client_sources::sets::workspace::spelled;

/// Maximum number of files in the record.
const MAX_FILES: usize = 1_000;
/// Maximum size of all patches in the record, in bytes.
const MAX_PATCH_BYTES: usize = 4 << 20;

/// Layer that records the tools that run, the files that they read and the patches that they apply. Clones share the
/// record.
#[derive(Debug, Clone)]
pub(super) struct Recorder {
    record: Arc<Mutex<Record>>,
    /// Maximum size of results for all programs of the run, in bytes. The policy has the same limit for each program.
    read_bytes: u64,
}

/// Record of a run.
#[derive(Debug, Default)]
struct Record {
    by_tool: BTreeMap<String, u64>,
    files: BTreeSet<String>,
    bytes: u64,
    patches: String,
    /// Number of patches that are being applied.
    patching: usize,
    truncated: bool,
}

/// Error of a run that has used up its bytes.
#[derive(Debug, thiserror::Error)]
#[error("this run may read {0} bytes, and they are used")]
struct Used(u64);

impl Recorder {
    pub(super) fn new(read_bytes: u64) -> Self {
        Self { record: Arc::default(), read_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        // A panic under this lock leaves no half-made change.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the record into an output.
    pub(super) fn fill(&self, output: &mut SandboxOutput, input: &SandboxInput) {
        let record = self.lock();
        let usage = &mut output.tool_usage;
        usage.total_calls = record.by_tool.values().sum();
        usage.by_tool = record.by_tool.clone();
        usage.truncated = record.truncated;
        output.files_read = record.files.iter().cloned().collect();
        if input.phase == Phase::Write && input.output_mode == OutputMode::SummaryAndPatch && !record.patches.is_empty()
        {
            let most = usize::try_from(input.limits.max_result_bytes).unwrap_or(usize::MAX);
            let end = record.patches.floor_char_boundary(most);
            usage.truncated |= end < record.patches.len();
            output.patch = Some(record.patches[..end].to_owned());
        }
        if record.patching > 0 {
            // The outcome of the patch is unknown, whatever the program says.
            let unknown = "a patch was being applied, and may have been: look at the files before it is tried again";
            output.success = false;
            match &mut output.error {
                Some(error) => error.message = format!("{}\n{unknown}", error.message),
                none => *none = Some(SandboxError::outcome_unknown(unknown)),
            }
        }
    }

    /// Records the start of a call.
    ///
    /// # Errors
    /// The bytes of the run are used up.
    fn began(&self, tool: &str) -> Result<(), Used> {
        let mut record = self.lock();
        if record.bytes >= self.read_bytes {
            record.truncated = true;
            return Err(Used(self.read_bytes));
        }
        *record.by_tool.entry(tool.to_owned()).or_default() += 1;
        record.patching += usize::from(tool == "apply_patch");
        Ok(())
    }

    /// Records the end of a call. `result` is `None` if it failed.
    ///
    /// # Errors
    /// The bytes of the run are used up: the program does not get the result.
    fn ended(&self, tool: &str, arguments: &Value, result: Option<&Bytes>) -> Result<(), Used> {
        let mut record = self.lock();
        record.patching -= usize::from(tool == "apply_patch");
        let Some(result) = result else { return Ok(()) };
        record.bytes = record.bytes.saturating_add(result.len() as u64);
        if tool == "apply_patch" && arguments["dry_run"] != true {
            record.patched(arguments["patch"].as_str().unwrap_or_default());
        }
        if record.bytes > self.read_bytes {
            record.truncated = true;
            return Err(Used(self.read_bytes));
        }
        if tool == "read" {
            record.read(arguments, result);
        }
        Ok(())
    }
}

impl Record {
    /// Records the files of a call of `read`.
    fn read(&mut self, arguments: &Value, result: &Bytes) {
        let several: Value = match arguments.get("paths") {
            Some(_) => serde_json::from_slice(result).unwrap_or_default(),
            None => Value::Null,
        };
        let were_read = several["files"].as_array().into_iter().flatten().filter(|file| file.get("error").is_none());
        let one = arguments.get("path").into_iter();
        for path in were_read.filter_map(|file| file.get("path")).chain(one).filter_map(Value::as_str) {
            if self.files.len() == MAX_FILES {
                self.truncated = true;
                return;
            }
            self.files.extend(spelled(path));
        }
    }

    /// Records a patch that was applied.
    fn patched(&mut self, patch: &str) {
        if self.patches.len() + patch.len() > MAX_PATCH_BYTES {
            self.truncated = true;
            return;
        }
        self.patches.push_str(patch);
        if !patch.ends_with('\n') {
            self.patches.push('\n');
        }
    }
}

impl Layer<ToolService> for Recorder {
    type Service = Recording;

    fn layer(&self, inner: ToolService) -> Recording {
        Recording { inner, recorder: self.clone() }
    }
}

/// Service of tools with the recorder around it.
#[derive(Debug, Clone)]
pub(super) struct Recording {
    inner: ToolService,
    recorder: Recorder,
}

impl Service<ToolRequest> for Recording {
    type Response = Bytes;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Bytes, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each call waits for the inner service itself.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: ToolRequest) -> Self::Future {
        let Self { inner, recorder } = self.clone();
        Box::pin(async move {
            let tool = request.context.tool.tool().to_owned();
            let arguments = match tool.as_str() {
                "read" | "apply_patch" => request.arguments.clone(),
                _ => Value::Null,
            };
            recorder.began(&tool)?;
            let result = inner.oneshot(request).await;
            recorder.ended(&tool, &arguments, result.as_ref().ok())?;
            result
        })
    }
}
