//! `audit`: verifies and prints an audit log.

use std::io::{self, BufWriter, IsTerminal as _, Write as _};

use host_client::audit::show::{Filter, Shown, records};
use host_client::audit::{series, verify};

use crate::args::{AuditArgs, AuditCommand};
use crate::exit::{FAILED, Failure};
use crate::output::{plain, print, unprinted};

/// Runs the command.
pub(crate) fn audit(args: AuditArgs) -> Result<(), Failure> {
    match args.command {
        AuditCommand::Verify { file, head } => {
            let head = head.map(|head| head.parse().map_err(Failure::usage)).transpose()?;
            let files = series(&file).map_err(Failure::usage)?;
            let verified = verify(&files, head).map_err(Failure::usage)?;
            print(&verified.to_string())?;
            if verified.is_whole() { Ok(()) } else { Err(Failure::printed(FAILED)) }
        }
        AuditCommand::Show { file, execution, session, json } => {
            // An execution's id is unique in its session alone.
            let (session, execution) = match execution {
                Some(named) => match named.split_once('/') {
                    Some((session, id)) => (Some(session.to_owned()), Some(id.to_owned())),
                    None => (None, Some(named)),
                },
                None => (session, None),
            };
            let files = series(&file).map_err(Failure::usage)?;
            let is_terminal = io::stdout().is_terminal();
            let mut out = BufWriter::new(io::stdout().lock());
            for shown in records(files, Filter { execution, session, ..Filter::default() }) {
                let line = match shown.map_err(Failure::usage)? {
                    Shown::Record(record) if json && is_terminal => plain(record.json()).into_owned(),
                    Shown::Record(record) if json => record.json().to_owned(),
                    shown => shown.to_string(),
                };
                if let Err(error) = writeln!(out, "{line}") {
                    return unprinted(error);
                }
            }
            out.flush().or_else(unprinted)
        }
    }
}
