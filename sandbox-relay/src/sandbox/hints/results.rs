//! Advice about code that takes the result of a tool for another value than it is. The results themselves decide.

use relay_proto::ToolName;
use relay_proto::spelling::{nearest, sanitize};
use relay_script::{Callee, Member, Place, References, ResultUse, ResultUsed};
use serde_json::Value;

use super::super::results;
use super::is_at;
use super::known;

/// Maximum number of members that a hint names.
const MAX_MEMBERS: usize = 10;
/// Maximum length in bytes of the name of a member in a hint.
const MAX_NAME_BYTES: usize = 40;

/// Returns advice about a member that is read of `undefined`: an earlier member is not there.
pub(super) fn of_read(references: &References, name: &str, place: Place) -> Option<String> {
    references.results.iter().find_map(|it| {
        let index = it.members.iter().position(|member| member.name == name && is_at(member, place))?;
        of_missing(it, index)
    })
}

/// Returns advice about a member that is called and is no function.
pub(super) fn of_call(references: &References, place: Place) -> Option<String> {
    references.results.iter().filter(|it| it.used == ResultUsed::Called).find_map(|it| {
        let last = it.members.last()?;
        if !(last.start <= place && place <= last.end) {
            return None;
        }
        let before = it.members.len() - 1;
        of_missing(it, before).or_else(|| {
            let known = Known::of(it)?;
            let (kind, values) = known.kind_at(before)?;
            // A function of its own is no member of JSON: the name is that of a method of another kind of value.
            (!kind.has_method(&last.name)).then(|| {
                let value = known.described(before, kind, &values);
                let instead = instead(&last.name, &values);
                format!("{value}, so that it has no .{}(){instead}", last.name)
            })
        })
    })
}

/// Returns advice about a value that is not iterable.
pub(super) fn of_iteration(references: &References, place: Place) -> Option<String> {
    let uses = references.results.iter().filter(|it| it.used == ResultUsed::Iterated && is_within(it, place));
    let mut hints = uses.filter_map(|it| {
        let end = it.members.len();
        of_missing(it, end).or_else(|| {
            let known = Known::of(it)?;
            let (kind, values) = known.kind_at(end)?;
            (kind == Kind::Object).then(|| {
                let instead = instead("map", &values);
                format!("{}, which is not iterable{instead}", known.described(end, kind, &values))
            })
        })
    });
    hints.next()
}

/// Returns advice about a value that is parsed and is no text with JSON.
pub(super) fn of_parsing(references: &References, place: Place) -> Option<String> {
    let uses = references.results.iter().filter(|it| it.used == ResultUsed::Parsed && is_within(it, place));
    let mut hints = uses.filter_map(|it| {
        let end = it.members.len();
        of_missing(it, end).or_else(|| {
            let known = Known::of(it)?;
            let (kind, values) = known.kind_at(end)?;
            match kind {
                Kind::Object | Kind::Array => {
                    let value = known.described(end, kind, &values);
                    Some(format!("{value}, which is parsed already: use it without JSON.parse"))
                }
                Kind::Text => Some(format!("{} that is not JSON: use it as text", known.described(end, kind, &values))),
                Kind::Other(_) => None,
            }
        })
    });
    hints.next()
}

/// Returns advice about a program that returned `undefined`: a member of a result that is not there.
pub(super) fn of_returned(references: &References) -> Option<String> {
    references.results.iter().filter(|it| it.used == ResultUsed::Returned).find_map(|it| {
        let known = Known::of(it)?;
        let (index, kind, values) = known.first_missing(it.members.len())?;
        // An object may well have a member at times: the mistakes are a misspelt one, and the form of MCP's own results.
        let names: Vec<&str> = it.members.iter().map(|member| member.name.as_str()).collect();
        let is_form_of_mcp = index == 0 && matches!(names.as_slice(), ["content", "0", ..]);
        let is_misspelt = || nearest(names[index], members(&values)).is_some();
        (kind != Kind::Object || is_form_of_mcp || is_misspelt()).then(|| known.missing(index, kind, &values))
    })
}

fn is_within(it: &ResultUse, place: Place) -> bool {
    it.start <= place && place <= it.end
}

