//! TypeScript declarations of tools, made from their JSON Schemas, for models that write code.
//!
//! A declaration is valid TypeScript for any schema, and of a bounded length: if the types are larger, deep ones are
//! left out, and a line says so.

mod keywords;
mod members;
mod notes;
mod text;
mod text_type;
mod types;

use std::fmt::Write as _;
use std::sync::Arc;

use relay_proto::sanitize;
use serde_json::{Map, Value};

use super::learn::Learned;
use super::uses::Uses;
use crate::tool::{Registered, ToolSpec, schema};
pub(crate) use text::comment_line;
use text::{description_lines, indented, quoted};
use text_type::Type;
use types::{Style, Types};

/// The most bytes of one declaration, 16 KiB.
pub const MAX_BYTES: usize = 16 << 10;
/// The most bytes of a signature with types. The names of server and tool are never cut.
const MAX_SIGNATURE_BYTES: usize = 400;
/// The numbers of levels of a value that are written out, in the order in which they are tried.
const LEVELS: [usize; 6] = [10, 6, 4, 3, 2, 1];
/// The numbers of levels, and the most members of an object, of a signature, in the order in which they are tried.
const SIGNATURES: [(usize, Option<usize>); 8] =
    [(3, None), (2, None), (3, Some(12)), (2, Some(8)), (2, Some(4)), (1, Some(8)), (1, Some(4)), (1, Some(2))];
/// The most levels of references and branches that are followed to find out if arguments are optional.
const MAX_DEPTH: usize = 20;
/// The most lines of a tool's description.
const MAX_DESCRIPTION_LINES: usize = 60;
/// The note on a declaration whose types are not complete; the number of levels follows.
const CUT_NOTE: &str = "Not all of its types are shown";

/// Returns the TypeScript declaration of a tool, of at most [`MAX_BYTES`].
///
/// ```
/// use host_client_core::ToolSpec;
/// use host_client_core::describe::declare::declaration;
///
/// let schema = serde_json::json!({
///     "type": "object",
///     "required": ["query"],
///     "properties": {
///         "query": {"type": "string", "description": "What to look for"},
///         "limit": {"type": "integer", "default": 10},
///     },
/// });
/// let expected = r#"declare namespace exa {
///   /**
///    * Searches the web.
///    *
///    * mcp.call("exa.search", args)
///    */
///   function search(args: {
///     /** What to look for */
///     query: string;
///     /** integer, default 10 */
///     limit?: number;
///   }): Promise<unknown>;
/// }
/// "#;
/// assert_eq!(declaration(&ToolSpec::new("exa.search", "Searches the web.", schema)), expected);
/// ```
pub fn declaration(spec: &ToolSpec) -> String {
    Declared::new(spec).write_within(MAX_BYTES)
}

/// Returns the TypeScript signature of a tool on one line, without comments:
/// `exa.search(args: { query: string; limit?: number }): Promise<unknown>`. Types are left out of one over 400 bytes.
pub fn signature(spec: &ToolSpec) -> String {
    Declared::new(spec).signature()
}

/// The writer of tools' declarations, which keeps the learned result types if learning is on.
#[derive(Clone, Default)]
pub(crate) struct Declarations {
    /// The learned result types; `None`: learning is off.
    learned: Option<Arc<Learned>>,
    /// Number of uses of each tool.
    uses: Arc<Uses>,
}

impl Declarations {
    /// Creates a writer. `learns` turns the learning of result types on.
    pub(crate) fn learning(learns: bool) -> Self {
        Self { learned: learns.then(Arc::default), uses: Arc::default() }
    }

    /// Counts a result, and learns its type unless learning is off or the tool has an output schema.
    pub(crate) fn learn(&self, tool: &Registered, json: &[u8]) {
        self.uses.count(tool.name.as_str());
        if let Some(learned) = self.learned.as_ref().filter(|_| tool.spec.output_schema.is_none()) {
            learned.observe(tool.name.as_str(), tool.digest, json);
        }
    }

    /// Returns how often a tool gave a result.
    pub(super) fn uses(&self, tool: &Registered) -> u64 {
        self.uses.of(tool.name.as_str())
    }

    /// Returns the learned schema of a tool's results, and the number of results; `None`: learning is off, the tool has
    /// an output schema, or there were no results.
    fn observed(&self, tool: &Registered) -> Option<(Value, u64)> {
        let learned = self.learned.as_ref().filter(|_| tool.spec.output_schema.is_none())?;
        learned.observed(tool.name.as_str(), tool.digest)
    }

