//! JSON Schema as TypeScript types. A type accepts every value that the schema accepts; restrictions that TypeScript cannot
//! express are left out.

mod list;
mod object;

use serde_json::{Map, Value};

use super::keywords::{branches, is_annotation, is_small, kinds};
use super::notes;
use super::text::type_name;
use super::text_type::{Type, broad_type, intersection, union};
use crate::tool::schema::resolve;

/// The most subschemas that are looked at for one tool.
const MAX_VISITS: usize = 4_000;
/// The most members of an object that are written out.
const MAX_MEMBERS: usize = 120;
/// The most members of a union that are written out.
const MAX_UNION: usize = 60;
/// The most items of a tuple, members of a literal, and patterns of keys that are written out.
const MAX_TUPLE: usize = 16;
/// The most types that get names for one tool.
const MAX_NAMED: usize = 40;
/// The most bytes of a property's name, and of a literal.
const MAX_LITERAL_BYTES: usize = 200;

/// The form in which types are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    /// The most levels of a value that are written out; deeper ones become `unknown`.
    pub(super) levels: usize,
    /// `true`: with comments, names for types, and several lines; `false`: all on one line.
    pub(super) is_full: bool,
    /// The approximate number of bytes after which types become `unknown`.
    pub(super) most_bytes: usize,
    /// The most members of an object, and alternatives of an `enum`, that are written out; `None`: as many as there are,
    /// up to the bounds of this module.
    pub(super) most_members: Option<usize>,
}

impl Style {
    /// Returns the most members of an object that are written out.
    fn most_members(self) -> usize {
        self.most_members.unwrap_or(MAX_MEMBERS).min(MAX_MEMBERS)
    }

    /// Returns the most alternatives of an `enum` that are written out.
    fn most_alternatives(self) -> usize {
        self.most_members.unwrap_or(MAX_UNION).min(MAX_UNION)
    }
}

/// A type that has a name because schemas refer to it.
struct Named<'a> {
    /// The schema in which references of `target` are resolved.
    root: &'a Value,
    target: &'a Value,
    name: String,
}

/// The types of one tool.
pub(super) struct Types<'a> {
    style: Style,
    /// The text that the names of types begin with.
    prefix: String,
    named: Vec<Named<'a>>,
    /// The number of subschemas that were looked at.
    visits: usize,
    /// The approximate number of bytes that were written.
    bytes: usize,
    /// `true` if something was left out.
    pub(super) is_cut: bool,
    /// The schema in which references are resolved.
    root: &'a Value,
    /// The properties of the schemas around a branch of `allOf`, `anyOf` or `oneOf`, the nearest last.
    enclosing: Vec<&'a Map<String, Value>>,
}

impl<'a> Types<'a> {
    /// Creates the types of a tool, whose name without its server is `tool`.
    pub(super) fn new(tool: &str, style: Style) -> Self {
        let (prefix, root) = (type_name(tool), &Value::Null);
        Self { style, prefix, named: Vec::new(), visits: 0, bytes: 0, is_cut: false, root, enclosing: Vec::new() }
    }

    /// Returns `true` if something was left out because there were too many bytes.
    pub(super) fn is_over(&self) -> bool {
        self.bytes > self.style.most_bytes
    }

    /// Returns the type of a whole schema.
    pub(super) fn type_of_root(&mut self, root: &'a Value) -> Type {
        self.type_of_part(root, root)
    }

    /// Returns the types that got names so far, each as its comment, its name and its text.
    pub(super) fn named_types(&mut self) -> Vec<(String, String, String)> {
        let mut declared = Vec::new();
        // Writing one may name others.
        while let Some(Named { root, target, name }) = self.named.get(declared.len()) {
            let (root, target, name) = (*root, *target, name.clone());
            let text = self.type_of_part(root, target).text;
            declared.push((notes::comment_for(target, None), name, text));
        }
        declared
    }

    /// Returns the name that a schema got; `None`: it got none.
    pub(super) fn name_of(&self, schema: &Value) -> Option<&str> {
        self.named.iter().find(|known| std::ptr::eq(known.target, schema)).map(|known| known.name.as_str())
    }

    /// Returns the type of a subschema of `root`, to be written on its own.
    fn type_of_part(&mut self, root: &'a Value, part: &'a Value) -> Type {
        self.root = root;
        self.enclosing.clear();
        self.type_of(part, 0)
    }

    /// Returns `unknown`, and notes that something was left out.
    fn cut(&mut self) -> Type {
        self.is_cut = true;
        Type::unknown()
    }

    /// Counts bytes as written. Returns `false` if they are too many.
    fn spend(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.bytes <= self.style.most_bytes
    }

