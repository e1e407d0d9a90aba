//! Reads the operations of a document: names, paths and servers of tools, and which operations are left out.

use std::collections::HashSet;

use http::{HeaderName, Method};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Map, Value};
use url::Url;

use super::body::Body;
use super::choice::Choice;
use super::credential::Credentials;
use super::document::Document;
use super::error::{Flaw, LeftOut, Unusable};
use super::parameters::{Arguments, MAX_PARAMETERS, Parameter};
use super::place::Place;
use super::response;
use super::text::{identifier, shortened, string_member, unique_name};
use super::{MAX_OPERATION_BYTES, MAX_TOTAL_BYTES};
use host_client_core::tool::ToolSpec;
use host_client_core::tool::{Effect, Mode};

/// Maximum length of a description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1_000;
/// Maximum length of a path in descriptions and errors, in characters.
const MAX_LABEL_CHARS: usize = 200;
/// Maximum size of the schema of one operation's results, in bytes. Larger ones are left out.
const MAX_RESULT_BYTES: usize = 32 << 10;
/// Maximum size of the schemas of the results of all operations, in bytes: a relay gets them in one message with the
/// others.
const MAX_ALL_RESULTS_BYTES: usize = 2 << 20;
/// Maximum number of concurrent calls of one operation.
const CONCURRENCY: usize = 16;