/// Returns advice if the members of a use before `end` lead to a value that is not there.
fn of_missing(it: &ResultUse, end: usize) -> Option<String> {
    let known = Known::of(it)?;
    let (index, kind, values) = known.first_missing(end)?;
    Some(known.missing(index, kind, &values))
}

/// Returns what to write in place of an object for a method, if one member of it alone has the method.
fn instead(method: &str, values: &[&Value]) -> String {
    let [Value::Object(first), rest @ ..] = values else { return String::new() };
    let mut having = first.iter().filter(|(name, value)| {
        is_name(name)
            && Kind::of(value).is_some_and(|kind| kind.has_method(method))
            && rest.iter().all(|other| other.get(name).and_then(Kind::of) == Kind::of(value))
    });
    match (having.next(), having.next()) {
        (Some((name, _)), None) => {
            format!("; did you mean its member {name}?")
        }
        _ => String::new(),
    }
}

/// Kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Object,
    Array,
    Text,
    /// A number or a truth value, with its name.
    Other(&'static str),
}

impl Kind {
    /// Returns the kind of a value; `None`: it is `null`.
    fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(_) => Self::Other("true or false"),
            Value::Number(_) => Self::Other("a number"),
            Value::String(_) => Self::Text,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        })
    }

    /// Returns `true` if values of this kind have the method, or if it is not one of texts and arrays at all.
    fn has_method(self, method: &str) -> bool {
        let (of_text, of_array) = (OF_TEXTS.contains(&method), OF_ARRAYS.contains(&method));
        match self {
            Self::Text => of_text || !of_array,
            Self::Array => of_array || !of_text,
            Self::Object | Self::Other(_) => !of_text && !of_array,
        }
    }

    /// Returns whether values of this kind may have a member that their JSON does not show.
    fn may_have_own(self, name: &str) -> bool {
        let is_own = match self {
            // The content of texts is not kept.
            Self::Text => name == "length" || OF_TEXTS.contains(&name) || is_index(name),
            Self::Array => name == "length" || OF_ARRAYS.contains(&name),
            Self::Object | Self::Other(_) => false,
        };
        is_own || OF_ALL.contains(&name)
    }
}

/// Members that all values inherit.
const OF_ALL: [&str; 5] = ["constructor", "hasOwnProperty", "toLocaleString", "toString", "valueOf"];

/// Methods of texts that models call.
const OF_TEXTS: [&str; 23] = [
    "at",
    "charAt",
    "concat",
    "endsWith",
    "includes",
    "indexOf",
    "lastIndexOf",
    "match",
    "matchAll",
    "padStart",
    "repeat",
    "replace",
    "replaceAll",
    "slice",
    "split",
    "startsWith",
    "substring",
    "toLowerCase",
    "toUpperCase",
    "trim",
    "trimEnd",
    "trimStart",
    "localeCompare",
];

/// Methods of arrays that models call.
const OF_ARRAYS: [&str; 29] = [
    "at",
    "concat",
    "every",
    "filter",
    "find",
    "findIndex",
    "findLast",
    "flat",
    "flatMap",
    "forEach",
    "includes",
    "indexOf",
    "join",
    "keys",
    "entries",
    "values",
    "lastIndexOf",
    "map",
    "pop",
    "push",
    "reduce",
    "reduceRight",
    "reverse",
    "shift",
    "slice",
    "some",
    "sort",
    "splice",
    "toSorted",
];

/// Use of a result, with the results of the calls there.
struct Known<'u> {
    used: &'u ResultUse,
    tool: String,
    results: Vec<Value>,
}

impl<'u> Known<'u> {
    fn of(used: &'u ResultUse) -> Option<Self> {
        let is_it = |name: &str| match &used.callee {
            Callee::Named(named) => named == name,
            Callee::Member { server, tool } => ToolName::try_from(name.to_owned()).is_ok_and(|name| {
                known::has().servers && sanitize(name.server()) == *server && sanitize(name.tool()) == *tool
            }),
        };
        let (tool, results) = results::of_calls(used.lines, is_it)?;
        (!results.is_empty()).then_some(Self { used, tool, results })
    }

