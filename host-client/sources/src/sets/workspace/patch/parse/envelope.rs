//! Parses the format from `*** Begin Patch` to `*** End Patch`.

use super::super::PatchError;
use super::{Change, Reader, check_files};

/// Parses all changes.
pub(super) fn parse<'a>(reader: &mut Reader<'a>) -> Result<Vec<Change<'a>>, PatchError> {
    reader.is_envelope = true;
    reader.next();
    let mut changes = Vec::new();
    loop {
        reader.skip_blank();
        if reader.take_after("*** End Patch").is_some() {
            break;
        }
        if let Some(path) = reader.take_after("*** Add File: ") {
            changes.push(create(reader, path));
        } else if let Some(path) = reader.take_after("*** Delete File: ") {
            changes.push(Change::Delete { path: path.trim(), text: None });
        } else if let Some(path) = reader.take_after("*** Update File: ") {
            let new_path = reader.take_after("*** Move to: ").map(str::trim);
            let hunks = reader.hunks(false)?;
            if hunks.is_empty() && new_path.is_none() {
                return reader.expected("`@@`, or lines that begin with ` `, `-` or `+`");
            }
            changes.push(Change::Update { path: path.trim(), new_path, hunks });
        } else {
            return reader.expected(
                "`*** Update File: `, `*** Add File: `, `*** Delete File: `, `*** End Patch`, or a line of a hunk",
            );
        }
        check_files(&changes)?;
    }
    reader.skip_blank();
    if reader.peek().is_some() { reader.expected("nothing after `*** End Patch`") } else { Ok(changes) }
}

/// Reads the lines of a new file.
fn create<'a>(reader: &mut Reader<'a>, path: &'a str) -> Change<'a> {
    let (mut text, mut added) = (String::new(), 0);
    while let Some(line) = reader.take_after("+") {
        text.push_str(line);
        text.push('\n');
        added += 1;
    }
    Change::Create { path: path.trim(), text, added, is_executable: false }
}
