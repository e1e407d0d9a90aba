//! Chains of members such as `servers.exa.search`, and what the program does with them.

use oxc_ast::ast::*;
use oxc_span::{GetSpan, Span};

use super::Place;

/// Members of a name, as in `servers.exa.search({})`. Names of members are literal, also those in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Name before the first member.
    pub root: String,
    /// `true`: the program declares that name.
    pub is_declared: bool,
    /// Members, at least one and at most [`MAX_MEMBERS`](super::MAX_MEMBERS).
    pub members: Vec<Member>,
    /// Use of the last member.
    pub used: Used,
    /// Arguments that the last member is called with; [`Arguments::Other`] if it is not called.
    pub arguments: Arguments,
    /// `true`: it stands in the initializer of a variable that has the name of its root, as in `const a = a.b()`.
    pub in_own_initializer: bool,
}

/// Member that the program names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name of the member.
    pub name: String,
    /// End of what it is a member of.
    pub start: Place,
    /// End of the member, behind its name or the bracket that closes it.
    pub end: Place,
}

/// Use of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Used {
    /// It is called, whether or not it is there.
    Called,
    /// It is read, asked for (`?.`, `in`, `typeof`), or called only if it is there.
    Read,
    /// It is set.
    Assigned,
}

/// Arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arguments {
    /// Nothing.
    None,
    /// One object literal, as tools are.
    Object,
    /// Something else.
    Other,
}

/// Value of a call such as `exa.search({})`, or of a variable that holds it, that is used without an `await`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromiseUse {
    /// Name before the members of the call; the program does not declare it.
    pub root: String,
    /// Members of the call, at least one.
    pub members: Vec<String>,
    /// Use of its value.
    pub used: ChainUse,
    /// Start of the code that uses it.
    pub start: Place,
    /// End of that code.
    pub end: Place,
}

/// Use of the value of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainUse {
    /// It is iterated over, as by `for … of`, by `[...x]`, by `const [a] = x` or by `new Set(x)`.
    Iterated,
    /// It is given to `JSON.parse`.
    Parsed,
    /// Members of it are read, none of which is `then`, `catch` or `finally` at first.
    Members {
        /// Members, at least one.
        members: Vec<Member>,
        /// `true`: the last of them is called.
        called: bool,
    },
}

/// Members of an expression, as they stand in the code.
pub(super) struct Flat<'n, 'a> {
    /// Expression before the first member.
    pub(super) base: &'n Expression<'a>,
    /// Names in the order of the code, each with the text from the end of what it is a member of.
    pub(super) members: Vec<(&'n str, Span)>,
    /// `true`: one of the members is read only if what is before it is there.
    pub(super) is_optional: bool,
}

/// Takes an expression apart into its base and its members.
pub(super) fn flatten<'n, 'a>(expression: &'n Expression<'a>) -> Flat<'n, 'a> {
    let mut flat = Flat { base: expression, members: Vec::new(), is_optional: false };
    loop {
        flat.base = flat.base.without_parentheses();
        let step = match flat.base {
            Expression::StaticMemberExpression(member) => of_static(member),
            Expression::ComputedMemberExpression(member) => of_computed(member),
            Expression::ChainExpression(chain) => match &chain.expression {
                ChainElement::StaticMemberExpression(member) => of_static(member),
                ChainElement::ComputedMemberExpression(member) => of_computed(member),
                _ => None,
            },
            _ => None,
        };
        let Some((object, name, span, is_optional)) = step else { break };
        flat.base = object;
        flat.members.push((name, span));
        flat.is_optional |= is_optional;
    }
    flat.members.reverse();
    flat
}

type Step<'n, 'a> = Option<(&'n Expression<'a>, &'n str, Span, bool)>;

pub(super) fn of_static<'n, 'a>(member: &'n StaticMemberExpression<'a>) -> Step<'n, 'a> {
    let span = Span::new(member.object.span().end, member.span.end);
    Some((&member.object, member.property.name.as_str(), span, member.optional))
}

/// Returns `None` if the name of the member is not literal.
pub(super) fn of_computed<'n, 'a>(member: &'n ComputedMemberExpression<'a>) -> Step<'n, 'a> {
    let name = match &member.expression {
        Expression::StringLiteral(it) => it.value.as_str(),
        Expression::NumericLiteral(it) => it.raw.as_ref()?.as_str(),
        Expression::TemplateLiteral(it) => match (it.quasis.as_slice(), it.expressions.is_empty()) {
            ([only], true) => only.value.cooked.as_ref()?.as_str(),
            _ => return None,
        },
        _ => return None,
    };
    let span = Span::new(member.object.span().end, member.span.end);
    Some((&member.object, name, span, member.optional))
}
