//! Reads the parameters and the body of an operation: the place and the serialization of each.

use std::collections::BTreeMap;

use http::header::HeaderValue;
use serde_json::{Map, Value, json};

use super::credential::Credentials;
use super::document::Document;
use super::error::Flaw;
use super::place::{Place, place};
use super::schema::Translator;
use super::text::{shortened, string_member, unique_name};

/// Maximum number of parameters of one operation.
pub(super) const MAX_PARAMETERS: usize = 200;
/// Maximum length of a parameter's description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 300;
/// Media type of a form.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";
/// Name of the argument that holds the body.
pub(super) const BODY: &str = "body";

/// Parameter of an operation.
#[derive(Debug)]
pub(super) struct Parameter {
    /// Name of the tool's argument.
    pub(super) argument: String,
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) style: Style,
}

/// Serialization of an array or an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `a,b`, in paths and headers.
    Simple { explode: bool },
    /// `a=1&a=2`, or `a=1,2`.
    Form { explode: bool },
    /// `a=1%202`.
    SpaceDelimited,
    /// `a=1|2`.
    PipeDelimited,
    /// `a[x]=1`.
    DeepObject,
    /// A JSON text.
    Json,
}

/// Serialization of a body.
#[derive(Debug)]
pub(super) enum Body {
    Json(HeaderValue),
    /// A form, with the properties that have a style of their own.
    Form(BTreeMap<String, Style>),
}

/// Collector of the arguments of one operation.
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

    /// Adds parameters. Those that a credential sets, and optional ones that cannot be sent, are skipped.
    ///
    /// # Errors
    /// [`Flaw::Parameter`] for a required one that cannot be sent, or the flaw of its schema.
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
                schema.insert(
                    "description".into(),
                    shortened(text.as_str().unwrap_or_default(), MAX_DESCRIPTION_CHARS).into(),
                );
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

    /// Adds the body: JSON if the operation takes it, else a form. Returns `None` if it has no content.
    ///
    /// # Errors
    /// [`Flaw::Body`] if it is neither JSON nor a form, or the flaw of its schema.
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

    /// Returns the parameters, the schema of all arguments, and the bytes used of `room`.
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

/// Returns the style of a parameter and its schema; else the reason why it cannot be sent.
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

/// Returns the style of a query parameter or of a form's property.
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

/// Returns the styles of a form's properties that have one.
fn styles(content: &Value) -> BTreeMap<String, Style> {
    let encodings = content.get("encoding").and_then(Value::as_object).into_iter().flatten().take(MAX_PARAMETERS);
    let styled = encodings.filter_map(|(name, encoding)| {
        let style = encoding.get("style").and_then(Value::as_str)?;
        Some((name.clone(), query_style(encoding, Some(style)).ok()?))
    });
    styled.collect()
}

/// Returns `true` for `application/json` and media types that end in `+json`.
pub(super) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Returns a media type without its parameters, in lower case.
fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
