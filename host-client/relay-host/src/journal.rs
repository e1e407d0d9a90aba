//! The journal of the command line: an SQLite file, or a Postgres database.

use std::path::Path;
use std::sync::Arc;

use host_client::{Journal, PostgresJournal, SqliteJournal};

use crate::approvals::{SharedJournal, secret_file};
use crate::args::JournalArgs;
use crate::exit::Failure;

/// Journal that the command line names.
pub(crate) enum AnyJournal {
    Sqlite(SqliteJournal),
    Postgres(Box<PostgresJournal>),
}

impl AnyJournal {
    /// Opens the journal, and creates it if it is absent.
    ///
    /// # Errors
    /// Status 2: none is named, or it cannot be opened.
    pub(crate) async fn open(args: &JournalArgs) -> Result<Self, Failure> {
        let named = name(args)?;
        let opened = if is_address(named) {
            PostgresJournal::connect(named).await.map(|journal| Self::Postgres(Box::new(journal)))
        } else {
            SqliteJournal::open(named).await.map(Self::Sqlite)
        };
        Ok(opened?)
    }

    /// Opens a journal that is there.
    ///
    /// # Errors
    /// Those of [`AnyJournal::open`], and status 2: there is no such file.
    pub(crate) async fn open_existing(args: &JournalArgs) -> Result<Self, Failure> {
        let named = name(args)?;
        if !is_address(named) && !Path::new(named).exists() {
            return Err(Failure::usage(format!("there is no journal {named}: `relay-host run --durable` makes one")));
        }
        Self::open(args).await
    }

    /// Returns the journal's interface.
    pub(crate) fn journal(&self) -> &dyn Journal {
        match self {
            Self::Sqlite(journal) => journal,
            Self::Postgres(journal) => &**journal,
        }
    }

    /// Returns the journal for several parts of the program, with the file for the secret of approval links.
    pub(crate) fn shared(self, args: &JournalArgs) -> Result<SharedJournal, Failure> {
        let secret_file = match &self {
            Self::Sqlite(_) => Some(secret_file(Path::new(name(args)?))),
            Self::Postgres(_) => None,
        };
        let journal: Arc<dyn Journal> = match self {
            Self::Sqlite(journal) => Arc::new(journal),
            Self::Postgres(journal) => Arc::new(*journal),
        };
        Ok(SharedJournal { journal, secret_file })
    }
}

fn name(args: &JournalArgs) -> Result<&str, Failure> {
    let named = args.journal.as_deref().filter(|named| !named.is_empty());
    named.ok_or_else(|| Failure::usage("name the journal with --journal or RELAY_HOST_JOURNAL"))
}

/// Returns `true` for the address of a database, `false` for a file.
fn is_address(named: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| named.starts_with(scheme))
}