    /// Returns the declaration of a tool in at most `most_bytes`, unless its name alone is longer.
    pub(crate) fn typescript(&self, tool: &Registered, most_bytes: usize) -> String {
        if let Some(observed) = &self.observed(tool) {
            return Declared::new(&tool.spec).with_observed(observed).write_within(most_bytes);
        }
        let full = tool.declared.declaration.get_or_init(|| declaration(&tool.spec));
        if full.len() <= most_bytes { full.clone() } else { Declared::new(&tool.spec).write_within(most_bytes) }
    }

    /// Returns `true` if a declaration shows all types.
    pub(crate) fn is_whole(declaration: &str) -> bool {
        !declaration.contains(CUT_NOTE)
    }

    /// Returns the signature of a tool on one line.
    pub(crate) fn signature(&self, tool: &Registered) -> String {
        match &self.observed(tool) {
            Some(observed) => Declared::new(&tool.spec).with_observed(observed).signature(),
            None => tool.declared.signature.get_or_init(|| signature(&tool.spec)).clone(),
        }
    }
}

/// A tool to be declared.
struct Declared<'a> {
    spec: &'a ToolSpec,
    /// The schema of the arguments; `None`: it is not usable.
    input: Option<&'a Value>,
    /// The schema of the result; `None`: there is none, or it is not usable.
    output: Option<&'a Value>,
    /// The number of results that `output` was learned from; `None`: it was declared.
    observed: Option<u64>,
}

impl<'a> Declared<'a> {
    /// Prepares a tool, and checks its schemas: one that refers to itself in a loop cannot be written out.
    fn new(spec: &'a ToolSpec) -> Self {
        let usable = |schema: &'a Value| schema::check(schema).is_ok().then_some(schema);
        let (input, output) = (usable(&spec.input_schema), spec.output_schema.as_ref().and_then(usable));
        Self { spec, input, output, observed: None }
    }

    /// Sets the schema that was learned from results, and their number.
    fn with_observed(self, (schema, times): &'a (Value, u64)) -> Self {
        Self { output: Some(schema), observed: Some(*times), ..self }
    }

    /// Returns the declaration with as many levels as fit into `most_bytes`; without types, and with a short
    /// description, if none fits.
    fn write_within(&self, most_bytes: usize) -> String {
        let mut text = String::new();
        for levels in LEVELS {
            let most_bytes = most_bytes.saturating_mul(2);
            text = self.write(Style { levels, is_full: true, most_bytes, most_members: None }, false);
            if text.len() <= most_bytes {
                return text;
            }
        }
        let bare = ToolSpec::new(&self.spec.name, comment_line(&self.spec.description), Value::Bool(true));
        let bare = Declared::new(&bare);
        let shorter = bare.write(Style { levels: 1, is_full: true, most_bytes, most_members: None }, true);
        if shorter.len() < text.len() { shorter } else { text }
    }

    /// Returns the signature on one line, without types if they do not fit.
    fn signature(&self) -> String {
        let (server, tool) = self.names();
        let write = |(levels, most_members)| {
            let style = Style { levels, is_full: false, most_bytes: 4 * MAX_SIGNATURE_BYTES, most_members };
            let mut types = Types::new(tool, style);
            let (arguments, result) = self.parameter_and_result(&mut types);
            let text = format!("{}.{}({arguments}): Promise<{result}>", sanitize(server), sanitize(tool));
            // Types that were cut because of their size leave a short text that says almost nothing: do not use it.
            (text.len() <= MAX_SIGNATURE_BYTES && !types.is_over()).then_some(text)
        };
        let fitting = SIGNATURES.into_iter().find_map(write);
        fitting.unwrap_or_else(|| format!("{}.{}(args: object): Promise<unknown>", sanitize(server), sanitize(tool)))
    }

    /// Returns the name of the server and that of the tool on it.
    fn names(&self) -> (&str, &str) {
        self.spec.name.split_once('.').unwrap_or(("", &self.spec.name))
    }

    /// Returns the declaration in a style. `is_cut` is `true` if types were left out before.
    fn write(&self, style: Style, is_cut: bool) -> String {
        let (server, tool) = self.names();
        let mut types = Types::new(tool, style);
        let (mut arguments, mut result) = self.parameter_and_result(&mut types);
        let named = types.named_types();
        // A schema that refers to itself as a whole got a name, and is written only under that.
        if let (Some(name), Some((parameter, _))) =
            (self.input.and_then(|root| types.name_of(root)), arguments.split_once(": "))
        {
            arguments = format!("{parameter}: {name}");
        }
        if let Some(name) = self.output.and_then(|root| types.name_of(root)) {
            name.clone_into(&mut result);
        }
        let mut text = format!("declare namespace {} {{\n", sanitize(server));
        for (comment, name, definition) in &named {
            let comment = if comment.is_empty() { String::new() } else { format!("  /** {comment} */\n") };
            let _ = writeln!(text, "{comment}  type {name} = {};", indented(definition));
        }
        text.push_str(&self.comment(types.is_cut || is_cut, style));
        let _ = writeln!(
            text,
            "  function {}({}): Promise<{}>;\n}}",
            sanitize(tool),
            indented(&arguments),
            indented(&result)
        );
        text
    }

