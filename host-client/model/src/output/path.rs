//! Parses paths to a part of a value: `results.items[3].name`, a JSON Pointer such as `/results/items/3/name`, or a
//! title of a summary such as `results > items > [0-4]`.

use serde_json::value::RawValue;

use super::json::unquoted;

/// Maximum length of a path, in bytes.
const MAX_BYTES: usize = 4_000;
/// Maximum number of steps in a path. No result is as deep.
const MAX_STEPS: usize = 128;
/// Separator of the steps of a title.
pub(super) const BELOW: &str = " > ";
/// Separator of the first and the last key of neighbours in a title.
pub(super) const TO: &str = " … ";

/// Parsed path.
#[derive(Debug, Default)]
pub(super) struct Path {
    /// Keys, and indices of items.
    pub(super) steps: Vec<String>,
    /// Range of neighbours at the end of the path.
    pub(super) range: Option<Range>,
}

/// Inclusive range of neighbours.
#[derive(Debug)]
pub(super) enum Range {
    Items(usize, usize),
    Keys(String, String),
}

/// Parses a path. An empty one has no steps. Keys with a dot or a bracket are written in quotes, `["a.b"]`, or in a
/// pointer.
///
/// # Errors
/// The reason why the path is malformed, worded for the model.
pub(super) fn path(path: &str) -> Result<Path, &'static str> {
    if path.len() > MAX_BYTES {
        return Err("it is longer than any path");
    }
    let read = match path.strip_prefix('/') {
        Some(pointer) => {
            let steps = pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
            Path { steps, range: None }
        }
        None => dotted(without_root(path))?,
    };
    if read.steps.len() > MAX_STEPS { Err("it has more steps than any value has levels") } else { Ok(read) }
}

/// Removes the `$` of JSONPath, which stands for the whole value. `$schema` is a key.
fn without_root(path: &str) -> &str {
    let rest = path.strip_prefix('$').unwrap_or(path);
    if rest.is_empty() || rest.starts_with(['.', '[']) || rest.starts_with(BELOW) { rest } else { path }
}

/// Step of a path.
enum Step {
    Key(String),
    /// Range of items, such as `[0-4]`.
    Items(usize, usize),
}

/// Parses a path that is not a JSON Pointer.
fn dotted(path: &str) -> Result<Path, &'static str> {
    let (mut read, mut rest) = (Path::default(), path);
    while !rest.is_empty() {
        if read.range.is_some() {
            return Err("what is a range has to be the last step");
        }
        let first;
        (first, rest) = step(rest)?;
        match (first, rest.strip_prefix(TO)) {
            (Step::Items(first, last), None) => read.range = Some(Range::Items(first, last)),
            (Step::Key(key), None) => read.steps.push(key),
            (Step::Key(first), Some(more)) => {
                let (Step::Key(last), after) = step(more)? else { return Err("a key is missing") };
                (read.range, rest) = (Some(Range::Keys(first, last)), after);
            }
            (Step::Items(..), Some(_)) => return Err("a key is missing"),
        }
    }
    Ok(read)
}

/// Parses the first step of a path. Returns it with the rest.
fn step(path: &str) -> Result<(Step, &str), &'static str> {
    let below = path.strip_prefix(BELOW);
    if let Some(inner) = below.unwrap_or(path).strip_prefix('[') {
        return bracketed(inner);
    }
    let name = below.or_else(|| path.strip_prefix('.')).unwrap_or(path);
    let ends = [name.find(['.', '[']), name.find(BELOW), name.find(TO)];
    let end = ends.into_iter().flatten().min().unwrap_or(name.len());
    if end == 0 { Err("a key is missing") } else { Ok((Step::Key(name[..end].to_owned()), &name[end..])) }
}

/// Parses a range such as `0-4`.
fn items(step: &str) -> Option<Step> {
    let (first, last) = step.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(Step::Items(first, last))
}

/// Parses a step in brackets. Returns it with the rest.
fn bracketed(inner: &str) -> Result<(Step, &str), &'static str> {
    let unclosed = "a bracket is not closed";
    if inner.starts_with('"') {
        let mut keys = serde_json::Deserializer::from_str(inner).into_iter::<&RawValue>();
        let Some(Ok(key)) = keys.next() else { return Err("a key in quotation marks is not written as in JSON") };
        let rest = inner[keys.byte_offset()..].strip_prefix(']').ok_or(unclosed)?;
        return Ok((Step::Key(unquoted(key.get()).into_owned()), rest));
    }
    if let Some(quoted) = inner.strip_prefix('\'') {
        let (mut key, mut characters) = (String::new(), quoted.chars());
        while let Some(character) = characters.next() {
            match character {
                '\\' => key.extend(characters.next()),
                '\'' => return Ok((Step::Key(key), characters.as_str().strip_prefix(']').ok_or(unclosed)?)),
                _ => key.push(character),
            }
        }
        return Err("a quotation mark is not closed");
    }
    let (step, rest) = inner.split_once(']').ok_or(unclosed)?;
    if step.is_empty() {
        return Err("there is nothing in a bracket");
    }
    Ok((items(step).unwrap_or_else(|| Step::Key(step.to_owned())), rest))
}
