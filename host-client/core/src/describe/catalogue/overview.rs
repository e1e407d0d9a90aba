//! The overview of all tools within a number of tokens: as many tools as fit with their types, others by name, every
//! server with its share.

use std::cmp::Reverse;
use std::sync::Arc;

use super::{estimate_tokens, first_line};
use crate::describe::declare::{Declarations, comment_line};
use crate::tool::Registered;

/// The share of the tokens that goes to names if not all names fit, in percent. The rest goes to types.
const NAMES_PERCENT: usize = 60;
/// The tokens that are reserved for the first line.
const HEADER_TOKENS: usize = 40;
/// The fewest tokens that a tool's types are looked up for.
const MIN_LINE_TOKENS: usize = 12;

/// About the bytes of a field's type.
const FIELD_BYTES: usize = 10;
/// The bytes of a description in which its deprecation is looked for.
const DEPRECATION_BYTES: usize = 400;
/// The word by which a description says that a tool should not be used any more.
const DEPRECATED: &str = "deprecated";

/// The tools of one server.
struct Section<'a> {
    server: &'a str,
    /// The tools, those first that are shown if not all can be.
    tools: Vec<&'a Arc<Registered>>,
    /// The number of tools that are named, from the first.
    named: usize,
    /// The lines with types of the first tools; `None`: the tool is only named.
    lines: Vec<Option<String>>,
}

/// Returns the overview of the tools in at most about `most_tokens` tokens, but always with its first line.
pub(super) fn write_overview(declarations: &Declarations, tools: &[Arc<Registered>], most_tokens: usize) -> String {
    let mut sections: Vec<Section<'_>> = Vec::new();
    // The tools are in the order of their full names: those of a server stand together.
    for tool in tools {
        let server = tool.name.server();
        match sections.last_mut() {
            Some(section) if section.server == server => section.tools.push(tool),
            _ => sections.push(Section { server, tools: vec![tool], named: 0, lines: Vec::new() }),
        }
    }
    for section in &mut sections {
        section.tools.sort_by_cached_key(|tool| precedence(declarations, tool));
    }
    let room = most_tokens.saturating_sub(HEADER_TOKENS);
    let needed: usize = tools.iter().map(|tool| name_tokens(tool)).sum::<usize>()
        + sections.iter().map(|section| estimate_tokens(section.server) + 3).sum::<usize>();
    let for_names = if needed <= room { room } else { room * NAMES_PERCENT / 100 };
    let spent = add_names(&mut sections, for_names);
    let left = add_lines(declarations, &mut sections, room - spent);
    // Tokens that no line needed go to further names.
    add_names(&mut sections, left);
    join(&sections, tools.len())
}

/// Returns by what tools come first if not all can be shown: those that are not deprecated, then those in use, then those
/// that take little room.
fn precedence(declarations: &Declarations, tool: &Registered) -> (bool, Reverse<u64>, usize) {
    let fields = tool.spec.input_schema.get("properties").and_then(|fields| fields.as_object());
    let fields = fields.into_iter().flatten().map(|(name, _)| name.len() + FIELD_BYTES).sum::<usize>();
    let bytes = tool.name.as_str().len() + fields + first_line(&tool.spec.description).len();
    (is_deprecated(&tool.spec.description), Reverse(declarations.uses(tool)), bytes)
}

/// Returns `true` if a description says near its beginning that the tool is deprecated.
fn is_deprecated(description: &str) -> bool {
    let start = &description[..description.floor_char_boundary(DEPRECATION_BYTES)];
    let Some(at) = start.to_ascii_lowercase().find(DEPRECATED) else { return false };
    // `Lists deprecated packages` is about something else.
    let (before, after) = (start[..at].trim_end(), start[at + DEPRECATED.len()..].trim_start_matches(' '));
    after.is_empty()
        || after.starts_with([':', '.', ',', ';', ')', ']', '!', '\n', '*', '—', '-'])
        || before.ends_with(['(', '[', '@'])
        || start[at..].starts_with("DEPRECATED")
}

/// Returns the tokens of a tool's name in a list.
fn name_tokens(tool: &Registered) -> usize {
    estimate_tokens(tool.name.tool()) + 1
}

