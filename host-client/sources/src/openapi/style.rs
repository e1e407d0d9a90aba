//! The serialization of arrays and objects in a request.

use serde_json::Value;

/// Serialization of an array or an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `a,b`, in paths, headers and cookies.
    Simple { explode: bool },
    /// `.a.b`, in paths.
    Label { explode: bool },
    /// `;name=a;name=b`, in paths.
    Matrix { explode: bool },
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

/// Returns the style of a query parameter or of a form's property.
pub(super) fn query_style(holder: &Value, style: Option<&str>) -> Result<Style, &'static str> {
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
