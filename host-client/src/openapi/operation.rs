//! Operations of a document as tools: their names, their arguments, and where each argument goes.

use std::collections::{BTreeMap, HashSet};

use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Map, Value, json};
use url::Url;

use super::credential::Credentials;
use super::document::Document;
use super::error::{Flaw, LeftOut};
use super::schema::Translator;
use super::{MAX_OPERATION_BYTES, MAX_OPERATIONS, MAX_TOTAL_BYTES};
use crate::manifest::{Effect, Mode};
use crate::net;
use crate::tools::ToolSpec;

/// The longest tool's own name, in bytes.
const MAX_NAME: usize = 100;
/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 1_000;
/// The most parameters of one operation.
const MAX_PARAMETERS: usize = 200;
/// How many calls of one operation run at once.
const CONCURRENCY: usize = 16;
const FORM: &str = "application/x-www-form-urlencoded";
/// The argument that holds the body.
const BODY: &str = "body";

/// What cannot stand in a path as it is.
const LITERAL: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`').add(b'{').add(b'}').add(b'\\');

/// The methods of operations, as a path names them.
const METHODS: [(&str, Method); 7] = [
    ("get", Method::GET),
    ("put", Method::PUT),
    ("post", Method::POST),
    ("delete", Method::DELETE),
    ("options", Method::OPTIONS),
    ("head", Method::HEAD),
    ("patch", Method::PATCH),
];

/// An operation that can be called.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) spec: ToolSpec,
    pub(super) method: Method,
    /// As the document writes it, for errors.
    pub(super) template: String,
    pub(super) path: Vec<Piece>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    /// The security schemes whose credentials go along.
    pub(super) schemes: Vec<String>,
}

/// A part of a path.
#[derive(Debug)]
pub(super) enum Piece {
    /// As it stands, percent-encoded.
    Literal(String),
    /// The argument of this index among the parameters.
    Parameter(usize),
}

/// Where an argument goes.
#[derive(Debug)]
pub(super) struct Parameter {
    /// Its name among the arguments.
    pub(super) argument: String,
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) style: Style,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
    Header(HeaderName),
}

/// How a value that is more than one is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Commas, in paths and headers.
    Simple { explode: bool },
    /// `a=1&a=2`, or `a=1,2`.
    Form { explode: bool },
    /// `a=1%202`.
    SpaceDelimited,
    /// `a=1|2`.
    PipeDelimited,
    /// `a[x]=1`.
    DeepObject,
    /// JSON as a text.
    Json,
}

/// How a body is written.
#[derive(Debug)]
pub(super) enum Body {
    Json(HeaderValue),
    /// With the styles that some of its properties have.
    Form(BTreeMap<String, Style>),
}

/// The operations of a document on one server.
pub(super) struct Operations {
    pub(super) callable: Vec<Operation>,
    pub(super) left_out: Vec<LeftOut>,
}

/// What all operations of a document are read with.
struct Reader<'a> {
    document: &'a Document,
    server: &'a Url,
    base: Option<&'a Url>,
    credentials: &'a Credentials,
    tools: &'a str,
}

pub(super) fn read(
    document: &Document,
    server: &Url,
    base: Option<&Url>,
    credentials: &Credentials,
    tools: &str,
) -> Operations {
    let reader = Reader { document, server, base, credentials, tools };
    let mut found = Operations { callable: Vec::new(), left_out: Vec::new() };
    let mut names = HashSet::new();
    let mut left = MAX_TOTAL_BYTES;
    let paths = document.root().get("paths").and_then(Value::as_object);
    for (template, item) in paths.into_iter().flatten() {
        let label = |method: &str| format!("{method} {}", shortened(template, 200));
        let item = match document.resolve(item) {
            Ok(item) => item,
            Err(reason) => {
                found.left_out.push(LeftOut { operation: shortened(template, 200), reason });
                continue;
            }
        };
        if item.get("trace").is_some() {
            found.left_out.push(LeftOut { operation: label("TRACE"), reason: Flaw::Method });
        }
        for (key, method) in METHODS {
            let Some(written) = item.get(key) else { continue };
            if found.callable.len() + found.left_out.len() >= MAX_OPERATIONS {
                found.left_out.push(LeftOut { operation: label(method.as_str()), reason: Flaw::TooMany });
                return found;
            }
            let label = label(method.as_str());
            match reader.operation(template, item, method, written, left) {
                Ok((mut operation, bytes)) => {
                    left = left.saturating_sub(bytes);
                    let name = untaken(&operation.spec.name, |name| names.contains(name));
                    operation.spec.name = format!("{}.{name}", reader.tools);
                    names.insert(name);
                    found.callable.push(operation);
                }
                Err(Flaw::Size) if left < MAX_OPERATION_BYTES => {
                    found.left_out.push(LeftOut { operation: label, reason: Flaw::TotalSize });
                }
                Err(reason) => found.left_out.push(LeftOut { operation: label, reason }),
            }
        }
    }
    found
}

impl Reader<'_> {
    /// One operation, its name without the server's, and how many bytes there are to it.
    fn operation(
        &self,
        template: &str,
        item: &Value,
        method: Method,
        written: &Value,
        left: usize,
    ) -> Result<(Operation, usize), Flaw> {
        let members = written.as_object().ok_or(Flaw::Shape)?;
        self.check_server(item, written)?;
        let security = members.get("security").or_else(|| self.document.root().get("security"));
        let schemes = self.credentials.schemes(security)?;
        let room = left.min(MAX_OPERATION_BYTES);
        let mut arguments = Arguments::new(self.document, room);
        arguments.parameters(self.parameters(item, written)?, self.credentials)?;
        // What a body of these means, nobody has said.
        let takes_body = !matches!(method, Method::GET | Method::HEAD | Method::OPTIONS);
        let body = match members.get("requestBody") {
            Some(body) if takes_body => arguments.body(self.document.resolve(body)?)?,
            _ => None,
        };
        let path = pieces(template, &arguments.parameters)?;
        self.check_path(&path)?;
        let is_safe = is_safe(&method);
        let name = members.get("operationId").and_then(Value::as_str).map(word).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| word(&format!("{}_{template}", method.as_str().to_lowercase())));
        let description = description(&method, template, members);
        let (parameters, schema, bytes) = arguments.finish(room)?;
        let mut spec = ToolSpec::new(name, description, schema)
            .effect(if is_safe { Effect::ReadOnly } else { Effect::Mutating })
            .mode(Mode::RestrictedRemote);
        spec.manifest.concurrency = Some(CONCURRENCY);
        let template = shortened(template, 200);
        let bytes = bytes + spec.description.len();
        Ok((Operation { spec, method, template, path, parameters, body, schemes }, bytes))
    }

    /// Whether it is on the chosen server. One that says nothing is.
    fn check_server(&self, item: &Value, operation: &Value) -> Result<(), Flaw> {
        let own = [operation, item].into_iter().find(|holder| holder.get("servers").is_some());
        let is_here = own.is_none_or(|own| self.document.servers(own, self.base).contains(self.server));
        if is_here { Ok(()) } else { Err(Flaw::Server) }
    }

    /// The parameters of an operation and those of its path that it does not replace.
    fn parameters<'a>(&'a self, item: &'a Value, operation: &'a Value) -> Result<Vec<&'a Value>, Flaw> {
        let mut seen = HashSet::new();
        let mut parameters = Vec::new();
        for holder in [operation, item] {
            let Some(written) = holder.get("parameters") else { continue };
            for parameter in written.as_array().ok_or(Flaw::Shape)? {
                let parameter = self.document.resolve(parameter)?;
                let key = (text(parameter, "name"), text(parameter, "in"));
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

    /// A path with dot segments or the like would lead elsewhere.
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

/// The address of a path on a server; nothing if the path means anything but itself.
pub(super) fn join(server: &Url, path: &str) -> Option<Url> {
    let prefix = server.path().trim_end_matches('/');
    let wanted = format!("{prefix}{path}");
    let mut url = server.clone();
    url.set_path(&wanted);
    (path.starts_with('/') && url.path() == wanted).then_some(url)
}

/// Collects what an operation takes.
struct Arguments<'a> {
    translator: Translator<'a>,
    parameters: Vec<Parameter>,
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl<'a> Arguments<'a> {
    fn new(document: &'a Document, room: usize) -> Self {
        let translator = Translator::new(document, room);
        Self { translator, parameters: Vec::new(), properties: Map::new(), required: Vec::new() }
    }

    fn parameters(&mut self, written: Vec<&'a Value>, credentials: &Credentials) -> Result<(), Flaw> {
        for parameter in written {
            let name = text(parameter, "name");
            let is_required = parameter.get("required").and_then(Value::as_bool) == Some(true);
            let flaw = |reason| Flaw::Parameter { name: shortened(name, 100), reason };
            let place = match place(parameter, name) {
                Ok(Some(place)) => place,
                Ok(None) => continue,
                Err(reason) if is_required => return Err(flaw(reason)),
                Err(_) => continue,
            };
            if credentials.fill(&place, name) {
                continue;
            }
            let (style, schema) = match style(parameter, &place) {
                Ok(found) => found,
                Err(reason) if is_required => return Err(flaw(reason)),
                Err(_) => continue,
            };
            let mut schema = self.translator.schema(schema)?;
            if let (Value::Object(schema), Some(text)) = (&mut schema, parameter.get("description")) {
                schema.insert("description".into(), shortened(text.as_str().unwrap_or_default(), 300).into());
            }
            let argument = untaken(name, |name| name == BODY || self.properties.contains_key(name));
            if is_required || place == Place::Path {
                self.required.push(argument.clone());
            }
            self.properties.insert(argument.clone(), schema);
            self.parameters.push(Parameter { argument, name: name.to_owned(), place, style });
        }
        Ok(())
    }

    fn body(&mut self, written: &'a Value) -> Result<Option<Body>, Flaw> {
        let Some(content) = written.get("content").and_then(Value::as_object) else { return Ok(None) };
        let json = content.iter().find(|(media_type, _)| is_json(media_type));
        let form = content.iter().find(|(media_type, _)| essence(media_type) == FORM);
        let (body, content) = match (json, form) {
            (Some((media_type, content)), _) => {
                let media_type = HeaderValue::from_str(&essence(media_type)).map_err(|_| Flaw::Shape)?;
                (Body::Json(media_type), content)
            }
            (None, Some((_, content))) => (Body::Form(styles(content)), content),
            (None, None) => {
                let named: Vec<&str> = content.keys().take(5).map(String::as_str).collect();
                return Err(Flaw::Body(shortened(&named.join(", "), 200)));
            }
        };
        let schema = match content.get("schema") {
            Some(schema) => self.translator.schema(schema)?,
            None => json!({}),
        };
        self.properties.insert(BODY.into(), schema);
        if written.get("required").and_then(Value::as_bool) == Some(true) {
            self.required.push(BODY.into());
        }
        Ok(Some(body))
    }

    /// The parameters, the schema of all arguments, and how many bytes there are to it.
    fn finish(mut self, room: usize) -> Result<(Vec<Parameter>, Value, usize), Flaw> {
        let definitions = self.translator.definitions()?;
        let mut schema = json!({
            "type": "object",
            "properties": self.properties,
            "required": self.required,
            "additionalProperties": false,
        });
        if !definitions.is_empty() {
            schema["$defs"] = Value::Object(definitions);
        }
        Ok((self.parameters, schema, room - self.translator.left()))
    }
}

/// Where a parameter goes; nothing for one that is set elsewhere.
fn place(parameter: &Value, name: &str) -> Result<Option<Place>, &'static str> {
    match text(parameter, "in") {
        "path" => Ok(Some(Place::Path)),
        "query" if !name.is_empty() => Ok(Some(Place::Query)),
        "header" => {
            let name = HeaderName::try_from(name).map_err(|_| "it is no header")?;
            if [ACCEPT, AUTHORIZATION, CONTENT_TYPE].contains(&name) {
                return Ok(None);
            }
            if net::is_reserved_header(&name) {
                Err("the header is not for code to set")
            } else {
                Ok(Some(Place::Header(name)))
            }
        }
        "cookie" => Err("cookies are not sent"),
        _ => Err("it is in no place that is known"),
    }
}

/// How a parameter is written, and its schema.
fn style<'a>(parameter: &'a Value, place: &Place) -> Result<(Style, &'a Value), &'static str> {
    if let Some(content) = parameter.get("content").and_then(Value::as_object) {
        let json = content.iter().find(|(media_type, _)| is_json(media_type));
        let (_, content) = json.ok_or("it is no JSON")?;
        return Ok((Style::Json, content.get("schema").unwrap_or(&Value::Bool(true))));
    }
    let schema = parameter.get("schema").unwrap_or(&Value::Bool(true));
    let style = match (place, parameter.get("style").and_then(Value::as_str)) {
        (Place::Query, style) => query_style(parameter, style)?,
        (Place::Path | Place::Header(_), None | Some("simple")) => {
            Style::Simple { explode: parameter.get("explode").and_then(Value::as_bool).unwrap_or(false) }
        }
        _ => return Err("its style is not known here"),
    };
    Ok((style, schema))
}

fn query_style(holder: &Value, style: Option<&str>) -> Result<Style, &'static str> {
    let explode = holder.get("explode").and_then(Value::as_bool);
    match (style, explode) {
        (None | Some("form"), explode) => Ok(Style::Form { explode: explode.unwrap_or(true) }),
        (Some("spaceDelimited" | "pipeDelimited"), Some(true)) => Ok(Style::Form { explode: true }),
        (Some("spaceDelimited"), _) => Ok(Style::SpaceDelimited),
        (Some("pipeDelimited"), _) => Ok(Style::PipeDelimited),
        (Some("deepObject"), _) => Ok(Style::DeepObject),
        _ => Err("its style is not known here"),
    }
}

/// The styles that a form gives its properties.
fn styles(content: &Value) -> BTreeMap<String, Style> {
    let encodings = content.get("encoding").and_then(Value::as_object).into_iter().flatten().take(MAX_PARAMETERS);
    let styled = encodings.filter_map(|(name, encoding)| {
        let style = encoding.get("style").and_then(Value::as_str)?;
        Some((name.clone(), query_style(encoding, Some(style)).ok()?))
    });
    styled.collect()
}

/// A path's parts. Every parameter of the path is in it, and all that is in it are parameters.
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

fn description(method: &Method, template: &str, members: &Map<String, Value>) -> String {
    let part = |key: &str| members.get(key).and_then(Value::as_str).unwrap_or_default().trim();
    let (summary, long) = (part("summary"), part("description"));
    let both = if summary.is_empty() || summary == long { long.to_owned() } else { format!("{summary}\n{long}") };
    format!("{} ({method} {})", shortened(both.trim(), MAX_DESCRIPTION), shortened(template, 200)).trim().to_owned()
}

/// A name of letters, digits and `_`, other characters in runs as one `_`.
pub(super) fn word(text: &str) -> String {
    let mut word = String::new();
    for character in text.chars() {
        if word.len() >= MAX_NAME {
            break;
        }
        if character.is_ascii_alphanumeric() {
            word.push(character);
        } else if !word.is_empty() && !word.ends_with('_') {
            word.push('_');
        }
    }
    word.trim_end_matches('_').to_owned()
}

/// This name, or the first with a number after it that is not taken.
pub(super) fn untaken(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut candidate = name.to_owned();
    let mut number = 1_usize;
    while candidate.is_empty() || is_taken(&candidate) {
        number += 1;
        candidate = format!("{name}_{number}");
    }
    candidate
}

/// Whether nothing changes when it is asked.
pub(super) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Whether a media type is JSON.
pub(super) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn shortened(text: &str, characters: usize) -> String {
    text.chars().filter(|character| !character.is_control() || *character == '\n').take(characters).collect()
}