/// Characters that are percent-encoded in the literal parts of a path.
const LITERAL: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`').add(b'{').add(b'}').add(b'\\').add(b'^');

/// Keys of a path's operations, with their methods.
const METHODS: [(&str, Method); 8] = [
    ("get", Method::GET),
    ("put", Method::PUT),
    ("post", Method::POST),
    ("delete", Method::DELETE),
    ("options", Method::OPTIONS),
    ("head", Method::HEAD),
    ("patch", Method::PATCH),
    ("trace", Method::TRACE),
];

/// Operation that can be called.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) spec: ToolSpec,
    pub(super) method: Method,
    /// Path as the document writes it, for errors.
    pub(super) template: String,
    pub(super) path: Vec<Piece>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    /// Security schemes whose credentials are sent.
    pub(super) schemes: Vec<String>,
    /// Header of the call's idempotency key; `None`: the key is not sent.
    pub(super) key: Option<HeaderName>,
}

/// Header in which calls send their idempotency keys.
#[derive(Debug, Clone)]
pub(super) struct KeyHeader {
    pub(super) header: HeaderName,
    /// `true`: all operations that change something take it; `false`: those for which the document says so.
    pub(super) is_for_all: bool,
}

/// Part of a path.
#[derive(Debug)]
pub(super) enum Piece {
    /// Literal text, percent-encoded.
    Literal(String),
    /// Value of the parameter with this index.
    Parameter(usize),
}

/// Operations of a document, callable or left out.
pub(super) struct Operations {
    pub(super) callable: Vec<Operation>,
    pub(super) left_out: Vec<LeftOut>,
}

/// Reader of the operations of a document.
pub(super) struct Reader<'a> {
    pub(super) document: &'a Document,
    /// Server that is called.
    pub(super) server: &'a Url,
    /// URL of the document; `None` if it came from a file or the application.
    pub(super) base: Option<&'a Url>,
    pub(super) credentials: &'a Credentials,
    /// Name of the server of tools, which is before the dot in a tool's name.
    pub(super) tools: &'a str,
    pub(super) choice: &'a Choice,
    pub(super) key: &'a KeyHeader,
    /// Maximum number of operations that are read.
    pub(super) most: usize,
}

/// Operation as the document writes it.
struct Written<'a> {
    template: &'a str,
    item: &'a Value,
    method: Method,
    operation: &'a Value,
}

impl Written<'_> {
    /// Returns the name of the operation's tool, without that of its server: its id, else its method and path.
    fn name(&self) -> String {
        let id = self.operation.get("operationId").and_then(Value::as_str).map(identifier);
        let method = self.method.as_str().to_lowercase();
        id.filter(|name| !name.is_empty()).unwrap_or_else(|| identifier(&format!("{method}_{}", self.template)))
    }
}

impl<'a> Reader<'a> {
    /// Reads the chosen operations, up to the limits of a document.
    ///
    /// # Errors
    /// [`Unusable::Choice`] with a tag or a pattern that no operation fits.
    pub(super) fn read(&self) -> Result<Operations, Unusable> {
        let mut found = Operations { callable: Vec::new(), left_out: Vec::new() };
        let mut names = HashSet::new();
        let mut left = MAX_TOTAL_BYTES;
        let mut left_for_results = MAX_ALL_RESULTS_BYTES;
        let mut fitting: HashSet<&String> = HashSet::new();
        let mut number = 0;
        for (label, written) in self.written() {
            let name = written.as_ref().ok().map(Written::name);
            let tool = name.as_ref().map(|name| format!("{}.{name}", self.tools));
            let operation = written.as_ref().map_or(&Value::Null, |written| written.operation);
            if let Some(by) = self.choice.fitting(name.as_deref().unwrap_or_default(), &label, operation) {
                if by.is_empty() {
                    found.left_out.push(LeftOut { operation: label, tool, reason: Flaw::NotChosen });
                    continue;
                }
                fitting.extend(by);
            }
            number += 1;
            if number > self.most {
                found.left_out.push(LeftOut { operation: label, tool, reason: Flaw::TooMany(self.most) });
                break;
            }
            let operation_of = operation;
            match written.and_then(|written| self.operation(&written, left)) {
                Ok((mut operation, bytes)) => {
                    left = left.saturating_sub(bytes);
                    let room = left_for_results.min(MAX_RESULT_BYTES);
                    if let Some((schema, bytes)) = response::schema(self.document, operation_of, room) {
                        left_for_results = left_for_results.saturating_sub(bytes);
                        operation.spec.output_schema = Some(schema);
                    }
                    let name = unique_name(&operation.spec.name, |name| names.contains(name));
                    operation.spec.name = format!("{}.{name}", self.tools);
                    names.insert(name);
                    found.callable.push(operation);
                }
                Err(reason) => {
                    let is_last_room = reason == Flaw::Size && left < MAX_OPERATION_BYTES;
                    let reason = if is_last_room { Flaw::TotalSize } else { reason };
                    found.left_out.push(LeftOut { operation: label, tool, reason });
                }
            }
        }
        match self.choice.all().find(|one| number <= self.most && !fitting.contains(one)) {
            Some(unfit) => Err(Unusable::Choice(unfit.clone())),
            None => Ok(found),
        }
    }

    /// Returns the operations that the document contains, each with its label for reports.
    fn written(&self) -> impl Iterator<Item = (String, Result<Written<'a>, Flaw>)> {
        let document = self.document;
        let paths = document.root().get("paths").and_then(Value::as_object);
        paths.into_iter().flatten().flat_map(|(template, item)| {
            let label = shortened(template, MAX_LABEL_CHARS);
            let item = match document.resolve(item) {
                Ok(item) => item,
                Err(reason) => return vec![(label, Err(reason))],
            };
            let read = |(key, method): (&str, Method)| {
                let operation = item.get(key)?;
                let label = format!("{method} {label}");
                let is_called = method != Method::TRACE;
                Some((label, is_called.then_some(Written { template, item, method, operation }).ok_or(Flaw::Method)))
            };
            METHODS.into_iter().filter_map(read).collect()
        })
    }

    /// Reads one operation. Its name is without the server's. Returns it with the size of its schema and description,
    /// in bytes. `left`: the bytes that the document may still take.
    ///
    /// # Errors
    /// The reason why it is left out.
    fn operation(&self, written: &Written<'a>, left: usize) -> Result<(Operation, usize), Flaw> {
        let name = written.name();
        let Written { template, item, ref method, operation: written } = *written;
        let members = written.as_object().ok_or(Flaw::Shape)?;
        self.check_server(item, written)?;
        let security = members.get("security").or_else(|| self.document.root().get("security"));
        let schemes = self.credentials.schemes(security)?;
        let room = left.min(MAX_OPERATION_BYTES);
        let mut arguments = Arguments::new(self.document, room);
        arguments.parameters(self.parameters(item, written)?, self.credentials, &self.key.header)?;
        // HTTP defines no meaning for a body with these methods.
        let takes_body = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let body = match members.get("requestBody") {
            Some(body) if takes_body => arguments.body(self.document.resolve(body)?)?,
            _ => None,
        };
        let path = pieces(template, &arguments.parameters)?;
        self.check_path(&path)?;
        let is_safe = is_safe(method);
        let key = (!is_safe && (arguments.takes_key || self.key.is_for_all)).then(|| self.key.header.clone());
        let description = description(method, template, members);
        let (parameters, schema, bytes) = arguments.finish(room)?;
        let mut spec = ToolSpec::new(name, description, schema)
            .effect(if is_safe { Effect::ReadOnly } else { Effect::Mutating })
            .mode(Mode::RestrictedRemote)
            .idempotent(key.is_some());
        spec.manifest.concurrency = Some(CONCURRENCY);
        let template = shortened(template, MAX_LABEL_CHARS);
        let bytes = bytes + spec.description.len();
        Ok((Operation { spec, method: method.clone(), template, path, parameters, body, schemes, key }, bytes))
    }

    /// Checks that the operation is on the selected server. An operation without `servers` is.
    fn check_server(&self, item: &Value, operation: &Value) -> Result<(), Flaw> {
        let own = [operation, item].into_iter().find(|holder| holder.get("servers").is_some());
        let is_here = own.is_none_or(|own| self.document.servers(own, self.base).contains(self.server));
        if is_here { Ok(()) } else { Err(Flaw::Server) }
    }

    /// Returns the parameters of an operation, and those of its path that it does not override.
    fn parameters(&self, item: &'a Value, operation: &'a Value) -> Result<Vec<&'a Value>, Flaw> {
        let mut seen = HashSet::new();
        let mut parameters = Vec::new();
        for holder in [operation, item] {
            let Some(written) = holder.get("parameters") else { continue };
            for parameter in written.as_array().ok_or(Flaw::Shape)? {
                let parameter = self.document.resolve(parameter)?;
                let key = (string_member(parameter, "name"), string_member(parameter, "in"));
                if seen.insert(key) {
                    parameters.push(parameter);
                }
                if parameters.len() > MAX_PARAMETERS {
                    return Err(Flaw::Size);
                }
            }
        }
        Ok(parameters)
    }

    /// Checks that the path stays as written in a URL: dot segments, for example, would lead elsewhere.
    fn check_path(&self, path: &[Piece]) -> Result<(), Flaw> {
        let filled: String = path
            .iter()
            .map(|piece| match piece {
                Piece::Literal(text) => text.as_str(),
                Piece::Parameter(_) => "x",
            })
            .collect();
        join(self.server, &filled).map(drop).ok_or(Flaw::Path)
    }
}

/// Returns the URL of a path on a server; `None` if parsing the URL would change the path.
pub(super) fn join(server: &Url, path: &str) -> Option<Url> {
    let prefix = server.path().trim_end_matches('/');
    let wanted = format!("{prefix}{path}");
    let mut url = server.clone();
    url.set_path(&wanted);
    (path.starts_with('/') && url.path() == wanted).then_some(url)
}

/// Splits a path template into its parts.
///
/// # Errors
/// [`Flaw::Path`] if a placeholder is not a path parameter, a path parameter has no placeholder, or there is a query or
/// a fragment.
fn pieces(template: &str, parameters: &[Parameter]) -> Result<Vec<Piece>, Flaw> {
    if !template.starts_with('/') || template.contains(['?', '#']) {
        return Err(Flaw::Path);
    }
    let literal = |text: &str| Piece::Literal(utf8_percent_encode(text, LITERAL).to_string());
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or(Flaw::Path)?;
        let index = parameters.iter().position(|it| it.place == Place::Path && it.name == name).ok_or(Flaw::Path)?;
        pieces.extend([literal(before), Piece::Parameter(index)]);
        rest = after;
    }
    pieces.push(literal(rest));
    let used = |index| pieces.iter().any(|piece| matches!(piece, Piece::Parameter(used) if *used == index));
    let all = parameters.iter().enumerate().all(|(index, it)| it.place != Place::Path || used(index));
    if all { Ok(pieces) } else { Err(Flaw::Path) }
}

/// Joins the summary and the description of an operation with its method and path.
fn description(method: &Method, template: &str, members: &Map<String, Value>) -> String {
    let part = |key: &str| members.get(key).and_then(Value::as_str).unwrap_or_default().trim();
    let (summary, long) = (part("summary"), part("description"));
    let both = if summary.is_empty() || summary == long { long.to_owned() } else { format!("{summary}\n{long}") };
    format!("{} ({method} {})", shortened(both.trim(), MAX_DESCRIPTION_CHARS), shortened(template, MAX_LABEL_CHARS))
        .trim()
        .to_owned()
}

/// Returns `true` if the method changes nothing on the server: GET, HEAD or OPTIONS.
pub(super) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}
