//! Makes objects of enums: the object stands before the program, and a short declaration in place of the enum.
//!
//! An object is longer than its enum. In place of the enum stand only its name and that of the object, never longer
//! than the enum was, so that the code behind it keeps its line and column.

use std::collections::HashSet;

use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::{Scoping, SemanticBuilder};
use oxc_syntax::constant_value::ConstantValue;
use oxc_syntax::scope::ScopeId;
use oxc_syntax::symbol::SymbolId;

use super::edits::{Edits, push_blank};
use super::refuse::{self, Refusal};
use super::vanish::vanishes;
use crate::error::SyntaxError;
use crate::json;
use crate::lines::is_break;
use crate::parse::index;

/// Maximum length in bytes of all declarations: members may repeat one long text many times.
const MAX_DECLARATION_BYTES: usize = 4 << 20;

const LET: &str = "let ";

/// Objects of a program's enums.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// Their declarations on one line, for the start of the module.
    pub(crate) declarations: String,
    names: HashSet<String>,
}

impl Objects {
    /// Returns whether a name is one of ours.
    pub(crate) fn is_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

/// Notes the changes for all enums of a program that run, and returns their objects.
///
/// # Errors
/// A [`SyntaxError`]: a member has no constant value, an enum is declared twice, or all together are too large.
pub(super) fn compile(program: &Program<'_>, text: &str, edits: &mut Edits<'_>) -> Result<Objects, SyntaxError> {
    let semantic = SemanticBuilder::new().with_enum_eval(true).build(program).semantic;
    let scoping = semantic.scoping();
    let mut enums = Enums {
        text,
        edits,
        scoping,
        unused: &mut unused_names(scoping),
        declared: HashSet::new(),
        objects: Objects::default(),
        refused: None,
    };
    enums.visit_program(program);
    match enums.refused {
        Some((refusal, at)) => Err(refusal.at(text, at)),
        None => Ok(enums.objects),
    }
}

/// Returns names of one UTF-16 code unit that the program does not use.
fn unused_names(scoping: &Scoping) -> impl Iterator<Item = char> {
    let unresolved = scoping.root_unresolved_references().keys().map(|name| name.as_str());
    let used = scoping.symbol_names().chain(unresolved);
    let used: HashSet<char> =
        used.filter_map(|name| name.chars().next().filter(|c| c.len_utf8() == name.len())).collect();
    // The second range is letters alone.
    let names = ['$', '_'].into_iter().chain('a'..='z').chain('A'..='Z').chain('\u{4E00}'..='\u{9FA5}');
    names.filter(move |name| !used.contains(name))
}

struct Enums<'w, 's> {
    text: &'w str,
    edits: &'w mut Edits<'s>,
    scoping: &'w Scoping,
    unused: &'w mut dyn Iterator<Item = char>,
    declared: HashSet<SymbolId>,
    objects: Objects,
    /// First syntax that is refused, and its place.
    refused: Option<(Refusal, usize)>,
}

impl<'a> Visit<'a> for Enums<'_, '_> {
    fn visit_statement(&mut self, statement: &Statement<'a>) {
        if !vanishes(statement) {
            walk::walk_statement(self, statement);
        }
    }

    fn visit_ts_enum_declaration(&mut self, it: &TSEnumDeclaration<'a>) {
        if self.refused.is_none()
            && let Err(refused) = self.hoist(it)
        {
            self.refused = Some(refused);
        }
    }
}

impl Enums<'_, '_> {
    fn hoist(&mut self, it: &TSEnumDeclaration<'_>) -> Result<(), (Refusal, usize)> {
        let start = index(it.span.start);
        if it.id.symbol_id.get().is_some_and(|id| !self.declared.insert(id)) {
            return Err((refuse::ENUM_TWICE, start));
        }
        let object = self.unused.next().ok_or((refuse::ENUMS_TOO_LARGE, start))?;
        let mut members = Vec::with_capacity(it.body.members.len());
        let mut bytes = self.objects.declarations.len();
        for member in &it.body.members {
            let at = index(member.span.start);
            let text = self.member(member, it.body.scope_id.get()).ok_or((refuse::ENUM_MEMBER, at))?;
            bytes += text.len() + 2;
            if bytes > MAX_DECLARATION_BYTES {
                return Err((refuse::ENUMS_TOO_LARGE, at));
            }
            members.push(text);
        }
        self.objects.declarations.push_str(&format!("const {object}={{{}}};", members.join(", ")));
        self.objects.names.insert(object.to_string());
        self.leave(it, object);
        Ok(())
    }

    /// Writes `let Color=object;` in place of an enum, which is never shorter, with the name in its old place if there
    /// is room. All of it is on the first line of the enum.
    ///
    /// `const` would be too long for `enum A{}`; TypeScript declares a `var`.
    fn leave(&mut self, it: &TSEnumDeclaration<'_>, object: char) {
        let width = |text: &str| text.encode_utf16().count();
        let (start, end) = (index(it.span.start), index(it.span.end));
        let whole = &self.text[start..end];
        let (first, rest) = whole.split_at(whole.find(is_break).unwrap_or(whole.len()));
        let before_name = first.get(..index(it.id.span.start) - start).map_or(0, width);
        let declared = format!("{}={object};", it.id.name);
        let room = width(first).saturating_sub(width(LET) + width(&declared));

        let mut text = LET.to_owned();
        let moved = room.min(before_name.saturating_sub(width(LET)));
        text.extend(std::iter::repeat_n(' ', moved));
        text.push_str(&declared);
        text.extend(std::iter::repeat_n(' ', room - moved));
        push_blank(&mut text, rest);
        self.edits.replace(start, end, text);
    }

    /// Writes the property of a member, and for a number also its name under the number.
    fn member(&self, member: &TSEnumMember<'_>, scope: Option<ScopeId>) -> Option<String> {
        let name = member.id.static_name();
        let symbol = self.scoping.get_binding(scope?, name.as_str().into())?;
        let mut text = String::new();
        match self.scoping.get_enum_member_value(symbol)? {
            ConstantValue::Number(number) => {
                let number = json::number_text(*number);
                push_property(&mut text, &name, &number);
                text.push_str(", ");
                push_property(&mut text, &number, &quoted(&name));
            }
            ConstantValue::String(value) => push_property(&mut text, &name, &quoted(value)),
        }
        Some(text)
    }
}

/// Returns a key in brackets, so that `__proto__` is a key like any other.
fn push_property(text: &mut String, key: &str, value: &str) {
    text.extend(["[", &quoted(key), "]: ", value]);
}

fn quoted(string: &str) -> String {
    let mut quoted = String::new();
    json::push_string(&mut quoted, string);
    quoted
}
