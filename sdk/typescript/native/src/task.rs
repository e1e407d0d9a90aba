//! Work of the runtime that JavaScript waits for, and can cancel.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use napi::Env;
use napi::bindgen_prelude::{Object, ToNapiValue};
use napi_derive::napi;
use relay_sdk::{ErrorKind, SdkError, runtime};
use tokio_util::sync::CancellationToken;

type Resolver<T> = Box<dyn FnOnce(Env) -> napi::Result<T>>;
type Work = Pin<Box<dyn Future<Output = Result<String, SdkError>> + Send>>;

/// Runs a future on the runtime, and returns the promise of its result. The promise keeps Node from ending until it is
/// settled. A panic of the future rejects it.
///
/// # Errors
/// JavaScript makes no promise, or the runtime cannot be used.
pub(crate) fn promise<'env, T: ToNapiValue + Send + 'static>(
    env: &'env Env,
    future: impl Future<Output = Result<T, SdkError>> + Send + 'static,
) -> napi::Result<Object<'env>> {
    let runtime = runtime::handle().map_err(thrown)?;
    let (deferred, promise) = env.create_deferred::<T, Resolver<T>>()?;
    runtime.spawn(async move {
        match runtime::run(future).await {
            Ok(value) => deferred.resolve(Box::new(move |_env| Ok(value))),
            Err(error) => deferred.reject(thrown(error)),
        }
    });
    Ok(promise)
}

/// Returns an error as one of JavaScript whose message is JSON, of which `errors.ts` makes its own.
pub(crate) fn thrown(error: SdkError) -> napi::Error {
    napi::Error::from_reason(serde_json::to_string(&error).unwrap_or_else(|_| error.to_string()))
}

/// Work with a text as its result, which begins with [`Task::result`].
#[napi]
pub struct Task {
    work: Mutex<Option<Work>>,
    cancel: CancellationToken,
}

impl Task {
    pub(crate) fn new(work: impl Future<Output = Result<String, SdkError>> + Send + 'static) -> Self {
        Self { work: Mutex::new(Some(Box::pin(work))), cancel: CancellationToken::new() }
    }
}

#[napi]
impl Task {
    /// Begins the work, and returns the promise of its result. It can be called once.
    #[napi(catch_unwind)]
    pub fn result<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let cancel = self.cancel.clone();
        promise(env, async move {
            let work = work.ok_or_else(|| SdkError::internal("a task was begun twice".into()))?;
            cancel.run_until_cancelled(work).await.unwrap_or_else(|| Err(cancelled()))
        })
    }

    /// Drops the work: its promise rejects with `CANCELLED`.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}

fn cancelled() -> SdkError {
    SdkError::new(ErrorKind::Script, "CANCELLED", "it was cancelled")
}

/// A value that is dropped on the runtime, which JavaScript's collector is not part of.
pub(crate) struct OnRuntime<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> OnRuntime<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send + Clone + 'static> OnRuntime<T> {
    /// Returns the value.
    ///
    /// # Errors
    /// Never: it is there until this is dropped.
    pub(crate) fn get(&self) -> Result<T, SdkError> {
        self.0.clone().ok_or_else(SdkError::closed)
    }
}

impl<T: Send + 'static> Drop for OnRuntime<T> {
    fn drop(&mut self) {
        if let (Some(value), Ok(runtime)) = (self.0.take(), runtime::handle()) {
            runtime.spawn(async move { drop(value) });
        }
    }
}
