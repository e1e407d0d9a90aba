//! Questions to JavaScript: calls of tools, approvals, tokens and replies of models, each with one answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi::Status;
use napi::bindgen_prelude::FnArgs;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use relay_sdk::foreign::ForeignContext;
use tokio::sync::{Semaphore, oneshot};

/// The most questions that are open at once. More wait until others were answered.
const MOST_OPEN: usize = 16_384;

/// The function that is asked, with the kind of the question, its id, its subject and its payload. It does not keep Node
/// from ending, and does not return an answer: [`Bridge::answer`] is called for that.
type Asked = ThreadsafeFunction<Arguments, (), Arguments, Status, false, true>;
type Arguments = FnArgs<(u32, u32, String, String)>;

/// The kinds of questions, as `native.ts` has them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Call = 0,
    Approval = 1,
    Token = 2,
    Model = 3,
    /// Takes back the question of the same id.
    Cancel = 4,
}

/// An answer that is an error: a code and a text.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) code: String,
    pub(crate) message: String,
}

type Answer = Result<String, Fault>;

/// The questions to one thread of JavaScript. Clones share them.
#[derive(Clone)]
pub(crate) struct Asker(Arc<Shared>);

struct Shared {
    asked: Asked,
    open: Mutex<Open>,
    places: Semaphore,
}

/// The questions that wait for their answers.
#[derive(Default)]
struct Open {
    questions: HashMap<u32, Waiting>,
    next: u32,
}

struct Waiting {
    tell: oneshot::Sender<Answer>,
    /// The context of a call; `None`: it is no call of a tool.
    context: Option<ForeignContext>,
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, kind: Kind, id: u32, subject: String, payload: String) -> bool {
        let arguments = FnArgs::from((kind as u32, id, subject, payload));
        self.asked.call(arguments, ThreadsafeFunctionCallMode::NonBlocking) == Status::Ok
    }
}

impl Asker {
    /// Asks, and waits for the answer. When this is dropped before, the question is taken back.
    ///
    /// # Errors
    /// The [`Fault`] that JavaScript answers, or that its thread has ended.
    pub(crate) async fn ask(
        &self,
        kind: Kind,
        subject: String,
        payload: String,
        context: Option<ForeignContext>,
    ) -> Answer {
        // The semaphore is never closed.
        let _place = self.0.places.acquire().await;
        let (question, told) = Question::open(&self.0, context);
        if !self.0.ask(kind, question.id, subject, payload) {
            return Err(gone());
        }
        told.await.unwrap_or_else(|_dropped| Err(gone()))
    }
}

fn gone() -> Fault {
    Fault { code: "TOOL_FAILED".into(), message: "the thread of JavaScript that has this function has ended".into() }
}

/// A question that is open until it is answered or dropped.
struct Question<'a> {
    shared: &'a Shared,
    id: u32,
}

impl<'a> Question<'a> {
    fn open(shared: &'a Shared, context: Option<ForeignContext>) -> (Self, oneshot::Receiver<Answer>) {
        let (tell, told) = oneshot::channel();
        let mut open = shared.open();
        while open.questions.contains_key(&open.next) {
            open.next = open.next.wrapping_add(1);
        }
        let id = open.next;
        open.next = id.wrapping_add(1);
        open.questions.insert(id, Waiting { tell, context });
        (Self { shared, id }, told)
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        // An answer has removed it.
        let unanswered = self.shared.open().questions.remove(&self.id);
        if unanswered.is_some() {
            self.shared.ask(Kind::Cancel, self.id, String::new(), String::new());
        }
    }
}

/// The side of JavaScript: gives the function that is asked, and answers.
#[napi]
pub struct Bridge {
    asker: Asker,
}

#[napi]
impl Bridge {
    #[napi(constructor, catch_unwind)]
    pub fn new(asked: Asked) -> Self {
        let shared = Shared { asked, open: Mutex::default(), places: Semaphore::new(MOST_OPEN) };
        Self { asker: Asker(Arc::new(shared)) }
    }

    /// Answers a question: with a text, or with the code of an error and its text. One that was taken back is ignored.
    #[napi(catch_unwind)]
    pub fn answer(&self, id: u32, code: Option<String>, text: String) {
        let Some(question) = self.asker.0.open().questions.remove(&id) else { return };
        let answer = match code {
            None => Ok(text),
            Some(code) => Err(Fault { code, message: text }),
        };
        // Who asked may be gone.
        drop(question.tell.send(answer));
    }

    /// Reports the progress of a call; of one that is over, it is ignored.
    #[napi(catch_unwind)]
    pub fn progress(&self, id: u32, done: f64, total: Option<f64>, message: String) {
        let context = self.asker.0.open().questions.get(&id).and_then(|question| question.context.clone());
        if let Some(context) = context {
            context.progress(done, total, message);
        }
    }
}

impl Bridge {
    pub(crate) fn asker(&self) -> Asker {
        self.asker.clone()
    }
}
