//! The one Tokio runtime of the process. It is made when it is first needed, and ends with the process.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;

use futures_util::FutureExt as _;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;

use crate::error::SdkError;

/// The most threads of the runtime: it moves messages, and the code runs elsewhere.
const MOST_THREADS: usize = 4;

/// The runtime, with the id of the process that made it.
static RUNTIME: OnceLock<Result<(u32, Runtime), String>> = OnceLock::new();

/// Returns the runtime.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind): this process was forked from the one that made the runtime, whose threads it
/// does not have; or the system gives no threads.
pub fn handle() -> Result<Handle, SdkError> {
    let made = RUNTIME.get_or_init(|| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        let built =
            Builder::new_multi_thread().worker_threads(threads).thread_name("sandbox-relay").enable_all().build();
        built.map(|runtime| (std::process::id(), runtime)).map_err(|error| error.to_string())
    });
    match made {
        Ok((process, runtime)) if *process == std::process::id() => Ok(runtime.handle().clone()),
        Ok(_) => Err(SdkError::forked()),
        Err(reason) => Err(SdkError::internal(format!("the system gives no threads: {reason}"))),
    }
}

/// Returns whether this process was forked from the one that made the runtime.
pub(crate) fn is_forked() -> bool {
    matches!(RUNTIME.get(), Some(Ok((process, _))) if *process != std::process::id())
}

/// A task of the runtime that ends when this is dropped.
#[derive(Debug)]
#[must_use = "dropping this ends the task"]
pub struct Guard(AbortHandle);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs a future on the runtime, and gives its result to `done` there. A panic of the future is an error. When the guard is
/// dropped before the end, the future is dropped and `done` is not called.
///
/// # Errors
/// Those of [`handle`].
pub fn spawn<T: Send + 'static>(
    future: impl Future<Output = Result<T, SdkError>> + Send + 'static,
    done: impl FnOnce(Result<T, SdkError>) + Send + 'static,
) -> Result<Guard, SdkError> {
    let task = handle()?.spawn(async move { done(caught(future).await) });
    Ok(Guard(task.abort_handle()))
}

/// Runs a future on the runtime from any other executor. Dropping this drops the future.
///
/// # Errors
/// Those of [`handle`] and of the future; [`ErrorKind::Internal`](crate::ErrorKind): it panicked.
pub async fn run<T: Send + 'static>(
    future: impl Future<Output = Result<T, SdkError>> + Send + 'static,
) -> Result<T, SdkError> {
    let (tell, told) = tokio::sync::oneshot::channel();
    // Nobody may wait for the result any more.
    let _guard = spawn(future, move |result| drop(tell.send(result)))?;
    told.await.unwrap_or_else(|_dropped| Err(SdkError::internal("the runtime is gone".into())))
}

/// Awaits a future, and makes an error of its panic.
pub(crate) async fn caught<T>(future: impl Future<Output = Result<T, SdkError>>) -> Result<T, SdkError> {
    match AssertUnwindSafe(future).catch_unwind().await {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(SdkError::internal(format!("a fault of this library: {}", text.unwrap_or_default())))
        }
    }
}
