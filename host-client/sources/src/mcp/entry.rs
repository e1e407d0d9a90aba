//! JSON of a configuration before it is checked, with duplicate keys kept.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::expand::expand;
use super::problem::ServerProblem;

/// JSON object that keeps duplicate members, in the order of the file.
pub(super) struct Members(pub(super) Vec<(String, Node)>);

/// JSON value: an object with all its members, or any other value.
#[derive(serde::Deserialize)]
#[serde(untagged)]
pub(super) enum Node {
    Object(Members),
    Other(Value),
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

impl Members {
    /// Returns the members by key.
    ///
    /// # Errors
    /// [`ServerProblem::Twice`] for a duplicate key.
    pub(super) fn by_key(&self) -> Result<BTreeMap<&str, &Node>, ServerProblem> {
        let mut by_key = BTreeMap::new();
        for (key, node) in &self.0 {
            if by_key.insert(key.as_str(), node).is_some() {
                return Err(ServerProblem::Twice(key.clone()));
            }
        }
        Ok(by_key)
    }
}

impl Node {
    /// Describes a server by its program or URL for an error message, before its entry is checked.
    pub(super) fn summary(&self) -> String {
        let Self::Object(members) = self else { return "no object".into() };
        let text = |key: &str| {
            members.0.iter().find_map(|(name, node)| match node {
                Self::Other(Value::String(text)) if name == key => Some(text.as_str()),
                _ => None,
            })
        };
        match (text("command"), text("url")) {
            (Some(command), _) => format!("the program {command:?}"),
            (None, Some(url)) => format!("the address {url:?}"),
            (None, None) => "one without command and url".into(),
        }
    }

    /// Returns a string with its variables replaced; `None` for `null`.
    ///
    /// # Errors
    /// [`ServerProblem::Expand`] and [`ServerProblem::WrongType`], with `key`.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, ServerProblem> {
        match self {
            Self::Other(Value::Null) => Ok(None),
            Self::Other(Value::String(text)) => {
                let expanded = expand(text, |name| std::env::var(name).ok());
                expanded.map(Some).map_err(|error| ServerProblem::Expand { key: key.to_owned(), error })
            }
            _ => Err(ServerProblem::WrongType { key: key.to_owned(), expected: "a text" }),
        }
    }

    /// Returns an array of strings with their variables replaced; empty for `null`.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, ServerProblem> {
        let wrong = || ServerProblem::WrongType { key: key.to_owned(), expected: "an array of texts" };
        match self {
            Self::Other(Value::Null) => Ok(Vec::new()),
            Self::Other(Value::Array(items)) => {
                let texts = items.iter().enumerate().map(|(index, item)| {
                    let text = Self::Other(item.clone()).text(&format!("{key}[{index}]"))?;
                    text.ok_or_else(wrong)
                });
                texts.collect()
            }
            _ => Err(wrong()),
        }
    }

    /// Returns an object of strings with their variables replaced; empty for `null`.
    pub(super) fn text_members(&self, key: &str) -> Result<BTreeMap<String, String>, ServerProblem> {
        let wrong = || ServerProblem::WrongType { key: key.to_owned(), expected: "an object of texts" };
        match self {
            Self::Other(Value::Null) => Ok(BTreeMap::new()),
            Self::Object(members) => {
                let members = members.by_key()?;
                let texts = members.iter().map(|(name, node)| {
                    let text = node.text(&format!("{key}.{name}"))?;
                    Ok(((*name).to_owned(), text.ok_or_else(wrong)?))
                });
                texts.collect()
            }
            Self::Other(_) => Err(wrong()),
        }
    }
}
