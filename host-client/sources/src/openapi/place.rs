//! The place of a parameter in a request: path, query, header or cookie.

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName};
use serde_json::Value;

use super::text::string_member;
use crate::net;

/// Place of a parameter in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
    Header(HeaderName),
    Cookie,
}

/// Returns the place of a parameter; `None` for headers that are set elsewhere (`accept`, `authorization`,
/// `content-type`); else the reason why it cannot be sent.
pub(super) fn place(parameter: &Value, name: &str) -> Result<Option<Place>, &'static str> {
    match string_member(parameter, "in") {
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
        "cookie" if is_cookie_text(name) && !name.contains('=') && !name.is_empty() => Ok(Some(Place::Cookie)),
        "cookie" => Err("a cookie cannot have this name"),
        _ => Err("it is in no place that is known"),
    }
}

/// Returns `true` if a cookie's name or value may have these characters.
pub(super) fn is_cookie_text(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() && !b";,\"\\".contains(&byte))
}
