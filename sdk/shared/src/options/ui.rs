//! The settings of a host's page.

use std::net::{Ipv4Addr, SocketAddr};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The settings of a host's page; a number is its port at 127.0.0.1, 0: a free one.
#[derive(Debug, Clone)]
pub struct UiOptions {
    /// The address at which it is served.
    pub listen: SocketAddr,
    /// The name of the person who decides, for journal and audit.
    pub by: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Members {
    #[serde(default = "free_port")]
    listen: SocketAddr,
    by: Option<String>,
}

fn free_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

impl<'de> Deserialize<'de> for UiOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Number(number) => {
                let port = number.as_u64().and_then(|number| u16::try_from(number).ok());
                let port =
                    port.ok_or_else(|| D::Error::custom(format!("the port {number} of ui is not in 0..=65535")))?;
                Ok(Self { listen: (Ipv4Addr::LOCALHOST, port).into(), by: None })
            }
            object @ Value::Object(_) => {
                let Members { listen, by } = Members::deserialize(object).map_err(D::Error::custom)?;
                Ok(Self { listen, by })
            }
            _ => Err(D::Error::custom("ui is a port, or an object with listen and by")),
        }
    }
}
