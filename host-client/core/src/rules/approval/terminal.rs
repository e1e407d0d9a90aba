//! An approver that asks on the terminal.

use std::fmt;
use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, isatty, tcflush, tcgetwinsize};
use tokio::time::Instant;

use super::{Approval, ApprovalFuture, ApprovalRequest, Approver};
use crate::rules::prompt::{self, Answer, Question, Space};

/// The pause between a withdrawn question and the next one, so that a key that was meant for the first does not answer
/// the second.
const PAUSE_AFTER_WITHDRAWAL: Duration = Duration::from_secs(1);
/// The most bytes of an answer that are read.
const MAX_ANSWER_BYTES: usize = 1 << 10;

/// A function that runs another one while nothing else writes to the terminal.
pub type Suspend = dyn Fn(&mut dyn FnMut()) + Send + Sync;

/// An approver that asks on the controlling terminal, one question at a time, also if standard input and output are
/// redirected.
///
/// ```no_run
/// use host_client_core::{Host, TerminalApprover, Tools};
///
/// # fn main() -> std::io::Result<()> {
/// let host = Host::new(Tools::new()).approver(TerminalApprover::open()?);
/// # Ok(()) }
/// ```
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
    /// The error of opening `/dev/tty`: the process has no controlling terminal.
    pub fn open() -> io::Result<Self> {
        Ok(Self::at(File::options().read(true).write(true).open("/dev/tty")?))
    }

    /// Creates an approver that asks on the given terminal, which must be open for reading and writing.
    pub fn at(terminal: File) -> Self {
        Self { terminal: Arc::new(terminal), turn: Arc::default(), suspend: Arc::new(|ask| ask()) }
    }

    /// Sets a function that asks the question while it keeps other output, such as a progress display, off the
    /// terminal. It must call the function that it is given once.
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
            // Reading a terminal blocks, and thus happens on another thread. It learns from the pipe that `waiting` was
            // dropped, because nobody waits for the answer any more. It keeps the turn until it ends.
            let asking = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let mut answer = Ok(None);
                suspend(&mut || answer = ask(&terminal, &request, &given_up));
                if matches!(answer, Ok(None)) {
                    // The next question waits meanwhile for the turn.
                    std::thread::sleep(PAUSE_AFTER_WITHDRAWAL);
                }
                answer
            });
            let answer = asking.await;
            drop(waiting);
            match answer {
                Ok(Ok(Some(Answer::Once))) => Approval::Once,
                Ok(Ok(Some(Answer::Execution))) => Approval::Execution,
                Ok(Ok(Some(Answer::Session))) => Approval::Session,
                Ok(Ok(Some(Answer::No | Answer::View) | None)) => Approval::deny(),
                Ok(Err(error)) => cannot_be_asked(&error),
                Err(_panic) => Approval::deny(),
            }
        })
    }
}

/// Logs the error, and returns the denial that follows from it.
fn cannot_be_asked(error: &io::Error) -> Approval {
    tracing::error!(%error, "the terminal could not be asked");
    Approval::Deny { reason: Some("the terminal could not be asked".into()) }
}

/// Asks until there is a valid answer; `None`: nobody waits for it any more, which the other end of `given_up` tells.
fn ask(mut terminal: &File, request: &ApprovalRequest, given_up: &PipeReader) -> io::Result<Option<Answer>> {
    let question = Question {
        tool: request.tool.as_str(),
        effect: request.manifest.effect,
        rule: &request.rule,
        arguments: &request.arguments,
        script: Some((&request.code, request.line)),
        remaining: request.deadline.saturating_duration_since(Instant::now()),
    };
    let shown = prompt::render(&question, space(terminal));
    let (body, asking) = shown.split_at(shown.rfind('\n').map_or(0, |end| end + 1));
    write!(terminal, "\n{body}")?;
    let mut asking = asking;
    loop {
        let Some(typed) = ask_line(terminal, asking, given_up)? else { return Ok(None) };
        match prompt::parse_answer(&typed) {
            Some(Answer::View) => {
                let space = space(terminal);
                let whole = prompt::whole(&question, space.columns());
                if view(terminal, &whole, space.rows(), given_up)?.is_none() {
                    return Ok(None);
                }
            }
            Some(answer) => return Ok(Some(answer)),
            None => {}
        }
        asking = "y, e, s, v or n: ";
    }
}

/// Returns the terminal's size, or the default if it has none.
fn space(terminal: &File) -> Space {
    let size = tcgetwinsize(terminal).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or_else(Space::default, |size| Space::new(size.ws_col.into(), size.ws_row.into()))
}

/// Shows a text in pages of `rows` rows, until its end or until the person has seen enough; `None`: nobody waits for the
/// answer any more.
fn view(mut terminal: &File, text: &str, rows: usize, given_up: &PipeReader) -> io::Result<Option<()>> {
    let total = text.lines().count();
    let page = rows.saturating_sub(2).max(1);
    let mut lines = text.lines();
    let mut shown = 0;
    loop {
        let rows: Vec<_> = lines.by_ref().take(page).collect();
        shown += rows.len();
        writeln!(terminal, "{}", rows.join("\n"))?;
        if shown >= total {
            return Ok(Some(()));
        }
        let asking = format!("-- {shown} of {total} rows; Enter shows more, q goes back: ");
        match ask_line(terminal, &asking, given_up)? {
            None => return Ok(None),
            Some(typed) if typed.trim().eq_ignore_ascii_case("q") => return Ok(Some(())),
            Some(_) => {}
        }
    }
}

/// Asks for one line; `None`: nobody waits for it any more, which the terminal says.
fn ask_line(mut terminal: &File, asking: &str, given_up: &PipeReader) -> io::Result<Option<String>> {
    // Input that was typed before the question is not an answer to it.
    forget_typed(terminal)?;
    write!(terminal, "{asking}")?;
    let typed = read_line(terminal, given_up)?;
    if typed.is_none() {
        // A half-typed answer must not reach the next reader of the terminal.
        forget_typed(terminal)?;
        writeln!(terminal, "\n(nobody waits for the answer any more: the call does not run)")?;
    }
    Ok(typed)
}

/// Discards the input that was typed and not read yet.
fn forget_typed(terminal: &File) -> io::Result<()> {
    if isatty(terminal) {
        tcflush(terminal, QueueSelector::IFlush)?;
    }
    Ok(())
}

/// Reads a line from the terminal; `None`: nobody waits for it any more. A line over [`MAX_ANSWER_BYTES`] is changed so
/// that it is not a valid answer.
fn read_line(mut terminal: &File, given_up: &PipeReader) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let mut ready = [PollFd::new(&terminal, PollFlags::IN), PollFd::new(given_up, PollFlags::IN)];
        match poll(&mut ready, None) {
            // A signal interrupted the wait: it is handled elsewhere.
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(_) if !ready[1].revents().is_empty() => return Ok(None),
            Ok(_) => {}
        }
        let mut byte = [0];
        match terminal.read(&mut byte) {
            Ok(0) => {
                // The end of the input counts as an empty line, which means no.
                writeln!(terminal)?;
                return Ok(Some(String::new()));
            }
            Ok(_) if byte == *b"\n" => return Ok(Some(String::from_utf8_lossy(&line).into_owned())),
            Ok(_) if line.len() <= MAX_ANSWER_BYTES => line.extend(byte),
            // The line is cut here. The dot keeps it from being a valid answer.
            Ok(_) => line[MAX_ANSWER_BYTES] = b'.',
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
