//! Reads the parameters of an operation: the place and the serialization of each.

use http::HeaderName;
use serde_json::{Map, Value, json};

use super::body::{self, Body, is_json};
use super::credential::Credentials;
use super::document::Document;
use super::error::Flaw;
use super::place::{Place, place};
use super::schema::Translator;
use super::style::{Style, query_style};
use super::text::{shortened, string_member, unique_name};

/// Maximum number of parameters of one operation.
pub(super) const MAX_PARAMETERS: usize = 200;
/// Maximum length of a parameter's description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 300;
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

/// Collector of the arguments of one operation.
pub(super) struct Arguments<'a> {
    translator: Translator<'a>,
    pub(super) parameters: Vec<Parameter>,
    /// `true`: the document has a parameter for the header of the idempotency key.
    pub(super) takes_key: bool,
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(document: &'a Document, room: usize) -> Self {
        let translator = Translator::new(document, room);
        Self { translator, parameters: Vec::new(), takes_key: false, properties: Map::new(), required: Vec::new() }
    }

    /// Adds parameters. Those that a credential sets, that of the idempotency key in the header `key`, and optional ones that
    /// cannot be sent, are skipped.
    ///
    /// # Errors
    /// [`Flaw::Parameter`] for a required one that cannot be sent, or the flaw of its schema.
    pub(super) fn parameters(
        &mut self,
        written: Vec<&'a Value>,
        credentials: &Credentials,
        key: &HeaderName,
    ) -> Result<(), Flaw> {
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
            if place == Place::Header(key.clone()) {
                self.takes_key = true;
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

    /// Adds the body. Returns `None` if it has no content.
    ///
    /// # Errors
    /// [`Flaw::Body`] if it cannot be sent, or the flaw of its schema.
    pub(super) fn body(&mut self, written: &'a Value) -> Result<Option<Body>, Flaw> {
        let Some((body, schema)) = body::read(&mut self.translator, written)? else { return Ok(None) };
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
    let explode = parameter.get("explode").and_then(Value::as_bool).unwrap_or(false);
    let style = match (place, parameter.get("style").and_then(Value::as_str)) {
        (Place::Query, style) => query_style(parameter, style)?,
        (Place::Path | Place::Header(_), None | Some("simple")) => Style::Simple { explode },
        (Place::Path, Some("label")) => Style::Label { explode },
        (Place::Path, Some("matrix")) => Style::Matrix { explode },
        (Place::Cookie, None | Some("form")) => Style::Simple { explode: false },
        _ => return Err("its style is not known here"),
    };
    Ok((style, schema))
}
