//! Where in a value to look: `results.items[3].name`, or the same as a JSON Pointer, `/results/items/3/name`.

/// The longest path, in bytes, and the most steps in it: no result is as deep.
const MAX_BYTES: usize = 4_000;
const MAX_STEPS: usize = 128;

/// The steps of a path, each a key or the number of an item. An empty path has none. What is wrong with a path that is none
/// is said in words.
///
/// A key that holds a dot or a bracket is written in quotes, `["a.b"]`, or in a pointer.
pub(super) fn steps(path: &str) -> Result<Vec<String>, &'static str> {
    if path.len() > MAX_BYTES {
        return Err("it is longer than any path");
    }
    let steps = match path.strip_prefix('/') {
        Some(pointer) => pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect(),
        None => dotted(path.strip_prefix('$').unwrap_or(path))?,
    };
    if steps.len() > MAX_STEPS { Err("it has more steps than any value has levels") } else { Ok(steps) }
}

fn dotted(path: &str) -> Result<Vec<String>, &'static str> {
    let (mut steps, mut rest) = (Vec::new(), path);
    while !rest.is_empty() {
        let step;
        (step, rest) = match rest.strip_prefix('[') {
            Some(inner) => bracketed(inner)?,
            None => {
                let name = rest.strip_prefix('.').unwrap_or(rest);
                let end = name.find(['.', '[']).unwrap_or(name.len());
                if end == 0 {
                    return Err("a key is missing");
                }
                (name[..end].to_owned(), &name[end..])
            }
        };
        steps.push(step);
    }
    Ok(steps)
}

/// What stands between brackets, and what follows them.
fn bracketed(inner: &str) -> Result<(String, &str), &'static str> {
    let unclosed = "a bracket is not closed";
    if let Some(quote) = inner.chars().next().filter(|it| matches!(it, '"' | '\'')) {
        let mut characters = inner.char_indices().skip(1);
        let mut key = String::new();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => key.extend(characters.next().map(|(_, escaped)| escaped)),
                _ if character == quote => {
                    let rest = inner[at + 1..].strip_prefix(']').ok_or(unclosed)?;
                    return Ok((key, rest));
                }
                _ => key.push(character),
            }
        }
        return Err("a quotation mark is not closed");
    }
    let (step, rest) = inner.split_once(']').ok_or(unclosed)?;
    if step.is_empty() { Err("there is nothing in a bracket") } else { Ok((step.to_owned(), rest)) }
}
