//! Recognizes code that is one tool call with literal arguments, which a host can make itself.
//!
//! Code is a shortcut only if its outcome in a sandbox is certain to be the same.

use memchr::memmem;
use oxc_allocator::Allocator;
use oxc_ast::ast::*;
use oxc_span::GetSpan as _;

use crate::fence::{self, Code, Fence, Marked};
use crate::json::{self, MAX_DEPTH};
use crate::literal::Literal;
use crate::parse;
use crate::{lines, scan, strip};

/// Maximum length in bytes of a source that can be a shortcut.
pub const MAX_SHORTCUT_BYTES: usize = scan::MAX_BYTES;

/// Effect of code that needs no sandbox. The caller has to check that the names are those of servers and tools.
#[derive(Debug, Clone, PartialEq)]
pub enum Shortcut {
    /// Calls one tool and returns its result.
    Call(LiteralCall),
    /// Returns the interfaces of all tools: `__interfaces`.
    Interfaces,
    /// Returns the interface of the tool of this name: `__getToolInterface("server.tool")`.
    ToolInterface(String),
}

/// Tool call with literal arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct LiteralCall {
    /// Tool that is called.
    pub callee: Callee,
    /// Arguments; an empty object if the code has none.
    pub arguments: Literal,
    /// Line and column of the call in the source, as the runtime gives them for an error of it: both counted from 1, the
    /// column in UTF-16 code units.
    pub place: (u32, u32),
}

/// Name of the tool in a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callee {
    /// `mcp.call("server.tool", …)`: the string, which may be no tool name.
    Named(String),
    /// `server.tool(…)` or `server["tool"](…)`, also behind `globalThis`: the names as in the code.
    Member {
        /// Name of the object.
        server: String,
        /// Name of its function.
        tool: String,
    },
}

/// Recognizes a shortcut; `None`: the code needs a sandbox. Safe for any text on a stack of 1 MiB: it checks size and
/// nesting before it parses.
///
/// ```
/// use relay_script::{Callee, Shortcut, shortcut};
///
/// let Some(Shortcut::Call(call)) = shortcut("return await mcp.call('files.read', {path: 'a'})") else { panic!() };
/// assert_eq!(call.callee, Callee::Named("files.read".into()));
/// assert_eq!(call.arguments.to_json(), br#"{"path":"a"}"#);
/// assert!(shortcut("return 1 + 1").is_none());
/// ```
#[must_use]
pub fn shortcut(source: &str) -> Option<Shortcut> {
    if source.len() > MAX_SHORTCUT_BYTES {
        return None;
    }
    let code = match fence::fenced(source) {
        Fence::None => Code { text: source, first_line: 0, marked: Marked::JavaScript },
        Fence::Code(code) => code,
        Fence::OtherLanguage { .. } => return None,
    };
    if !scan::may_be_a_call(code.text) || memmem::find(code.text.as_bytes(), b"```").is_some() {
        return None;
    }
    let allocator = Allocator::default();
    let javascript = match code.marked {
        Marked::JavaScript => parse::javascript(&allocator, code.text).ok(),
        Marked::TypeScript => None,
    };
    let program = match javascript.filter(|program| !strip::is_typescript(program)) {
        Some(program) => program,
        None => {
            let stripped = strip::strip(&allocator, code.text).ok()?;
            parse::javascript(&allocator, allocator.alloc_str(&stripped.text)).ok()?
        }
    };
    let mut shape = Shape { code, declared: Vec::new(), is_async: true };
    shape.program(&program).and_then(|expression| shape.action(expression))
}

/// Code around the call.
struct Shape<'t> {
    code: Code<'t>,
    /// Names that the code declares: of the function around the call, of the variable that takes its result.
    declared: Vec<&'t str>,
    /// `true`: the call may have an `await`.
    is_async: bool,
}

