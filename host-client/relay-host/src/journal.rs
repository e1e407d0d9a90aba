//! The journal of the command line: an SQLite file, or a Postgres database.

use std::path::Path;

use host_client::{is_database, open_journal};

use crate::approvals::{SharedJournal, secret_file};
use crate::args::JournalArgs;
use crate::exit::Failure;

/// Opens the journal that the command line names, and creates it if it is absent.
///
/// # Errors
/// Status 2: none is named, or it cannot be opened.
pub(crate) async fn open(args: &JournalArgs) -> Result<SharedJournal, Failure> {
    let name = name(args)?;
    let secret_file = (!is_database(name)).then(|| secret_file(Path::new(name)));
    Ok(SharedJournal { journal: open_journal(name).await?, secret_file })
}

/// Opens a journal that exists.
///
/// # Errors
/// Those of [`open`], and status 2: there is no such file.
pub(crate) async fn open_existing(args: &JournalArgs) -> Result<SharedJournal, Failure> {
    let name = name(args)?;
    if !is_database(name) && !Path::new(name).exists() {
        return Err(Failure::usage(format!("there is no journal {name}: `relay-host run --durable` makes one")));
    }
    open(args).await
}

fn name(args: &JournalArgs) -> Result<&str, Failure> {
    let named = args.journal.as_deref().filter(|named| !named.is_empty());
    named.ok_or_else(|| Failure::usage("name the journal with --journal or RELAY_HOST_JOURNAL"))
}
