//! What an operation takes: its parameters and its body, where each goes and how it is written.

use std::collections::BTreeMap;

use http::header::HeaderValue;
use serde_json::{Map, Value, json};

use super::credential::Credentials;
use super::document::Document;
use super::error::Flaw;
use super::place::{Place, place};
use super::schema::Translator;
use super::text::{shortened, string_member, unique_name};

/// The most parameters of one operation.
pub(super) const MAX_PARAMETERS: usize = 200;
/// The longest description of a parameter, in characters.
const MAX_DESCRIPTION: usize = 300;
/// The media type of a form.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";
/// The argument that holds the body.
pub(super) const BODY: &str = "body";

/// Where an argument goes.
#[derive(Debug)]
pub(super) struct Parameter {
    /// Its name among the arguments.
    pub(super) argument: String,
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) style: Style,
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

/// Collects what an operation takes.
pub(super) struct Arguments<'a> {
    translator: Translator<'a>,
    pub(super) parameters: Vec<Parameter>,
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(document: &'a Document, room: usize) -> Self {
        let translator = Translator::new(document, room);
        Self { translator, parameters: Vec::new(), properties: Map::new(), required: Vec::new() }
    }

    pub(super) fn parameters(&mut self, written: Vec<&'a Value>, credentials: &Credentials) -> Result<(), Flaw> {
        for parameter in written {
            let name = string_member(parameter, "name");
            let is_required = parameter.get("required").and_then(Value::as_bool) == Some(true);
            let flaw = |reason| Flaw::Parameter { name: shortened(name, 100), reason };
            let place = match place(parameter, name) {
                Ok(Some(place)) => place,
                Ok(None) => continue,
                Err(reason) if is_required => return Err(flaw(reason)),
                Err(_) => continue,
            };
            if credentials.set_parameter(&place, name) {
                continue;
            }
            let (style, schema) = match style(parameter, &place) {
                Ok(found) => found,
                Err(reason) if is_required => return Err(flaw(reason)),
                Err(_) => continue,
            };
            let mut schema = self.translator.schema(schema)?;
            if let (Value::Object(schema), Some(text)) = (&mut schema, parameter.get("description")) {
                schema
                    .insert("description".into(), shortened(text.as_str().unwrap_or_default(), MAX_DESCRIPTION).into());
            }
            let argument = unique_name(name, |name| name == BODY || self.properties.contains_key(name));
            if is_required || place == Place::Path {
                self.required.push(argument.clone());
            }
            self.properties.insert(argument.clone(), schema);
            self.parameters.push(Parameter { argument, name: name.to_owned(), place, style });
        }
        Ok(())
    }

    pub(super) fn body(&mut self, written: &'a Value) -> Result<Option<Body>, Flaw> {
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
    pub(super) fn finish(mut self, room: usize) -> Result<(Vec<Parameter>, Value, usize), Flaw> {
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

/// Whether a media type is JSON.
pub(super) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
