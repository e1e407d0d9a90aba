//! Compares what crosses between Rust and C++: items of the generated bindings, and functions that the crate declares
//! by hand.

use super::report::Named;

/// Beginnings of a block of foreign functions, as rustfmt writes it.
const BLOCK: [&str; 2] = ["unsafe extern \"C\" {", "extern \"C\" {"];

/// Lists the types, constants and functions of a generated file.
pub(super) fn items(binding: &str) -> Named {
    let mut items = foreign_functions(binding);
    let (mut item, mut depth) = (String::new(), 0_isize);
    for line in code(binding) {
        if item.is_empty() && BLOCK.contains(&line) {
            // The functions of the block are listed already; the text of the block is no item.
            item.push_str("block");
        }
        append(&mut item, line);
        depth += line.bytes().map(|byte| isize::from(byte == b'{') - isize::from(byte == b'}')).sum::<isize>();
        if depth == 0 && line.ends_with([';', '}']) {
            let text = std::mem::take(&mut item);
            items.extend(name(&text).map(|name| (name, text)));
        }
    }
    items
}

/// Lists the functions in the blocks of foreign functions of a source file, each with its declaration.
pub(super) fn foreign_functions(source: &str) -> Named {
    let mut functions = Named::new();
    let (mut inside, mut declaration) = (false, String::new());
    for line in code(source) {
        match line {
            line if BLOCK.contains(&line) => inside = true,
            "}" => inside = false,
            line if inside => {
                append(&mut declaration, line);
                if line.ends_with(';') {
                    let text = std::mem::take(&mut declaration);
                    let name = text.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
                    functions.extend(name.map(|(name, _)| (format!("fn {name}"), text.clone())));
                }
            }
            _ => {}
        }
    }
    functions
}

/// Returns the lines without comments and attributes, which stand on lines of their own. The end of a block keeps its
/// indentation.
fn code(source: &str) -> impl Iterator<Item = &str> {
    let lines = source.lines().map(|line| if line.trim_start() == "}" { line } else { line.trim() });
    lines.filter(|line| !line.is_empty() && !line.starts_with(['/', '*']) && !line.starts_with("#["))
}

fn append(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(line.trim());
}

/// Returns the kind and the name of an item. An implementation has none; a check of a layout gets the name of its type.
fn name(item: &str) -> Option<String> {
    if let Some((_, rest)) = item.strip_prefix("const _: ").and_then(|rest| rest.split_once("size_of::<")) {
        return Some(format!("layout {}", rest.split_once('>')?.0));
    }
    let mut words = item.strip_prefix("pub ")?.split_ascii_whitespace();
    let (kind, rest) = (words.next()?, words.next()?);
    let name = rest.split(['<', '(', ':', ';', '{']).next().filter(|name| !name.is_empty())?;
    Some(format!("{kind} {name}"))
}

#[cfg(test)]
mod tests {
    use super::super::report::Difference;
    use super::*;

    const OLD: &str = r#"/* generated */

#[doc = " A brace that is not closed: {"]
#[repr(C)]
pub struct v8_Point {
  pub x: f64,
}
const _: () = {
  ["Size of v8_Point"][::std::mem::size_of::<v8_Point>() - 8usize];
};
pub const v8_Kind_A: v8_Kind = 0;
pub type v8_Kind = u32;
pub type v8_Long<T> =
  ::std::os::raw::c_void;
impl v8_Point {
  pub const ZERO: u32 = 0;
}
unsafe extern "C" {
  #[link_name = "\u{1}_ZN1"]
  pub fn v8_Old(this: *const v8_Point);
}
pub const v8_Last: u32 = 1;
"#;

    #[test]
    fn items_are_what_has_a_name() {
        let items = items(OLD);
        let names: Vec<_> = items.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "const v8_Kind_A",
                "const v8_Last",
                "fn v8_Old",
                "layout v8_Point",
                "struct v8_Point",
                "type v8_Kind",
                "type v8_Long"
            ]
        );
        assert_eq!(items["type v8_Long"], "pub type v8_Long<T> = ::std::os::raw::c_void;");
    }

    #[test]
    fn a_difference_names_what_moved() {
        let new = OLD
            .replace("- 8usize", "- 16usize")
            .replace("v8_Old(", "v8_New(")
            .replace("pub x: f64,", "pub x: f64, pub y: f64,");
        let difference = Difference::between(&items(OLD), &items(&new));
        assert_eq!(difference.new, ["fn v8_New"]);
        assert_eq!(difference.gone, ["fn v8_Old"]);
        assert_eq!(difference.changed, ["layout v8_Point", "struct v8_Point"]);
    }

    #[test]
    fn foreign_functions_are_those_of_the_blocks_and_no_others() {
        let source = r#"fn ours() {}
unsafe extern "C" {
  fn v8__A(
    // why
    this: *const A,
  ) -> bool;
}
fn more() {
  a();
}
"#;
        let functions = foreign_functions(source);
        assert_eq!(functions.len(), 1);
        assert_eq!(functions["fn v8__A"], "fn v8__A( this: *const A, ) -> bool;");
    }
}
