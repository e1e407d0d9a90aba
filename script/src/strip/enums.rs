//! Enums: each becomes an object, every member on the line where it stands.
//!
//! Text on the line of a member may move to the right; lines, and the columns on all other lines, stay.

use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::{Scoping, SemanticBuilder};
use oxc_syntax::constant_value::ConstantValue;
use oxc_syntax::scope::ScopeId;

use super::edits::Edits;
use super::refuse;
use super::vanish::vanishes;
use crate::error::SyntaxError;
use crate::json;
use crate::parse::index;

/// Notes the changes for all enums of a program that run.
///
/// # Errors
/// A member has no constant value.
pub(super) fn compile(program: &Program<'_>, text: &str, edits: &mut Edits<'_>) -> Result<(), SyntaxError> {
    let semantic = SemanticBuilder::new().with_enum_eval(true).build(program).semantic;
    let mut enums = Enums { text, edits, scoping: semantic.scoping(), not_constant: None };
    enums.visit_program(program);
    match enums.not_constant {
        Some(at) => Err(refuse::ENUM_MEMBER.at(text, at)),
        None => Ok(()),
    }
}

struct Enums<'w, 's> {
    text: &'w str,
    edits: &'w mut Edits<'s>,
    scoping: &'w Scoping,
    /// Where the first member stands whose value is not known.
    not_constant: Option<usize>,
}

impl<'a> Visit<'a> for Enums<'_, '_> {
    fn visit_statement(&mut self, statement: &Statement<'a>) {
        if !vanishes(statement) {
            walk::walk_statement(self, statement);
        }
    }

    fn visit_ts_enum_declaration(&mut self, it: &TSEnumDeclaration<'a>) {
        let (start, name, end) = (index(it.span.start), it.id.span, index(it.span.end));
        let breaks: String = self.text[start..index(name.start)].chars().filter(|c| *c == '\n').collect();
        self.edits.replace(start, index(name.start), format!("const {breaks}"));
        self.edits.replace(index(name.end), index(name.end), " =".into());
        for member in &it.body.members {
            match self.member(member, it.body.scope_id.get()) {
                Some(text) => self.edits.replace(index(member.span.start), index(member.span.end), text),
                None => drop(self.not_constant.get_or_insert(index(member.span.start))),
            }
        }
        // It was a declaration, which needs no semicolon.
        self.edits.replace(end, end, ";".into());
    }
}

impl Enums<'_, '_> {
    /// A member, and for a number its name under the number, as properties. Lines are kept.
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
        let lines = self.text[index(member.span.start)..index(member.span.end)].matches('\n').count();
        text.extend(std::iter::repeat_n('\n', lines));
        Some(text)
    }
}

/// In brackets, so that a member named `__proto__` is one.
fn push_property(text: &mut String, key: &str, value: &str) {
    text.extend(["[", &quoted(key), "]: ", value]);
}

fn quoted(string: &str) -> String {
    let mut quoted = String::new();
    json::push_string(&mut quoted, string);
    quoted
}
