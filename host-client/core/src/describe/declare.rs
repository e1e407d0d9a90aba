//! Tools as TypeScript declares them, for a model that writes code: from their JSON Schemas, in few words.
//!
//! What comes out is valid TypeScript whatever the schemas are, and within a bound: where they are larger, the types of what
//! lies deep are left out, and a line says so.

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
use crate::tool::{Registered, ToolSpec, schema};
pub(crate) use text::comment as one_line;
use text::{comment, indented, quoted};
use text_type::Type;
use types::{Style, Types};

/// The most bytes of one declaration.
pub const MAX_BYTES: usize = 16 << 10;
/// The most bytes of one signature, about.
const MAX_SIGNATURE_BYTES: usize = 400;
/// How many levels of a value are written out, in the order in which they are tried.
const LEVELS: [usize; 6] = [10, 6, 4, 3, 2, 1];
/// How many lines of a tool's description are kept.
const MAX_LINES: usize = 12;

/// A tool as TypeScript declares it, in at most [`MAX_BYTES`]:
///
/// ```ts
/// declare namespace exa {
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
///   }): Promise<{ results: string[] }>;
/// }
/// ```
pub fn declaration(spec: &ToolSpec) -> String {
    Declared::new(spec).within(MAX_BYTES)
}

/// A tool's call on one line, without comments: `exa.search(args: { query: string; limit?: number }): Promise<unknown>`.
pub fn signature(spec: &ToolSpec) -> String {
    Declared::new(spec).signature()
}

/// Declares tools in TypeScript, with the shapes of their results where those are learnt.
#[derive(Clone, Default)]
pub(crate) struct Declarations {
    learned: Option<Arc<Learned>>,
}

impl Declarations {
    /// Creates declarations that learn the shapes of results, or do not.
    pub(crate) fn learning(learns: bool) -> Self {
        Self { learned: learns.then(Arc::default) }
    }

    /// Learns from a result, unless the tool declares its results.
    pub(crate) fn learn(&self, tool: &Registered, json: &[u8]) {
        if let Some(learned) = self.learned.as_ref().filter(|_| tool.spec.output_schema.is_none()) {
            learned.see(tool.name.as_str(), tool.digest, json);
        }
    }

    /// Returns the schema of the results that were seen and their number; `None`: the tool declares its results, none were
    /// seen, or nothing is learnt.
    fn observed(&self, tool: &Registered) -> Option<(Value, u64)> {
        let learned = self.learned.as_ref().filter(|_| tool.spec.output_schema.is_none())?;
        learned.of(tool.name.as_str(), tool.digest)
    }

    /// Declares a tool in at most so many bytes.
    pub(crate) fn typescript(&self, tool: &Registered, most_bytes: usize) -> String {
        if let Some(observed) = &self.observed(tool) {
            return Declared::new(&tool.spec).observed(observed).within(most_bytes);
        }
        let full = tool.declared.declaration.get_or_init(|| declaration(&tool.spec));
        if full.len() <= most_bytes { full.clone() } else { Declared::new(&tool.spec).within(most_bytes) }
    }

    /// Writes a tool's call on one line.
    pub(crate) fn signature(&self, tool: &Registered) -> String {
        match &self.observed(tool) {
            Some(observed) => Declared::new(&tool.spec).observed(observed).signature(),
            None => tool.declared.signature.get_or_init(|| signature(&tool.spec)).clone(),
        }
    }
}

/// A tool that is declared.
struct Declared<'a> {
    spec: &'a ToolSpec,
    /// Its schemas, where they are ones that can be followed.
    input: Option<&'a Value>,
    output: Option<&'a Value>,
    /// How many results were seen, where the schema of the output comes from them.
    observed: Option<u64>,
}

impl<'a> Declared<'a> {
    fn new(spec: &'a ToolSpec) -> Self {
        let usable = |schema: &'a Value| schema::check(schema).is_ok().then_some(schema);
        let (input, output) = (usable(&spec.input_schema), spec.output_schema.as_ref().and_then(usable));
        Self { spec, input, output, observed: None }
    }

    /// The same with what was seen of its results, and how often.
    fn observed(self, (schema, times): &'a (Value, u64)) -> Self {
        Self { output: Some(schema), observed: Some(*times), ..self }
    }

    /// The declaration in at most so many bytes, but with the name in any case.
    fn within(&self, most_bytes: usize) -> String {
        let mut text = String::new();
        for levels in LEVELS {
            text = self.written(Style { levels, is_full: true, most_bytes: most_bytes.saturating_mul(2) });
            if text.len() <= most_bytes {
                return text;
            }
        }
        let bare = ToolSpec::new(&self.spec.name, comment(&self.spec.description), Value::Bool(true));
        let bare = Declared::new(&bare);
        let shorter = bare.with_types(Style { levels: 1, is_full: true, most_bytes }, true);
        if shorter.len() < text.len() { shorter } else { text }
    }

