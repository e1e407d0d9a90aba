//! The types of objects.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::keywords::{is_small, strings};
use super::super::members::{MAX_WIDTH_BYTES, Members, OtherMembers};
use super::super::text::{comment_line, property};
use super::super::text_type::{Type, union};
use super::{MAX_LITERAL_BYTES, MAX_MEMBERS, MAX_TUPLE, Types};

impl<'a> Types<'a> {
    /// Returns the type of an object: required members first, then optional ones, then an index for all others.
    pub(super) fn type_of_object(&mut self, keywords: &'a Map<String, Value>, level: usize) -> Type {
        let is_plain_map = !keywords.contains_key("properties")
            && !keywords.contains_key("patternProperties")
            && keywords.get("additionalProperties").is_some_and(is_small);
        if level >= self.style.levels && !is_plain_map {
            return self.cut();
        }
        let enclosing = std::mem::take(&mut self.enclosing);
        let properties = keywords.get("properties").and_then(Value::as_object);
        let required: BTreeSet<&str> = strings(keywords.get("required")).collect();
        let mut members = Members::default();
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for (name, schema) in properties.into_iter().flatten() {
            let list = if required.contains(name.as_str()) { &mut first } else { &mut others };
            list.push((name.as_str(), Some(schema)));
        }
        let is_property = |name: &&str| properties.is_some_and(|properties| properties.contains_key(*name));
        let missing = required.iter().copied().filter(|name| !is_property(name)).take(MAX_MEMBERS + 1);
        // In the author's order: what stands first in `required` is mostly what matters.
        first.sort_by_key(|(name, _)| strings(keywords.get("required")).take(MAX_MEMBERS).position(|it| it == *name));
        // A branch may require a member whose type an enclosing schema describes.
        first.extend(missing.map(|name| (name, enclosing.iter().rev().find_map(|known| known.get(name)))));
        let (needed, all) = (first.len(), first.len() + others.len());
        for (number, (name, schema)) in first.into_iter().chain(others).take(self.style.most_members()).enumerate() {
            if name.len() > MAX_LITERAL_BYTES {
                continue;
            }
            let each = schema.map_or_else(Type::unknown, |schema| self.type_of(schema, level + 1));
            let comment = schema.filter(|_| self.style.is_full).map(|it| self.comment(it)).unwrap_or_default();
            let is_optional = number >= needed;
            if !self.spend(name.len() + each.text.len().min(MAX_LITERAL_BYTES) + comment.len()) {
                self.is_cut = true;
                break;
            }
            members.add(&property(name), is_optional, each, comment);
        }
        let hidden = all - members.lines.len();
        if hidden > 0 {
            self.is_cut = true;
            members.set_left_out(hidden);
        }
        let others = self.other_members(keywords, &members, level);
        self.enclosing = enclosing;
        members.finish(others, self.style.is_full)
    }

    /// Returns the type of the members that are not named, if the schema describes them.
    fn other_members(&mut self, keywords: &'a Map<String, Value>, members: &Members, level: usize) -> OtherMembers {
        let patterns = keywords.get("patternProperties").and_then(Value::as_object).filter(|it| !it.is_empty());
        let named_before = self.named.len();
        let mut types = Vec::new();
        let mut comment = String::new();
        match keywords.get("additionalProperties") {
            Some(Value::Bool(false)) if patterns.is_none() => return OtherMembers::Unspecified,
            Some(Value::Bool(false)) => {}
            None if patterns.is_none() && !members.lines.is_empty() => return OtherMembers::Unspecified,
            None | Some(Value::Bool(true)) => types.push(Type::unknown()),
            Some(schema) => {
                comment = self.comment(schema);
                types.push(self.type_of(schema, level + 1));
            }
        }
        for (pattern, schema) in patterns.into_iter().flatten().take(MAX_TUPLE) {
            comment = comment_line(&format!("{comment} keys that match {pattern:.60}"));
            types.push(self.type_of(schema, level + 1));
        }
        if patterns.is_some_and(|patterns| patterns.len() > MAX_TUPLE) {
            types.push(self.cut());
        }
        // In TypeScript, an index signature covers the named members, too.
        types.extend(members.types.iter().cloned());
        if members.has_optional {
            types.push(Type::atom("undefined"));
        }
        let mut whole = union(types);
        if !members.lines.is_empty() && whole.text.len() > MAX_WIDTH_BYTES {
            whole = Type::unknown();
        }
        // TypeScript refuses `type A = Record<string, A>`: a type that may contain a declared name gets an index signature.
        let has_no_names = self.named.len() == named_before && !whole.text.contains(&*self.prefix);
        if members.lines.is_empty() && (has_no_names || !self.style.is_full) && comment.is_empty() {
            return OtherMembers::Record(whole);
        }
        OtherMembers::Index(whole, comment)
    }
}
