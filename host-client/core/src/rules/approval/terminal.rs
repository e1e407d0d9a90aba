//! Asking whoever sits at the terminal.

use std::fmt;
use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, isatty, tcflush};
use tokio::time::Instant;

use super::{Approval, ApprovalFuture, ApprovalRequest, Approver};
use crate::rules::prompt::{self, Answer, Question};

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
            let (given_up, waiting) = match io::pipe() {
                Ok(pipe) => pipe,
                Err(error) => return cannot_be_asked(&error),
            };
            // Reading a terminal blocks. The thread that does is told that nobody waits any more when `waiting` is
            // dropped; until it has ended it keeps the turn.
            let asking = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let mut answer = Ok(None);
                suspend(&mut || answer = ask(&terminal, &request, &given_up));
                if matches!(answer, Ok(None)) {
                    // What a finger was about to type is no answer to the next question, which waits meanwhile.
                    std::thread::sleep(WITHDRAWN);
                }
                answer
            });
            let answer = asking.await;
            drop(waiting);
            match answer {
                Ok(Ok(Some(Answer::Once))) => Approval::Once,
                Ok(Ok(Some(Answer::Execution))) => Approval::Execution,
                Ok(Ok(Some(Answer::Session))) => Approval::Session,
                Ok(Ok(Some(Answer::No) | None)) => Approval::deny(),
                Ok(Err(error)) => cannot_be_asked(&error),
                Err(_panic) => Approval::deny(),
            }
        })
    }
}

fn cannot_be_asked(error: &io::Error) -> Approval {
    tracing::error!(%error, "the terminal could not be asked");
    Approval::Deny { reason: Some("the terminal could not be asked".into()) }
}

/// Asks until there is an answer; nothing when nobody waits for it any more.
fn ask(mut terminal: &File, request: &ApprovalRequest, given_up: &PipeReader) -> io::Result<Option<Answer>> {
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
            return Ok(None);
        };
        match prompt::parse_answer(&typed) {
            Some(answer) => return Ok(Some(answer)),
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

/// A line that somebody types; nothing when nobody waits for it any more. One that is too long is no answer, whatever
/// it begins with.
fn read_line(mut terminal: &File, given_up: &PipeReader) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let mut ready = [PollFd::new(&terminal, PollFlags::IN), PollFd::new(given_up, PollFlags::IN)];
        match poll(&mut ready, None) {
            // Signals are not for us, and do not answer.
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(_) if !ready[1].revents().is_empty() => return Ok(None),
            Ok(_) => {}
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
}