    fn signature(&self) -> String {
        let (server, tool) = self.names();
        let written = |levels| {
            let style = Style { levels, is_full: false, most_bytes: 4 * MAX_SIGNATURE_BYTES };
            let mut types = Types::new(tool, style);
            let (arguments, result) = self.types(&mut types);
            format!("{}.{}({arguments}): Promise<{result}>", sanitize(server), sanitize(tool))
        };
        let texts = [3, 2, 1].into_iter().map(written);
        let fitting = texts.into_iter().find(|text| text.len() <= MAX_SIGNATURE_BYTES);
        fitting.unwrap_or_else(|| format!("{}.{}(args: object): Promise<unknown>", sanitize(server), sanitize(tool)))
    }

    fn names(&self) -> (&str, &str) {
        self.spec.name.split_once('.').unwrap_or(("", &self.spec.name))
    }

    fn written(&self, style: Style) -> String {
        self.with_types(style, false)
    }

    fn with_types(&self, style: Style, is_cut: bool) -> String {
        let (server, tool) = self.names();
        let mut types = Types::new(tool, style);
        let (mut arguments, mut result) = self.types(&mut types);
        let named = types.declared();
        // What refers to itself as a whole has a name, and is written once.
        if let (Some(name), Some((parameter, _))) =
            (self.input.and_then(|root| types.name_of(root)), arguments.split_once(": "))
        {
            arguments = format!("{parameter}: {name}");
        }
        if let Some(name) = self.output.and_then(|root| types.name_of(root)) {
            name.clone_into(&mut result);
        }
        let mut text = format!("declare namespace {} {{\n", sanitize(server));
        for (comment, name, of) in &named {
            let comment = if comment.is_empty() { String::new() } else { format!("  /** {comment} */\n") };
            let _ = writeln!(text, "{comment}  type {name} = {};", indented(of));
        }
        text.push_str(&self.comment(types.is_cut || is_cut, style.levels));
        let _ = writeln!(
            text,
            "  function {}({}): Promise<{}>;\n}}",
            sanitize(tool),
            indented(&arguments),
            indented(&result)
        );
        text
    }

    /// What stands over the function.
    fn comment(&self, is_cut: bool, levels: usize) -> String {
        let mut text = String::from("  /**\n");
        let lines = self.spec.description.lines().map(text::description).filter(|line| !line.is_empty());
        for line in lines.take(MAX_LINES) {
            let _ = writeln!(text, "   * {line}");
        }
        let _ = writeln!(text, "   *\n   * mcp.call({}, args)", comment(&quoted(&self.spec.name)));
        if is_cut {
            let _ = writeln!(
                text,
                "   * Not all of its types are shown (to {levels} levels at most); its schemas say more."
            );
        }
        if let Some(times) = self.observed {
            let _ = writeln!(text, "   * @returns observed in {times} results, not promised");
        }
        text.push_str("   */\n");
        text
    }

    /// The parameter and the result.
    fn types(&self, types: &mut Types<'a>) -> (String, String) {
        let parameter = match self.input {
            None => "args: Record<string, unknown>".to_owned(),
            Some(input) if has_no_members(input) => "args?: {}".to_owned(),
            Some(input) => {
                let mark = if takes_nothing(input, input, 0) { "?" } else { "" };
                let of = types.of_root(input);
                // Arguments are an object, whether the schema says it or not.
                let of = if of == Type::unknown() { "Record<string, unknown>".to_owned() } else { of.text };
                format!("args{mark}: {of}")
            }
        };
        let result = self.output.map_or_else(Type::unknown, |output| types.of_root(output));
        (parameter, result.text)
    }
}

/// Whether a schema is that of a tool without arguments.
fn has_no_members(schema: &Value) -> bool {
    let Some(members) = schema.as_object() else { return false };
    let is_empty = |keyword: &str| match members.get(keyword) {
        None | Some(Value::Bool(false)) => true,
        Some(Value::Object(inner)) => inner.is_empty() && keyword != "additionalProperties",
        Some(Value::Array(inner)) => inner.is_empty(),
        Some(_) => false,
    };
    let of_shape = ["properties", "required", "additionalProperties", "patternProperties"];
    let of_others = ["$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "const", "enum"];
    members.get("type").is_some_and(|it| it == "object")
        && of_shape.iter().all(|keyword| is_empty(keyword))
        && of_others.iter().all(|keyword| !members.contains_key(*keyword))
}

/// Whether `{}` fits, as far as its keywords say.
fn takes_nothing(schema: &Value, root: &Value, depth: usize) -> bool {
    let Some(members) = schema.as_object().filter(|_| depth < 20) else { return schema != &Value::Bool(false) };
    let takes = |schema: &Value| takes_nothing(schema, root, depth + 1);
    let list = |keyword: &str| members.get(keyword).and_then(Value::as_array);
    let is_object = match members.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        _ => true,
    };
    let target = |members: &Map<String, Value>| schema::resolve(root, members.get("$ref")?.as_str()?).map(takes);
    is_object
        && list("required").is_none_or(Vec::is_empty)
        && list("enum").is_none_or(|values| values.contains(&Value::Object(Map::new())))
        && members.get("const").is_none_or(|value| value.as_object().is_some_and(Map::is_empty))
        && members.get("minProperties").and_then(Value::as_u64).is_none_or(|least| least == 0)
        && target(members).unwrap_or(true)
        && list("allOf").is_none_or(|all| all.iter().all(takes))
        && ["anyOf", "oneOf"].iter().all(|keyword| list(keyword).is_none_or(|any| any.iter().any(takes)))
}