impl<'t> Shape<'t> {
    /// Finds the expression whose value is that of the program; `None`: there is none.
    fn program<'a>(&mut self, program: &'t Program<'a>) -> Option<&'t Expression<'a>> {
        if !program.directives.is_empty() {
            return None;
        }
        let statements = || program.body.iter().filter(|statement| !matches!(statement, Statement::EmptyStatement(_)));
        let (first, None) = (statements().next()?, statements().nth(1)) else { return self.body(&program.body) };
        match first {
            Statement::ExpressionStatement(only) => match bare(&only.expression) {
                Expression::ArrowFunctionExpression(arrow) => self.arrow(arrow),
                Expression::FunctionExpression(function) => self.function(function),
                expression => Some(expression),
            },
            Statement::FunctionDeclaration(function) => self.function(function),
            Statement::ExportDefaultDeclaration(export) => match &export.declaration {
                ExportDefaultDeclarationKind::FunctionDeclaration(function) => self.function(function),
                declaration => match bare(declaration.as_expression()?) {
                    Expression::ArrowFunctionExpression(arrow) => self.arrow(arrow),
                    Expression::FunctionExpression(function) => self.function(function),
                    _ => None,
                },
            },
            Statement::ExportDeclaration(export) => match &export.declaration {
                Declaration::FunctionDeclaration(function) if is_main(function) => self.function(function),
                _ => None,
            },
            _ => self.body(&program.body),
        }
    }

    fn function<'a>(&mut self, function: &'t Function<'a>) -> Option<&'t Expression<'a>> {
        if function.generator || !is_empty(&function.params) {
            return None;
        }
        self.is_async = function.r#async;
        if let Some(id) = &function.id {
            self.declare(id.name.as_str())?;
        }
        self.function_body(function.body.as_deref()?)
    }

    fn arrow<'a>(&mut self, arrow: &'t ArrowFunctionExpression<'a>) -> Option<&'t Expression<'a>> {
        if !is_empty(&arrow.params) {
            return None;
        }
        self.is_async = arrow.r#async;
        match &arrow.body {
            ArrowFunctionBody::FunctionBody(body) => self.function_body(body),
            body => body.as_expression(),
        }
    }

    fn function_body<'a>(&mut self, body: &'t FunctionBody<'a>) -> Option<&'t Expression<'a>> {
        if body.directives.is_empty() { self.body(&body.statements) } else { None }
    }

    /// Finds the expression of `return …`, or of a variable that is returned.
    fn body<'a>(&mut self, statements: &'t [Statement<'a>]) -> Option<&'t Expression<'a>> {
        let mut statements = statements.iter().filter(|statement| !matches!(statement, Statement::EmptyStatement(_)));
        match (statements.next()?, statements.next(), statements.next()) {
            (Statement::ReturnStatement(only), None, None) => only.argument.as_ref(),
            (Statement::VariableDeclaration(variables), Some(Statement::ReturnStatement(last)), None) => {
                let [variable] = variables.declarations.as_slice() else { return None };
                let is_plain = matches!(
                    variables.kind,
                    VariableDeclarationKind::Const | VariableDeclarationKind::Let | VariableDeclarationKind::Var
                );
                let (BindingPattern::BindingIdentifier(id), true) = (&variable.id, is_plain) else { return None };
                let Expression::Identifier(returned) = bare(last.argument.as_ref()?) else { return None };
                self.declare(id.name.as_str())?;
                if returned.name == id.name { variable.init.as_ref() } else { None }
            }
            _ => None,
        }
    }

    fn declare(&mut self, name: &'t str) -> Option<()> {
        (!is_reserved(name)).then(|| self.declared.push(name))
    }

    fn action(&self, expression: &Expression<'_>) -> Option<Shortcut> {
        let expression = match bare(expression) {
            Expression::AwaitExpression(_) if !self.is_async => return None,
            Expression::AwaitExpression(it) => bare(&it.argument),
            expression => expression,
        };
        if let Expression::Identifier(name) = expression {
            let is_ours = name.name == "__interfaces" && !self.declared.contains(&"__interfaces");
            return is_ours.then_some(Shortcut::Interfaces);
        }
        let Expression::CallExpression(call) = expression else { return None };
        if call.optional {
            return None;
        }
        let path = path(&call.callee)?;
        let root = *path.first()?;
        if self.declared.contains(&root) || is_reserved(root) {
            return None;
        }
        let names = if root == "globalThis" { &path[1..] } else { &path[..] };
        let (callee, arguments) = match (names, call.arguments.as_slice()) {
            (["__getToolInterface"], [name]) => return text_of(name).map(Shortcut::ToolInterface),
            (["mcp", "call"], [name, arguments @ ..]) => (Callee::Named(text_of(name)?), arguments),
            (["mcp" | "globalThis", _], _) => return None,
            ([server, tool], arguments) => {
                (Callee::Member { server: (*server).into(), tool: (*tool).into() }, arguments)
            }
            _ => return None,
        };
        let arguments = match arguments {
            [] => None,
            [only] => literal(only.as_expression()?, 0)?,
            _ => return None,
        };
        Some(Shortcut::Call(LiteralCall {
            callee,
            arguments: arguments.unwrap_or_else(|| Literal::Object(Vec::new())),
            place: self.place(call)?,
        }))
    }

    /// Returns the place of a call: that of the name before its parenthesis, else that of the parenthesis. `None`: it is
    /// not certain.
    fn place(&self, call: &CallExpression<'_>) -> Option<(u32, u32)> {
        let offset = match &call.callee {
            Expression::Identifier(name) => parse::index(name.span.start),
            Expression::StaticMemberExpression(member) => parse::index(member.property.span.start),
            callee => {
                let end = parse::index(callee.span().end);
                let rest = self.code.text.get(end..)?;
                let open = rest.find('(')?;
                rest[..open].trim().is_empty().then_some(end + open)?
            }
        };
        let (line, column) = lines::place(self.code.text, offset);
        Some((line + self.code.first_line, column))
    }
}

