//! JSON Schema as TypeScript types. Only what a type can say is said, and never more than the schema: what the schema takes,
//! the type takes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::members::{MAX_WIDTH, RECORD, Written};
use super::notes;
use super::text::{property, quoted, type_name};
use super::text_type::{Binds, Type, intersection, kind, union};
use crate::tool::schema::resolve;

/// How many parts of schemas are looked at for one tool.
const MAX_VISITS: usize = 4_000;
/// How many members of an object, of a union and of a tuple are written out.
const MAX_MEMBERS: usize = 120;
const MAX_UNION: usize = 60;
const MAX_TUPLE: usize = 16;
/// How many types get names for one tool.
const MAX_NAMED: usize = 40;
/// The longest name of a property, and the longest literal, in bytes.
const MAX_LITERAL_BYTES: usize = 200;

/// Keywords that say nothing of which values fit, so that beside them a reference is all there is.
const ANNOTATIONS: [&str; 13] = [
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "example",
    "examples",
    "nullable",
    "readOnly",
    "title",
];

/// How types are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    /// How many levels of a value are written out; below stands `unknown`.
    pub(super) levels: usize,
    /// Whether there are comments and names for types; without, all is on one line.
    pub(super) is_full: bool,
    /// The most bytes in all, about.
    pub(super) most_bytes: usize,
}

/// A type that has a name because schemas refer to it.
struct Named<'a> {
    root: &'a Value,
    target: &'a Value,
    name: String,
}

/// The types of one tool.
pub(super) struct Types<'a> {
    style: Style,
    /// What names of types begin with.
    prefix: String,
    named: Vec<Named<'a>>,
    visits: usize,
    bytes: usize,
    /// Whether something was left out.
    pub(super) is_cut: bool,
    /// The schema that references are resolved in.
    root: &'a Value,
    /// Properties of the schemas around a branch of `allOf`, `anyOf` or `oneOf`, the nearest last.
    around: Vec<&'a Map<String, Value>>,
}

impl<'a> Types<'a> {
    pub(super) fn new(tool: &str, style: Style) -> Self {
        let (prefix, root) = (type_name(tool), &Value::Null);
        Self { style, prefix, named: Vec::new(), visits: 0, bytes: 0, is_cut: false, root, around: Vec::new() }
    }

    /// The type of a whole schema.
    pub(super) fn of_root(&mut self, root: &'a Value) -> Type {
        self.root = root;
        self.around.clear();
        self.of(root, 0)
    }

    /// The types that got names meanwhile, each as its comment, its name and the type.
    pub(super) fn declared(&mut self) -> Vec<(String, String, String)> {
        let mut declared = Vec::new();
        // Each may name others.
        while let Some(Named { root, target, name }) = self.named.get(declared.len()) {
            let (root, target, name) = (*root, *target, name.clone());
            self.root = root;
            self.around.clear();
            let text = self.of(target, 0).text;
            declared.push((notes::of(target, None), name, text));
        }
        declared
    }

    /// The name that a schema got, if it got one.
    pub(super) fn name_of(&self, schema: &Value) -> Option<&str> {
        self.named.iter().find(|known| std::ptr::eq(known.target, schema)).map(|known| known.name.as_str())
    }

    fn cut(&mut self) -> Type {
        self.is_cut = true;
        Type::unknown()
    }

    /// Whether there is room for so many bytes more.
    fn takes(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.bytes <= self.style.most_bytes
    }

