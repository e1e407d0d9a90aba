//! Writes rows of objects or arrays as a table of text, for `console.table`.

use std::collections::BTreeSet;

use super::inspect;

/// Maximum number of rows.
const MAX_ROWS: u32 = 100;
/// Maximum number of columns.
const MAX_COLUMNS: usize = 20;
/// Maximum number of fields of one row that are looked at.
const MAX_FIELDS: u32 = 1_000;
/// Maximum number of further columns that are counted.
const MAX_LEFT_OUT: usize = 1_000;
/// Maximum number of characters of a cell.
const MAX_CELL_CHARS: usize = 60;

/// Number of bytes of a value from which a cell is made: more than the characters of a cell can have.
const MAX_CELL_BYTES: usize = (MAX_CELL_CHARS + 1) * char::MAX_LEN_UTF8;

/// Heading of the column of values that are no objects.
const VALUES: &str = "Values";

/// Returns the table of `rows`, with the columns that `only` names, if it names any; `None`: there are no rows.
pub(super) fn table<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    rows: v8::Local<'s, v8::Value>,
    only: v8::Local<'s, v8::Value>,
) -> Option<String> {
    if rows.is_proxy() || rows.is_function() {
        return None;
    }
    let rows = v8::Local::<v8::Object>::try_from(rows).ok()?;
    v8::tc_scope!(let scope, scope);
    let mut columns: Vec<String> = Vec::new();
    if let Ok(only) = v8::Local::<v8::Array>::try_from(only) {
        for index in 0..only.length().min(MAX_ROWS) {
            let name = only.get_index(scope, index)?;
            columns.push(cell(scope, name));
        }
    }
    let is_given = !columns.is_empty();
    let mut left_out: BTreeSet<String> = BTreeSet::new();
    let keys = rows.get_own_property_names(scope, v8::GetPropertyNamesArgs::default())?;
    let mut lines: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for index in 0..keys.length().min(MAX_ROWS) {
        let key = keys.get_index(scope, index)?;
        let row = rows.get(scope, key)?;
        let name = cell(scope, key);
        let mut cells = Vec::new();
        match v8::Local::<v8::Object>::try_from(row) {
            Ok(row) if !row.is_proxy() && !row.is_function() => {
                let fields = row.get_own_property_names(scope, v8::GetPropertyNamesArgs::default())?;
                for field in 0..fields.length().min(MAX_FIELDS) {
                    let field = fields.get_index(scope, field)?;
                    let (column, value) = (cell(scope, field), row.get(scope, field)?);
                    cells.push((column, quoted_cell(scope, value)));
                }
            }
            _ => cells.push((VALUES.to_owned(), quoted_cell(scope, row))),
        }
        for (column, _) in &cells {
            if is_given || columns.contains(column) {
            } else if columns.len() < MAX_COLUMNS {
                columns.push(column.clone());
            } else if left_out.len() < MAX_LEFT_OUT {
                left_out.insert(column.clone());
            }
        }
        lines.push((name, cells));
    }
    if lines.is_empty() {
        return None;
    }
    let mut text = drawn(&columns, &lines);
    if keys.length() > MAX_ROWS {
        text += &format!("\n… {} more rows", keys.length() - MAX_ROWS);
    }
    if !left_out.is_empty() {
        let named: Vec<_> = left_out.iter().take(MAX_COLUMNS).map(String::as_str).collect();
        let (more, rest) = (left_out.len(), if left_out.len() > named.len() { ", …" } else { "" });
        text +=
            &format!("\n… {more} more columns: {}{rest}; name those to show as the second argument", named.join(", "));
    }
    Some(text)
}

fn cell<'s>(scope: &mut v8::PinScope<'s, '_>, value: v8::Local<'s, v8::Value>) -> String {
    one_line(&inspect::inspect(scope, value, MAX_CELL_BYTES))
}

/// Returns the text of a cell; a string has quotes, to be told from a number.
fn quoted_cell<'s>(scope: &mut v8::PinScope<'s, '_>, value: v8::Local<'s, v8::Value>) -> String {
    let text = inspect::inspect(scope, value, MAX_CELL_BYTES);
    one_line(&if value.is_string() { inspect::quoted(&text) } else { text })
}

fn one_line(text: &str) -> String {
    let line: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).take(MAX_CELL_CHARS).collect();
    if text.chars().nth(MAX_CELL_CHARS).is_some() { format!("{line}…") } else { line }
}

fn drawn(columns: &[String], lines: &[(String, Vec<(String, String)>)]) -> String {
    let head = std::iter::once("(index)").chain(columns.iter().map(String::as_str)).map(str::to_owned).collect();
    let mut rows: Vec<Vec<String>> = vec![head];
    for (name, cells) in lines {
        let of = |column: &String| cells.iter().find(|(it, _)| it == column).map_or("", |(_, text)| text).to_owned();
        rows.push(std::iter::once(name.clone()).chain(columns.iter().map(of)).collect());
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<_> = (0..=columns.len()).map(width).collect();
    let drawn = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}"));
        padded.collect::<Vec<_>>().join(" | ").trim_end().to_owned()
    };
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("-|-");
    let mut text = vec![drawn(&rows[0]), rule];
    text.extend(rows[1..].iter().map(drawn));
    text.join("\n")
}
