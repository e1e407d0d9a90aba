//! Options for durable runs and their journal.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{ApprovalArgs, HostArgs, LinkArgs, LiveArgs, RelayArgs, seconds};

/// Option for the journal.
#[derive(Debug, Args)]
pub(crate) struct JournalArgs {
    /// The journal of durable runs: an SQLite file, or the address of a Postgres database, such as
    /// postgres://user@host/database
    #[arg(long, env = "RELAY_HOST_JOURNAL", hide_env_values = true, value_name = "FILE|URL")]
    pub(crate) journal: Option<String>,
}

/// Options for durable runs that begin in this program.
#[derive(Debug, Args)]
pub(crate) struct BeginArgs {
    /// Run code so that it goes on after the end of this program, of the relay and of the machine; --journal has it
    #[arg(long, requires = "journal")]
    pub(crate) durable: bool,
    /// Time in which a person can approve a call of a durable run, restarts included, in seconds
    #[arg(long, default_value_t = 604_800, value_name = "SECONDS", requires = "durable", value_parser = seconds())]
    pub(crate) approval_within: u64,
    /// Maximum number of runs of one owner in the journal that have not ended; another one is refused
    #[arg(long, default_value_t = 100, value_name = "NUMBER", requires = "durable", value_parser = super::positive)]
    pub(crate) open_runs: usize,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
    #[command(flatten)]
    pub(crate) durably: DurableArgs,
}

/// Options for durable runs that go on in this program.
#[derive(Debug, Args)]
pub(crate) struct DurableArgs {
    /// Time for which the code of a durable run waits for a person or a timer before it is taken off its relay, in
    /// seconds. Then `serve-mcp` gives the model a handle; `run` and `resume` end with the status 4 if a person has to
    /// decide and there is no terminal
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = seconds())]
    pub(crate) passivate_after: u64,
    /// Go on with a run at a relay of another build than the one that it began on
    #[arg(long)]
    pub(crate) any_build: bool,
}

impl DurableArgs {
    /// Returns the time after which code that waits is taken off its relay.
    pub(crate) fn passivate_after(&self) -> Duration {
        Duration::from_secs(self.passivate_after)
    }
}

/// Options of `runs`.
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    pub(crate) command: RunsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List the runs that have not ended
    List {
        /// List those that have ended, too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        common: RunsCommon,
    },
    /// Show a run: its code, its calls with the questions about them, and its result
    Show {
        #[command(flatten)]
        run: RunName,
        #[command(flatten)]
        common: RunsCommon,
    },
    /// Approve a call that a person is asked about, with exactly the arguments that `show` prints
    Approve {
        #[command(flatten)]
        call: CallName,
        #[command(flatten)]
        common: RunsCommon,
    },
    /// Deny a call that a person is asked about
    Deny {
        #[command(flatten)]
        call: CallName,
        /// The reason, which the code gets in the error
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        common: RunsCommon,
    },
    /// Go on with a run that no process goes on with, and wait for its outcome. Give the same tools and rules as to `run`
    Resume(Box<ResumeArgs>),
    /// Serve the pages of approval links, until Ctrl-C or SIGTERM. Programs that go on with runs of the journal take notice
    /// of the decisions
    Links {
        #[command(flatten)]
        links: LinkArgs,
        #[command(flatten)]
        journal: JournalArgs,
    },
    /// Cancel a run: at once where a process goes on with it, else as soon as one does
    Cancel {
        #[command(flatten)]
        run: RunName,
        #[command(flatten)]
        common: RunsCommon,
    },
    /// Remove a run from the journal, whatever its state, unless a process goes on with it
    Forget {
        #[command(flatten)]
        run: RunName,
        #[command(flatten)]
        common: RunsCommon,
    },
}

/// Options that all of these commands take.
#[derive(Debug, Args)]
pub(crate) struct RunsCommon {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

/// Name of a run.
#[derive(Debug, Args)]
pub(crate) struct RunName {
    /// The run's id, or the beginning of it that no other run has
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
}

/// Name of a call of a run, and of the person who decides on it.
#[derive(Debug, Args)]
pub(crate) struct CallName {
    #[command(flatten)]
    pub(crate) run: RunName,
    /// The number of the call, as `show` prints it
    pub(crate) call: u64,
    /// The name of who decides, for the journal and the audit [default: the name of the user]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// Options of `runs resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run's id, or the beginning of it that no other run has
    #[arg(value_name = "RUN", required_unless_present = "all")]
    pub(crate) run: Option<String>,
    /// Go on with all runs that no process goes on with
    #[arg(long, conflicts_with = "run")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) common: RunsCommon,
    #[command(flatten)]
    pub(crate) durably: DurableArgs,
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    #[command(flatten)]
    pub(crate) approvals: ApprovalArgs,
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) relay: RelayArgs,
}