    fn of(&mut self, schema: &'a Value, level: usize) -> Type {
        let members = match schema {
            Value::Object(members) => members,
            Value::Bool(false) => return Type::tight("never"),
            _ => return Type::unknown(),
        };
        self.visits += 1;
        if self.visits > MAX_VISITS || !self.takes(0) {
            return self.cut();
        }
        let mut parts = Vec::new();
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = members.get(keyword).and_then(Value::as_str) {
                parts.push(self.reference(reference, level));
            }
        }
        let is_reference = !parts.is_empty() && members.keys().all(|it| it.starts_with('$') || is_annotation(it));
        if !is_reference {
            let depth = self.around.len();
            self.around.extend(members.get("properties").and_then(Value::as_object));
            for each in branches(members, "allOf") {
                parts.push(self.of(each, level));
            }
            for keyword in ["oneOf", "anyOf"] {
                let branches = branches(members, keyword);
                match branches.len() {
                    0 => {}
                    many if many > MAX_UNION => parts.push(self.cut()),
                    _ => {
                        let types = branches.iter().map(|each| self.of(each, level)).collect();
                        parts.push(union(types));
                    }
                }
            }
            self.around.truncate(depth);
            let has_others = parts.iter().any(|part| !part.is("unknown"));
            parts.push(self.own(members, level, has_others));
        }
        let whole = intersection(parts);
        // OpenAPI before 3.1 says it so.
        let is_nullable = members.get("nullable") == Some(&Value::Bool(true));
        if is_nullable { union(vec![whole, Type::tight("null")]) } else { whole }
    }

    /// What the keywords for the value itself say, without those that hold other schemas for it.
    fn own(&mut self, members: &'a Map<String, Value>, level: usize, has_others: bool) -> Type {
        if let Some(value) = members.get("const") {
            return self.literal(value, level);
        }
        if let Some(Value::Array(values)) = members.get("enum") {
            let types = values.iter().take(MAX_UNION).map(|value| self.literal(value, level)).collect();
            if values.len() <= MAX_UNION {
                return union(types);
            }
            self.is_cut = true;
            return union(values.iter().map(kind).collect());
        }
        let kinds = kinds(members);
        let shape = ["properties", "required", "additionalProperties", "patternProperties"];
        if has_others && kinds == ["object"] && !shape.iter().any(|it| members.contains_key(*it)) {
            // That it is an object is said by the others.
            return Type::unknown();
        }
        union(
            kinds
                .into_iter()
                .map(|kind| match kind {
                    "object" => self.object(members, level),
                    "array" => self.array(members, level),
                    "string" | "boolean" | "null" | "number" => Type::tight(kind),
                    "integer" => Type::tight("number"),
                    _ => Type::unknown(),
                })
                .collect(),
        )
    }

    fn reference(&mut self, reference: &str, level: usize) -> Type {
        let Some(target) = resolve(self.root, reference) else { return self.cut() };
        if !self.style.is_full {
            return if level > self.style.levels { self.cut() } else { self.of(target, level + 1) };
        }
        if is_small(target) {
            return self.of(target, level);
        }
        if let Some(known) = self.named.iter().find(|known| std::ptr::eq(known.target, target)) {
            return Type::tight(known.name.clone());
        }
        if self.named.len() >= MAX_NAMED {
            return self.cut();
        }
        let last = reference.rsplit(['/', '#']).next().unwrap_or_default();
        let title = target.get("title").and_then(Value::as_str).filter(|_| last.is_empty()).unwrap_or("Value");
        let word = type_name(if last.is_empty() { title } else { last });
        let base = format!("{}{word}", self.prefix);
        // What is no name at all, or is one of the language, gets one from its number.
        let is_taken = |name: &str| self.named.iter().any(|known| known.name == name);
        let is_name = |name: &str| name.starts_with(|it: char| it.is_ascii_alphabetic());
        let number = self.named.len() + 1;
        let free = Some(&base).filter(|base| is_name(&self.prefix) && !word.is_empty() && !is_taken(base)).cloned();
        let name = free.unwrap_or_else(|| format!("T{base}{number}"));
        self.named.push(Named { root: self.root, target, name: name.clone() });
        Type::tight(name)
    }

    fn object(&mut self, members: &'a Map<String, Value>, level: usize) -> Type {
        if level >= self.style.levels {
            return self.cut();
        }
        let around = std::mem::take(&mut self.around);
        let properties = members.get("properties").and_then(Value::as_object);
        let required: BTreeSet<&str> = strings(members.get("required")).collect();
        let mut written = Written::default();
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for (name, schema) in properties.into_iter().flatten() {
            let place = if required.contains(name.as_str()) { &mut first } else { &mut others };
            place.push((name.as_str(), Some(schema)));
        }
        let is_listed = |name: &&str| properties.is_some_and(|properties| properties.contains_key(*name));
        let missing = required.iter().copied().filter(|name| !is_listed(name)).take(MAX_MEMBERS + 1);
        // As the author wrote them: what stands first is mostly what matters.
        first.sort_by_key(|(name, _)| strings(members.get("required")).take(MAX_MEMBERS).position(|it| it == *name));
        // The type of what is only required stands with the schemas around.
        first.extend(missing.map(|name| (name, around.iter().rev().find_map(|known| known.get(name)))));
        let (needed, all) = (first.len(), first.len() + others.len());
        for (number, (name, schema)) in first.into_iter().chain(others).take(MAX_MEMBERS).enumerate() {
            if name.len() > MAX_LITERAL_BYTES {
                continue;
            }
            let each = schema.map_or_else(Type::unknown, |schema| self.of(schema, level + 1));
            let comment = schema.filter(|_| self.style.is_full).map(|it| self.comment(it)).unwrap_or_default();
            let optional = number >= needed;
            if !self.takes(name.len() + each.text.len().min(MAX_LITERAL_BYTES) + comment.len()) {
                self.is_cut = true;
                break;
            }
            written.add(&property(name), optional, each, comment);
        }
        let hidden = all - written.lines.len();
        if hidden > 0 {
            self.is_cut = true;
            written.left_out(hidden);
        }
        let rest = self.rest(members, &written, level);
        self.around = around;
        written.finish(rest, self.style.is_full)
    }

    /// The type of members that are not named, where there is something to say of them.
    fn rest(&mut self, members: &'a Map<String, Value>, written: &Written, level: usize) -> Option<(Type, String)> {
        let patterns = members.get("patternProperties").and_then(Value::as_object).filter(|it| !it.is_empty());
        let additional = members.get("additionalProperties");
        let named_before = self.named.len();
        let mut types = Vec::new();
        let mut comment = String::new();
        match additional {
            Some(Value::Bool(false)) if patterns.is_none() => return None,
            Some(Value::Bool(false)) => {}
            None if patterns.is_none() && !written.lines.is_empty() => return None,
            None | Some(Value::Bool(true)) => types.push(Type::unknown()),
            Some(schema) => {
                comment = self.comment(schema);
                types.push(self.of(schema, level + 1));
            }
        }
        for (pattern, schema) in patterns.into_iter().flatten().take(MAX_TUPLE) {
            comment = super::text::comment(&format!("{comment} keys that match {pattern:.60}"));
            types.push(self.of(schema, level + 1));
        }
        if patterns.is_some_and(|patterns| patterns.len() > MAX_TUPLE) {
            types.push(self.cut());
        }
        // An index covers the named members, too.
        types.extend(written.types.iter().cloned());
        if written.has_optional {
            types.push(Type::tight("undefined"));
        }
        let mut whole = union(types);
        if !written.lines.is_empty() && whole.text.len() > MAX_WIDTH {
            whole = Type::unknown();
        }
        // A name inside of Record could be the one that is being declared, which TypeScript refuses.
        let is_plain = self.named.len() == named_before && !whole.text.contains(&*self.prefix);
        if written.lines.is_empty() && (is_plain || !self.style.is_full) && comment.is_empty() {
            return Some((whole, RECORD.into()));
        }
        Some((whole, comment))
    }

    fn array(&mut self, members: &'a Map<String, Value>, level: usize) -> Type {
        if level >= self.style.levels {
            return self.cut();
        }
        let around = std::mem::take(&mut self.around);
        let list = |keyword: &str| members.get(keyword).and_then(Value::as_array);
        // Before 2020-12 the places were `items` and the others `additionalItems`.
        let (places, rest) = match (list("prefixItems"), list("items")) {
            (Some(places), _) => (Some(places), members.get("items")),
            (None, Some(places)) => (Some(places), members.get("additionalItems")),
            (None, None) => (None, members.get("items")),
        };
        let number = |keyword: &str| members.get(keyword).and_then(Value::as_u64);
        let of_rest = |this: &mut Self| rest.map_or_else(Type::unknown, |rest| this.of(rest, level + 1));
        let result = match places {
            Some(places) if !places.is_empty() && places.len() <= MAX_TUPLE => {
                let mut texts = Vec::new();
                for (place, schema) in (0_u64..).zip(places) {
                    let each = self.of(schema, level + 1);
                    let is_optional = place >= number("minItems").unwrap_or_default();
                    texts.push(if is_optional { format!("{}?", each.within(Binds::Tight)) } else { each.text });
                }
                let ends = rest == Some(&Value::Bool(false))
                    || number("maxItems").is_some_and(|most| most <= texts.len() as u64);
                if !ends {
                    texts.push(format!("...{}[]", of_rest(self).within(Binds::Tight)));
                }
                Type::tight(format!("[{}]", texts.join(", ")))
            }
            Some(places) if !places.is_empty() => Type::tight("unknown[]"),
            _ => Type::tight(format!("{}[]", of_rest(self).within(Binds::Tight))),
        };
        self.around = around;
        result
    }

    /// Exactly this value.
    fn literal(&mut self, value: &'a Value, level: usize) -> Type {
        let bytes = value.as_str().map_or(8, str::len);
        let is_deep = level >= self.style.levels && (value.is_array() || value.is_object());
        if is_deep || bytes > MAX_LITERAL_BYTES || !self.takes(bytes) {
            self.is_cut = true;
            return kind(value);
        }
        match value {
            Value::Null => Type::tight("null"),
            Value::Bool(value) => Type::tight(value.to_string()),
            Value::Number(number) => Type::tight(number.to_string()),
            Value::String(text) => Type::tight(quoted(text)),
            Value::Array(items) if items.len() <= MAX_TUPLE => {
                let items: Vec<_> = items.iter().map(|item| self.literal(item, level + 1).text).collect();
                Type::tight(format!("[{}]", items.join(", ")))
            }
            Value::Object(members) if members.len() <= MAX_TUPLE => {
                let members = members
                    .iter()
                    .map(|(name, value)| format!("{}: {}", property(name), self.literal(value, level + 1).text));
                let members: Vec<_> = members.collect();
                Type::tight(if members.is_empty() { "{}".into() } else { format!("{{ {} }}", members.join("; ")) })
            }
            Value::Array(_) | Value::Object(_) => {
                self.is_cut = true;
                kind(value)
            }
        }
    }

    /// What stands over a member.
    fn comment(&self, schema: &'a Value) -> String {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|it| resolve(self.root, it));
        notes::of(schema, target.filter(|target| is_small(target)))
    }
}

fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword)
}

/// Whether a type is so short that a name for it would say less.
fn is_small(schema: &Value) -> bool {
    let Value::Object(members) = schema else { return true };
    let is_short = |value: &Value| value.as_array().is_none_or(|values| values.len() <= 8);
    members.iter().all(|(keyword, value)| match keyword.as_str() {
        "enum" => is_short(value),
        "type" => !kinds(members).iter().any(|kind| matches!(*kind, "object" | "array")),
        "const" | "format" | "pattern" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum"
        | "multipleOf" | "minLength" | "maxLength" => true,
        other => is_annotation(other),
    })
}

fn branches<'a>(members: &'a Map<String, Value>, keyword: &str) -> &'a [Value] {
    members.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The kinds of values that a schema is for: those that it names, or the one that its other keywords are about.
fn kinds(members: &Map<String, Value>) -> Vec<&str> {
    match members.get("type") {
        Some(Value::String(kind)) => return vec![kind],
        Some(Value::Array(kinds)) if !kinds.is_empty() => {
            return kinds.iter().map(|it| it.as_str().unwrap_or("")).collect();
        }
        _ => {}
    }
    let has = |keywords: &[&str]| keywords.iter().any(|keyword| members.contains_key(*keyword));
    if has(&["properties", "required", "additionalProperties", "patternProperties"]) {
        vec!["object"]
    } else if has(&["items", "prefixItems"]) {
        vec!["array"]
    } else {
        vec![""]
    }
}