    /// Returns the comment over the function: the description, the call, and notes on types that are cut or learned.
    fn comment(&self, is_cut: bool, Style { levels, most_bytes, .. }: Style) -> String {
        let mut text = String::from("  /**\n");
        let (start, mut lines) = (text.len(), description_lines(&self.spec.description));
        for line in lines.by_ref().take(MAX_DESCRIPTION_LINES) {
            let _ = writeln!(text, "   * {line}");
            // The style allows twice the bytes of the whole; half of the whole is left to the types.
            if text.len() - start > most_bytes / 4 {
                break;
            }
        }
        if lines.next().is_some() {
            text.push_str("   * …\n");
        }
        let _ = writeln!(text, "   *\n   * mcp.call({}, args)", comment_line(&quoted(&self.spec.name)));
        if is_cut {
            let _ = writeln!(text, "   * {CUT_NOTE} (to {levels} levels at most); its schemas say more.");
        }
        if let Some(times) = self.observed {
            let _ = writeln!(text, "   * @returns observed in {times} results, not promised");
        }
        text.push_str("   */\n");
        text
    }

    /// Returns the function's parameter, and the type of its result.
    fn parameter_and_result(&self, types: &mut Types<'a>) -> (String, String) {
        let parameter = match self.input {
            None => "args: Record<string, unknown>".to_owned(),
            Some(input) if has_no_members(input) => "args?: {}".to_owned(),
            Some(input) => {
                let mark = if accepts_empty_object(input, input, 0) { "?" } else { "" };
                let each = types.type_of_root(input);
                // Arguments are always an object, even if the schema does not say so.
                let text = if each == Type::unknown() { "Record<string, unknown>".to_owned() } else { each.text };
                format!("args{mark}: {text}")
            }
        };
        let result = self.output.map_or_else(Type::unknown, |output| types.type_of_root(output));
        (parameter, result.text)
    }
}

/// Returns `true` for the schema of a tool without arguments: an object without members.
fn has_no_members(schema: &Value) -> bool {
    let Some(members) = schema.as_object() else { return false };
    let is_empty = |keyword: &str| match members.get(keyword) {
        None | Some(Value::Bool(false)) => true,
        Some(Value::Object(inner)) => inner.is_empty() && keyword != "additionalProperties",
        Some(Value::Array(inner)) => inner.is_empty(),
        Some(_) => false,
    };
    let member_keywords = ["properties", "required", "additionalProperties", "patternProperties"];
    let other_keywords = ["$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "const", "enum"];
    members.get("type").is_some_and(|it| it == "object")
        && member_keywords.iter().all(|keyword| is_empty(keyword))
        && other_keywords.iter().all(|keyword| !members.contains_key(*keyword))
}

/// Returns `true` if `{}` fits a schema, as far as the common keywords tell.
fn accepts_empty_object(schema: &Value, root: &Value, depth: usize) -> bool {
    let Some(members) = schema.as_object().filter(|_| depth < MAX_DEPTH) else { return schema != &Value::Bool(false) };
    let accepts = |schema: &Value| accepts_empty_object(schema, root, depth + 1);
    let list = |keyword: &str| members.get(keyword).and_then(Value::as_array);
    let is_object = match members.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        _ => true,
    };
    let target = |members: &Map<String, Value>| schema::resolve(root, members.get("$ref")?.as_str()?).map(accepts);
    is_object
        && list("required").is_none_or(Vec::is_empty)
        && list("enum").is_none_or(|values| values.contains(&Value::Object(Map::new())))
        && members.get("const").is_none_or(|value| value.as_object().is_some_and(Map::is_empty))
        && members.get("minProperties").and_then(Value::as_u64).is_none_or(|least| least == 0)
        && target(members).unwrap_or(true)
        && list("allOf").is_none_or(|all| all.iter().all(accepts))
        && ["anyOf", "oneOf"].iter().all(|keyword| list(keyword).is_none_or(|any| any.iter().any(accepts)))
}