/// Adds names in turns, one of each server, until `room` tokens are used up. Returns the tokens that were spent.
fn add_names(sections: &mut [Section<'_>], room: usize) -> usize {
    let (mut spent, mut goes_on) = (0, true);
    while std::mem::take(&mut goes_on) {
        for section in &mut *sections {
            let Some(tool) = section.tools.get(section.named) else { continue };
            let heading = if section.named == 0 { estimate_tokens(section.server) + 3 } else { 0 };
            let tokens = name_tokens(tool) + heading;
            if spent + tokens <= room {
                spent += tokens;
                section.named += 1;
                goes_on = true;
            }
        }
    }
    spent
}

/// Adds lines with types of tools that are named, in turns, one of each server, while `room` tokens last. Returns the
/// tokens that are left.
fn add_lines(declarations: &Declarations, sections: &mut [Section<'_>], room: usize) -> usize {
    let mut left = room;
    let most = sections.iter().map(|section| section.named).max().unwrap_or_default();
    for turn in 0..most {
        for section in sections.iter_mut().filter(|section| turn < section.named) {
            let tool = section.tools[turn];
            // Writing a line takes time: it is not done for a line that would not fit.
            let line = (left > MIN_LINE_TOKENS).then(|| typed_line(declarations, tool));
            let line = line.and_then(|line| {
                left = left.checked_sub(estimate_tokens(&line) + 2)?;
                Some(line)
            });
            section.lines.push(line);
        }
    }
    left
}

/// Returns the line of a tool: its signature, its full name if that is spelled differently, and what it does.
fn typed_line(declarations: &Declarations, tool: &Registered) -> String {
    let signature = declarations.signature(tool);
    // JavaScript may spell the name differently than `mcp.call` takes it.
    let is_same = signature.starts_with(&format!("{}(", tool.name));
    let full = if is_same { String::new() } else { comment_line(tool.name.as_str()) };
    let notes: Vec<_> =
        [full, comment_line(&first_line(&tool.spec.description))].into_iter().filter(|note| !note.is_empty()).collect();
    if notes.is_empty() { signature } else { format!("{signature} // {}", notes.join(": ")) }
}

/// Returns the text of the overview. `all` is the number of all tools.
fn join(sections: &[Section<'_>], all: usize) -> String {
    let named: usize = sections.iter().map(|section| section.named).sum();
    let typed = sections.iter().flat_map(|section| &section.lines).flatten().count();
    let mut text = match (named == all, typed == all) {
        (true, true) => format!("All {all} tools:\n"),
        _ => format!("{named} of {all} tools are shown, {typed} of them with types:\n"),
    };
    for section in sections.iter().filter(|section| section.named > 0) {
        let mut shown: Vec<_> = section.lines.iter().flatten().collect();
        shown.sort();
        for line in &shown {
            text.push_str(line);
            text.push('\n');
        }
        let bare = (0..section.named).filter(|at| !matches!(section.lines.get(*at), Some(Some(_))));
        let mut bare: Vec<_> = bare.map(|at| comment_line(section.tools[at].name.tool())).collect();
        bare.sort();
        if !bare.is_empty() {
            let more = if shown.is_empty() { "" } else { " also" };
            text.push_str(&format!("{}{more}: {}\n", comment_line(section.server), bare.join(", ")));
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::ToolSpec;
    use crate::tools::Tools;

    fn tools(servers: &[(&str, usize)]) -> Tools {
        let tools = Tools::new();
        for (server, number) in servers {
            for tool in 0..*number {
                let schema =
                    json!({"type": "object", "required": ["query"], "properties": {"query": {"type": "string"}}});
                let spec = ToolSpec::new(format!("{server}.find_{tool}"), "Finds something\nin some place", schema);
                tools.add_with(spec, |_, _| std::future::pending()).unwrap();
            }
        }
        tools
    }

    #[test]
    fn all_tools_are_shown_with_types_where_there_is_room() {
        assert_eq!(
            tools(&[("a", 1), ("my-b", 1)]).overview(1_000),
            "All 2 tools:\n\
             a.find_0(args: { query: string }): Promise<unknown> // Finds something\n\
             my_b.find_0(args: { query: string }): Promise<unknown> // my-b.find_0: Finds something\n"
        );
        assert_eq!(Tools::new().overview(100), "All 0 tools:\n");
    }

    #[test]
    fn what_does_not_fit_is_named_or_counted_and_each_server_has_its_share() {
        let many = tools(&[("a", 500), ("b", 5), ("c", 1)]);
        for most in [0, 50, 100, 300, 1_000, 5_000] {
            let text = many.overview(most);
            assert!(estimate_tokens(&text) <= most.max(HEADER_TOKENS), "{most}: {} in {text}", estimate_tokens(&text));
            assert!(text.contains(" of 506 tools are shown"), "{text}");
        }
        let text = many.overview(300);
        for server in ["a", "b", "c"] {
            assert!(text.contains(&format!("{server}.find_0(args")), "{text}");
        }
        assert!(text.contains("b also: find_"), "{text}");
        assert!(many.overview(5_000).starts_with("506 of 506 tools are shown, "), "{}", many.overview(5_000));
    }
}
