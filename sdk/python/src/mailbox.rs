//! Messages of the runtime for one event loop of Python.
//!
//! There are never more than what Python asked for and the calls that the relay may have sent: each operation has one
//! message, each call of a function two.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use relay_sdk::{ForeignContext, SdkError, ToolFault};
use tokio::sync::oneshot;

use crate::error;
use crate::function::Context;
use crate::operation::Value;

/// A message for Python, which gets a tuple: its kind, its number, and what belongs to it.
pub(crate) enum Message {
    /// An operation has ended: `("done", operation, value)` or `("failed", operation, error)`.
    Ended { operation: u64, result: Result<Value, SdkError> },
    /// A function is to be called: `("call", call, function, payload, context)`.
    Call { call: u64, function: u64, payload: String, context: Option<ForeignContext> },
    /// Nobody waits for a call any more: `("stop", call)`.
    Stop { call: u64 },
}

/// The answer of a function: a text, or a code and a message.
pub(crate) type Answer = Result<String, ToolFault>;

struct Inner {
    messages: Vec<Message>,
    /// The calls that wait for an answer.
    calls: HashMap<u64, oneshot::Sender<Answer>>,
    next: u64,
    is_signalled: bool,
    is_open: bool,
}

/// The messages, as both sides have them.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// The end that the runtime writes to when there is something, and the end that the event loop watches.
    ends: (UnixStream, UnixStream),
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Changed only under this lock, by code that does not panic half way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message, and wakes the event loop if it has not been woken since it last took messages out.
    pub(crate) fn post(&self, message: Message) {
        let mut inner = self.lock();
        if !inner.is_open {
            return;
        }
        inner.messages.push(message);
        if !inner.is_signalled {
            inner.is_signalled = true;
            // One byte always has room; and if the loop is gone, nobody has to be woken.
            let _ = (&self.ends.0).write(&[1]);
        }
    }

    /// Returns a number for an operation.
    pub(crate) fn number(&self) -> u64 {
        let mut inner = self.lock();
        inner.next += 1;
        inner.next
    }

    /// Begins a call of a function. `None`: the event loop is gone.
    pub(crate) fn begin(&self) -> Option<(u64, oneshot::Receiver<Answer>)> {
        let mut inner = self.lock();
        if !inner.is_open {
            return None;
        }
        inner.next += 1;
        let (call, (tell, answer)) = (inner.next, oneshot::channel());
        inner.calls.insert(call, tell);
        Some((call, answer))
    }

    /// Ends a call that nobody waits for any more.
    pub(crate) fn give_up(&self, call: u64) {
        if self.lock().calls.remove(&call).is_some() {
            self.post(Message::Stop { call });
        }
    }

    fn answer(&self, call: u64, answer: Answer) {
        let waiting = self.lock().calls.remove(&call);
        if let Some(waiting) = waiting {
            // Whoever waited may have gone just now.
            let _ = waiting.send(answer);
        }
    }
}

/// The messages for one event loop, which watches `fileno()` and then calls `drain()`.
#[pyclass(frozen, module = "sandbox_relay._native")]
pub(crate) struct Mailbox(pub(crate) Arc<Shared>);

#[pymethods]
impl Mailbox {
    #[new]
    fn new() -> PyResult<Self> {
        let ends = UnixStream::pair()?;
        ends.0.set_nonblocking(true)?;
        ends.1.set_nonblocking(true)?;
        let (messages, calls) = (Vec::new(), HashMap::new());
        let inner = Inner { messages, calls, next: 0, is_signalled: false, is_open: true };
        Ok(Self(Arc::new(Shared { inner: Mutex::new(inner), ends })))
    }

    /// Returns the descriptor that can be read when there are messages.
    fn fileno(&self) -> i32 {
        self.0.ends.1.as_raw_fd()
    }

    /// Takes all messages out.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let messages = {
            let mut inner = self.0.lock();
            if std::mem::take(&mut inner.is_signalled) {
                // The byte of the signal; it is there, or the loop was woken for nothing.
                let _ = (&self.0.ends.1).read(&mut [0; 8]);
            }
            std::mem::take(&mut inner.messages)
        };
        let tuples = messages.into_iter().map(|message| message.tuple(py)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, tuples)
    }

    /// Answers a call with JSON.
    fn answer(&self, call: u64, json: String) {
        self.0.answer(call, Ok(json));
    }

    /// Answers a call with a failure.
    fn fail(&self, call: u64, code: String, message: String) {
        self.0.answer(call, Err(ToolFault { code, message }));
    }

    /// Ends it: the calls that wait fail, and there are no more messages.
    fn close(&self) {
        let mut inner = self.0.lock();
        inner.is_open = false;
        inner.messages.clear();
        inner.calls.clear();
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.close();
    }
}

impl Message {
    fn tuple(self, py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        match self {
            Self::Ended { operation, result: Ok(value) } => ("done", operation, value.object(py)?).into_pyobject(py),
            Self::Ended { operation, result: Err(error) } => {
                ("failed", operation, error::json(&error)).into_pyobject(py)
            }
            Self::Call { call, function, payload, context } => {
                ("call", call, function, payload, context.map(Context)).into_pyobject(py)
            }
            Self::Stop { call } => ("stop", call).into_pyobject(py),
        }
    }
}