fn is_empty(parameters: &FormalParameters<'_>) -> bool {
    parameters.items.is_empty() && parameters.rest.is_none()
}

fn is_main(function: &Function<'_>) -> bool {
    function.id.as_ref().is_some_and(|id| id.name == "main")
}

/// Names that strict code may not declare, or that have a meaning of their own.
fn is_reserved(name: &str) -> bool {
    const RESERVED: [&str; 15] = [
        "arguments",
        "async",
        "await",
        "enum",
        "eval",
        "implements",
        "interface",
        "let",
        "package",
        "private",
        "protected",
        "public",
        "static",
        "undefined",
        "yield",
    ];
    RESERVED.contains(&name)
}

/// Removes the parentheses of an expression, which change nothing here.
fn bare<'e, 'a>(expression: &'e Expression<'a>) -> &'e Expression<'a> {
    expression.without_parentheses()
}

/// Returns the names of `a.b["c"]`; `None`: the expression is no such path.
pub(crate) fn path<'e>(callee: &'e Expression<'_>) -> Option<Vec<&'e str>> {
    const MAX_NAMES: usize = 4;
    let mut names = Vec::with_capacity(MAX_NAMES);
    let mut expression = bare(callee);
    loop {
        if names.len() == MAX_NAMES {
            return None;
        }
        match expression {
            Expression::Identifier(root) => {
                names.push(root.name.as_str());
                names.reverse();
                return Some(names);
            }
            Expression::StaticMemberExpression(member) if !member.optional => {
                names.push(member.property.name.as_str());
                expression = bare(&member.object);
            }
            Expression::ComputedMemberExpression(member) if !member.optional => {
                names.push(string(bare(&member.expression))?);
                expression = bare(&member.object);
            }
            _ => return None,
        }
    }
}

pub(crate) fn text_of(argument: &Argument<'_>) -> Option<String> {
    string(bare(argument.as_expression()?)).map(str::to_owned)
}

