//! Asking whoever sits at the terminal.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, isatty, tcflush};
use tokio::time::Instant;

use super::{Approval, ApprovalFuture, ApprovalRequest, Approver};
use crate::prompt::{self, Answer, Question};

/// How often it is looked whether anybody still waits for the answer.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long nothing is asked after a question was withdrawn.
const WITHDRAWN: Duration = Duration::from_secs(1);
/// The longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 10;

/// Does something while nothing else is written to the terminal.
pub type Suspend = dyn Fn(&mut dyn FnMut()) + Send + Sync;

/// Asks at the controlling terminal, one question at a time, whatever standard input and output are.
#[derive(Clone)]
pub struct TerminalApprover {
    terminal: Arc<File>,
    turn: Arc<tokio::sync::Mutex<()>>,
    suspend: Arc<Suspend>,
}

impl fmt::Debug for TerminalApprover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TerminalApprover").finish_non_exhaustive()
    }
}

impl TerminalApprover {
    /// Opens the controlling terminal.
    ///
    /// # Errors
    /// There is none.
    pub fn open() -> io::Result<Self> {
        Ok(Self::at(File::options().read(true).write(true).open("/dev/tty")?))
    }

    /// Asks at a certain terminal.
    pub fn at(terminal: File) -> Self {
        Self { terminal: Arc::new(terminal), turn: Arc::default(), suspend: Arc::new(|ask| ask()) }
    }

    /// Sets what keeps others from writing meanwhile, such as a progress display.
    #[must_use]
    pub fn suspending(mut self, suspend: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static) -> Self {
        self.suspend = Arc::new(suspend);
        self
    }
}

impl Approver for TerminalApprover {
    fn name(&self) -> &str {
        "terminal"
    }

    fn approve(&self, request: ApprovalRequest) -> ApprovalFuture {
        let Self { terminal, turn, suspend } = self.clone();
        Box::pin(async move {
            let turn = turn.lock_owned().await;
            let given_up = GivenUp::default();
            let seen = Arc::clone(&given_up.0);
            // Reading a terminal blocks. The turn is held until it has ended, even where nobody waits any more.
            let asking = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let mut answer = Ok(Answer::No);
                suspend(&mut || answer = ask(&terminal, &request, &seen));
                answer
            });
            match asking.await {
                Ok(Ok(Answer::Once)) => Approval::Once,
                Ok(Ok(Answer::Execution)) => Approval::Execution,
                Ok(Ok(Answer::Session)) => Approval::Session,
                Ok(Ok(Answer::No)) => Approval::deny(),
                Ok(Err(error)) => {
                    tracing::error!(%error, "the terminal could not be asked");
                    Approval::Deny { reason: Some("the terminal could not be asked".into()) }
                }
                Err(_panic) => Approval::deny(),
            }
        })
    }
}

/// Tells the thread that reads when nobody waits any more.
#[derive(Default)]
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn ask(mut terminal: &File, request: &ApprovalRequest, given_up: &AtomicBool) -> io::Result<Answer> {
    let question = Question {
        tool: request.tool.as_str(),
        effect: request.manifest.effect,
        rule: &request.rule,
        arguments: &request.arguments,
        script: Some((&request.code, None)),
        remaining: request.deadline.saturating_duration_since(Instant::now()),
    };
    let question = prompt::render(&question);
    let (body, asking) = question.split_at(question.rfind('\n').map_or(0, |end| end + 1));
    write!(terminal, "\n{body}")?;
    let mut asking = asking;
    loop {
        // What was typed before there was something to answer is no answer to it.
        forget_typed(terminal)?;
        write!(terminal, "{asking}")?;
        let Some(typed) = read_line(terminal, given_up)? else {
            // Half an answer is not left for whoever reads the terminal next.
            forget_typed(terminal)?;
            writeln!(terminal, "\n(nobody waits for the answer any more: the call does not run)")?;
            // What a finger was about to type is no answer to the next question, which waits meanwhile.
            std::thread::sleep(WITHDRAWN);
            return Ok(Answer::No);
        };
        match prompt::parse_answer(&typed) {
            Some(answer) => return Ok(answer),
            None => asking = "y, e, s or n: ",
        }
    }
}

fn forget_typed(terminal: &File) -> io::Result<()> {
    if isatty(terminal) {
        tcflush(terminal, QueueSelector::IFlush)?;
    }
    Ok(())
}

/// A line that somebody types; nothing when nobody waits for it any more. One that is too long is no answer, whatever it
/// begins with.
fn read_line(mut terminal: &File, given_up: &AtomicBool) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    while !given_up.load(Ordering::Relaxed) {
        let mut ready = [PollFd::new(&terminal, PollFlags::IN)];
        let timeout = Timespec::try_from(LOOK_EVERY).ok();
        match poll(&mut ready, timeout.as_ref()) {
            // Signals are not for us, and do not answer.
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut byte = [0];
        match terminal.read(&mut byte) {
            Ok(0) => {
                // Whoever ends the input, or hangs up, says no.
                writeln!(terminal)?;
                return Ok(Some(String::new()));
            }
            Ok(_) if byte == *b"\n" => return Ok(Some(String::from_utf8_lossy(&line).into_owned())),
            Ok(_) if line.len() <= MAX_ANSWER_BYTES => line.extend(byte),
            // Cut here, and thus more than any answer has.
            Ok(_) => line[MAX_ANSWER_BYTES] = b'.',
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