    /// Returns the values that the members before `end` lead to in all results; `None`: they lead to none in one.
    fn values_at(&self, end: usize) -> Option<Vec<&Value>> {
        let path = self.used.members.get(..end)?;
        self.results
            .iter()
            .map(|result| path.iter().try_fold(result, |value, name| member(value, &name.name)))
            .collect()
    }

    /// Returns the values that the members before `end` lead to, if all are of one kind.
    fn kind_at(&self, end: usize) -> Option<(Kind, Vec<&Value>)> {
        let values = self.values_at(end)?;
        let kind = Kind::of(values.first()?)?;
        values.iter().all(|value| Kind::of(value) == Some(kind)).then_some((kind, values))
    }

    /// Returns the index of the first member before `end` that no result has, with the kind and the values that it is
    /// not a member of. `None`: there is none, or results differ.
    fn first_missing(&self, end: usize) -> Option<(usize, Kind, Vec<&Value>)> {
        for (index, name) in self.used.members.get(..end)?.iter().enumerate() {
            let (kind, values) = self.kind_at(index)?;
            if kind.may_have_own(&name.name) {
                return None;
            }
            match values.iter().filter(|value| member(value, &name.name).is_some()).count() {
                0 => return Some((index, kind, values)),
                have if have == values.len() => {}
                _ => return None,
            }
        }
        None
    }

    /// Says which value it is that the members before `end` lead to.
    fn described(&self, end: usize, kind: Kind, values: &[&Value]) -> String {
        let tool = &self.tool;
        let of = match &self.used.members[..end] {
            [] => format!("the result of {tool} is"),
            path => format!("{} in the result of {tool} is", written(path)),
        };
        match kind {
            Kind::Object => format!("{of} an object with {}", listed(values)),
            Kind::Array => match values {
                [Value::Array(items)] if items.is_empty() => format!("{of} an empty array"),
                [Value::Array(items)] => format!("{of} an array of {}", items.len()),
                _ => format!("{of} an array"),
            },
            Kind::Text => format!("{of} text"),
            Kind::Other(name) => format!("{of} {name}"),
        }
    }

    /// Says that a member is not there, and what is.
    fn missing(&self, index: usize, kind: Kind, values: &[&Value]) -> String {
        let name = &self.used.members[index].name;
        let value = self.described(index, kind, values);
        let name = if is_index(name) { format!("[{name}]") } else { name.clone() };
        match nearest(&name, members(values)).filter(|_| kind == Kind::Object) {
            Some(meant) => format!("{value}, and has no {name}: did you mean {meant}?"),
            None if kind == Kind::Text => format!("{value}, and has no {name}: use the text itself"),
            None => format!("{value}, and has no {name}"),
        }
    }
}

/// Writes members as code does.
fn written(path: &[Member]) -> String {
    let mut text = String::new();
    for Member { name, .. } in path {
        if is_index(name) {
            text.push_str(&format!("[{name}]"));
        } else {
            text.push_str(if text.is_empty() { "" } else { "." });
            text.push_str(name);
        }
    }
    text
}

/// Returns a member of a value; `None`: it has none of that name.
fn member<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Object(members) => members.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    }
}

/// Returns the names of the members of objects, each once.
fn members<'v>(values: &[&'v Value]) -> Vec<&'v str> {
    let mut names = Vec::new();
    for name in values.iter().filter_map(|value| value.as_object()).flat_map(|object| object.keys()) {
        if is_name(name) && !names.contains(&name.as_str()) && names.len() < 100 {
            names.push(name);
        }
    }
    names
}

/// Returns whether the name of a member is a number, as that of an item of an array.
fn is_index(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether the name of a member, which comes from a tool, may stand in a hint.
fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '-');
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_part)
}

/// Lists the members of objects in words.
fn listed(values: &[&Value]) -> String {
    let names = members(values);
    match names.as_slice() {
        [] => "no members".into(),
        [only] => format!("the member {only}"),
        names => {
            let more = if names.len() > MAX_MEMBERS { ", …" } else { "" };
            format!("the members {}{more}", names[..names.len().min(MAX_MEMBERS)].join(", "))
        }
    }
}
