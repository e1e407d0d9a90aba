//! `audit`: what a log says, and whether it is whole.

use host_client::audit::show::{Filter, Shown, records};
use host_client::audit::{series, verify};

use crate::args::{AuditArgs, AuditCommand};
use crate::exit::{FAILED, Failure};

#[expect(clippy::print_stdout, reason = "what was asked for")]
pub(crate) fn audit(args: AuditArgs) -> Result<(), Failure> {
    match args.command {
        AuditCommand::Verify { file, head } => {
            let head = head.map(|head| head.parse().map_err(Failure::usage)).transpose()?;
            let files = series(&file).map_err(Failure::usage)?;
            let verified = verify(&files, head).map_err(Failure::usage)?;
            println!("{verified}");
            if verified.is_whole() { Ok(()) } else { Err(Failure { status: FAILED, text: String::new() }) }
        }
        AuditCommand::Show { file, execution, json } => {
            let files = series(&file).map_err(Failure::usage)?;
            for shown in records(files, Filter { execution, ..Filter::default() }) {
                match shown.map_err(Failure::usage)? {
                    Shown::Record(record) if json => println!("{}", record.json()),
                    shown => println!("{shown}"),
                }
            }
            Ok(())
        }
    }
}