/// Returns the text of a string, or of a template without substitutions; `None`: the expression is neither.
fn string<'e>(expression: &'e Expression<'_>) -> Option<&'e str> {
    match expression {
        Expression::StringLiteral(it) => {
            let is_certain = !it.lone_surrogates && !has_legacy_escape(it.raw?.as_str());
            is_certain.then_some(it.value.as_str())
        }
        Expression::TemplateLiteral(it) => match (it.quasis.as_slice(), it.expressions.is_empty()) {
            ([only], true) if !only.lone_surrogates => only.value.cooked.as_ref().map(|text| text.as_str()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether there is an escape by digits other than `\0`, which strict code may not have.
fn has_legacy_escape(raw: &str) -> bool {
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' {
            match bytes.next() {
                Some(b'1'..=b'9') => return true,
                Some(b'0') if bytes.clone().next().is_some_and(|next| next.is_ascii_digit()) => return true,
                _ => {}
            }
        }
    }
    false
}

fn number(it: &NumericLiteral<'_>) -> Option<f64> {
    // Strict code has no `010`.
    let is_legacy = matches!(it.raw?.as_bytes(), [b'0', b'0'..=b'9' | b'_', ..]);
    (!is_legacy).then_some(it.value)
}

/// Returns the value of a literal expression. The inner `None` is `undefined`; the outer one: the value is not certain.
#[expect(clippy::option_option, reason = "two kinds of absence, which every caller tells apart")]
fn literal(expression: &Expression<'_>, depth: usize) -> Option<Option<Literal>> {
    if depth > MAX_DEPTH {
        return None;
    }
    Some(Some(match bare(expression) {
        Expression::Identifier(name) if name.name == "undefined" => return Some(None),
        Expression::NullLiteral(_) => Literal::Null,
        Expression::BooleanLiteral(it) => Literal::Bool(it.value),
        Expression::NumericLiteral(it) => Literal::Number(number(it)?),
        Expression::UnaryExpression(it) => match (it.operator, bare(&it.argument)) {
            (UnaryOperator::UnaryNegation, Expression::NumericLiteral(it)) => Literal::Number(-number(it)?),
            (UnaryOperator::UnaryPlus, Expression::NumericLiteral(it)) => Literal::Number(number(it)?),
            _ => return None,
        },
        Expression::ArrayExpression(array) if depth < MAX_DEPTH => {
            let value = |element: &ArrayExpressionElement<'_>| {
                literal(element.as_expression()?, depth + 1).map(|value| value.unwrap_or(Literal::Null))
            };
            Literal::Array(array.elements.iter().map(value).collect::<Option<_>>()?)
        }
        Expression::ObjectExpression(object) if depth < MAX_DEPTH => {
            let member = |property: &ObjectPropertyKind<'_>| match property {
                ObjectPropertyKind::ObjectProperty(property) => member(property, depth),
                ObjectPropertyKind::SpreadProperty(_) => None,
            };
            Literal::object(object.properties.iter().map(member).collect::<Option<_>>()?)
        }
        other => Literal::String(string(other)?.to_owned()),
    }))
}

fn member(property: &ObjectProperty<'_>, depth: usize) -> Option<(String, Option<Literal>)> {
    let is_plain = property.kind == PropertyKind::Init && !property.method && !property.shorthand && !property.computed;
    if !is_plain {
        return None;
    }
    let key = match &property.key {
        PropertyKey::StaticIdentifier(name) => name.name.to_string(),
        PropertyKey::StringLiteral(it) => {
            let is_certain = !it.lone_surrogates && !has_legacy_escape(it.raw?.as_str());
            is_certain.then(|| it.value.to_string())?
        }
        PropertyKey::NumericLiteral(it) => json::number_text(number(it)?),
        _ => return None,
    };
    // `__proto__` would set the prototype.
    if key == "__proto__" {
        return None;
    }
    Some((key, literal(&property.value, depth + 1)?))
}