    /// Returns the type of a subschema at this level of the value.
    fn type_of(&mut self, schema: &'a Value, level: usize) -> Type {
        let members = match schema {
            Value::Object(members) => members,
            Value::Bool(false) => return Type::atom("never"),
            _ => return Type::unknown(),
        };
        self.visits += 1;
        if self.visits > MAX_VISITS || !self.spend(0) {
            return self.cut();
        }
        let mut parts = Vec::new();
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = members.get(keyword).and_then(Value::as_str) {
                parts.push(self.type_of_reference(reference, level));
            }
        }
        let is_reference = !parts.is_empty() && members.keys().all(|it| it.starts_with('$') || is_annotation(it));
        if !is_reference {
            let depth = self.enclosing.len();
            self.enclosing.extend(members.get("properties").and_then(Value::as_object));
            for each in branches(members, "allOf") {
                parts.push(self.type_of(each, level));
            }
            for keyword in ["oneOf", "anyOf"] {
                let branches = branches(members, keyword);
                match branches.len() {
                    0 => {}
                    many if many > MAX_UNION => parts.push(self.cut()),
                    _ => {
                        let types = branches.iter().map(|each| self.type_of(each, level)).collect();
                        parts.push(union(types));
                    }
                }
            }
            self.enclosing.truncate(depth);
            let has_others = parts.iter().any(|part| !part.is("unknown"));
            parts.push(self.type_of_keywords(members, level, has_others));
        }
        let whole = intersection(parts);
        // OpenAPI before 3.1 marks a type that includes `null` so.
        let is_nullable = members.get("nullable") == Some(&Value::Bool(true));
        if is_nullable { union(vec![whole, Type::atom("null")]) } else { whole }
    }

    /// Returns the type that the keywords of the schema itself describe, without references and branches. `has_others` is
    /// `true` if those describe a type already.
    fn type_of_keywords(&mut self, members: &'a Map<String, Value>, level: usize, has_others: bool) -> Type {
        if let Some(value) = members.get("const") {
            return self.type_of_literal(value, level);
        }
        if let Some(Value::Array(values)) = members.get("enum") {
            let most = self.style.most_alternatives();
            let types = values.iter().take(most).map(|value| self.type_of_literal(value, level)).collect();
            if values.len() <= most {
                return union(types);
            }
            self.is_cut = true;
            return union(values.iter().map(broad_type).collect());
        }
        let kinds = kinds(members);
        let shape = ["properties", "required", "additionalProperties", "patternProperties"];
        if has_others && kinds == ["object"] && !shape.iter().any(|it| members.contains_key(*it)) {
            // The other parts of the type are objects already.
            return Type::unknown();
        }
        union(
            kinds
                .into_iter()
                .map(|kind| match kind {
                    "object" => self.type_of_object(members, level),
                    "array" => self.type_of_list(members, level),
                    "string" | "boolean" | "null" | "number" => Type::atom(kind),
                    "integer" => Type::atom("number"),
                    _ => Type::unknown(),
                })
                .collect(),
        )
    }

    /// Returns the type that a reference points to: its name, or the type itself if it is small or stands on one line.
    fn type_of_reference(&mut self, reference: &str, level: usize) -> Type {
        let Some(target) = resolve(self.root, reference) else { return self.cut() };
        if !self.style.is_full {
            return if level > self.style.levels { self.cut() } else { self.type_of(target, level + 1) };
        }
        if is_small(target) {
            return self.type_of(target, level);
        }
        if let Some(known) = self.named.iter().find(|known| std::ptr::eq(known.target, target)) {
            return Type::atom(known.name.clone());
        }
        if self.named.len() >= MAX_NAMED {
            return self.cut();
        }
        let last = reference.rsplit(['/', '#']).next().unwrap_or_default();
        let title = target.get("title").and_then(Value::as_str).filter(|_| last.is_empty()).unwrap_or("Value");
        let word = type_name(if last.is_empty() { title } else { last });
        let base = format!("{}{word}", self.prefix);
        // A name that is empty, not valid in TypeScript or taken becomes one with a number.
        let is_taken = |name: &str| self.named.iter().any(|known| known.name == name);
        let is_name = |name: &str| name.starts_with(|it: char| it.is_ascii_alphabetic());
        let number = self.named.len() + 1;
        let free = Some(&base).filter(|base| is_name(&self.prefix) && !word.is_empty() && !is_taken(base)).cloned();
        let name = free.unwrap_or_else(|| format!("T{base}{number}"));
        self.named.push(Named { root: self.root, target, name: name.clone() });
        Type::atom(name)
    }

    /// Returns the comment over a member.
    fn comment(&self, schema: &'a Value) -> String {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|it| resolve(self.root, it));
        notes::comment_for(schema, target.filter(|target| is_small(target)))
    }
}
