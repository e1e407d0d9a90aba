//! The address of the server, and its TLS settings.

use std::net::IpAddr;
use std::time::Duration;

use host_client_core::JournalError;
use host_client_core::tls::client_config;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::form_urlencoded;

/// The timeout of one attempt to connect, unless the address sets `connect_timeout`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for which sent data may stay unacknowledged by the server's machine, unless the address sets
/// `tcp_user_timeout`.
const SILENCE: Duration = Duration::from_secs(30);

/// The server, the user and the database.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    /// The TLS connector; `None`: no TLS.
    pub(super) tls: Option<MakeRustlsConnect>,
}

impl Address {
    /// Parses an address in one of the forms that `psql` takes. `authorities` are in PEM.
    ///
    /// # Errors
    /// [`JournalError::Unavailable`]: it is invalid, or the authorities cannot be used.
    pub(super) fn parse(text: &str, authorities: Option<&[u8]>) -> Result<Self, JournalError> {
        let (text, file) = without_own_parameters(text);
        let mut config: Config =
            text.parse().map_err(|error| JournalError::Unavailable(format!("its address cannot be read: {error}")))?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        if config.get_application_name().is_none() {
            config.application_name("host-client-journal");
        }
        // TLS that is used only if the server offers it protects against no attacker.
        let is_wanted = match config.get_ssl_mode() {
            SslMode::Disable => false,
            SslMode::Prefer => !is_local(&config),
            _ => true,
        };
        config.ssl_mode(if is_wanted { SslMode::Require } else { SslMode::Disable });
        let tls = if is_wanted { Some(connector(file.as_deref(), authorities)?) } else { None };
        Ok(Self { config, tls })
    }
}

/// Tells whether a text is the URL of a Postgres database.
pub(crate) fn is_address(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

/// Removes the parameters from an address that `psql` knows and the library does not: `sslrootcert`, and the values of
/// `sslmode` that verify certificates, which this crate always does. Returns the rest, and the file of the authorities.
fn without_own_parameters(text: &str) -> (String, Option<String>) {
    let Some((base, query)) = text.split_once('?').filter(|_| is_address(text)) else {
        return (text.to_owned(), None);
    };
    let mut file = None;
    let mut rest = form_urlencoded::Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match (&*name, &*value) {
            ("sslrootcert", "system") => {}
            ("sslrootcert", path) => file = Some(path.to_owned()),
            ("sslmode", "verify-ca" | "verify-full") => drop(rest.append_pair("sslmode", "require")),
            _ => drop(rest.append_pair(&name, &value)),
        }
    }
    // The library decodes `%20`, but not `+`.
    (format!("{base}?{}", rest.finish().replace('+', "%20")), file)
}

/// Tells whether all servers of an address are on this machine.
fn is_local(config: &Config) -> bool {
    let is_local_name = |name: &str| name == "localhost" || name.parse().is_ok_and(|it: IpAddr| it.is_loopback());
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => is_local_name(name),
        Host::Unix(_) => true,
    }) && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

fn connector(file: Option<&str>, authorities: Option<&[u8]>) -> Result<MakeRustlsConnect, JournalError> {
    let read = |path: &str| {
        std::fs::read(path).map_err(|error| JournalError::Unavailable(format!("sslrootcert={path}: {error}")))
    };
    let read = file.map(read).transpose()?;
    let config = client_config(authorities.or(read.as_deref())).map_err(JournalError::Unavailable)?;
    Ok(MakeRustlsConnect::new(config))
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The output of `Config` does not contain the password.
        f.debug_struct("Address").field("config", &self.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn another_machine_is_reached_by_tls_unless_the_address_says_otherwise() {
        let by_tls = |text: &str| Address::parse(text, None).unwrap().tls.is_some();
        for text in ["postgres://db.example/j", "postgres://10.0.0.1/j?sslmode=prefer", "host=a,localhost user=u"] {
            assert!(by_tls(text), "{text}");
        }
        for mode in ["require", "verify-ca", "verify-full"] {
            assert!(by_tls(&format!("postgres://localhost/j?sslmode={mode}&application_name=a%20b")), "{mode}");
        }
        for text in ["postgres://db.example/j?sslmode=disable", "postgres://[::1]/j", "host=/run/postgresql user=u"] {
            assert!(!by_tls(text), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said_without_its_password() {
        let error = |text: &str| Address::parse(text, None).unwrap_err().to_string();
        let absent = error("postgres://u:secret@db.example/j?sslrootcert=/no/such/file");
        assert!(absent.contains("sslrootcert=/no/such/file: No such file") && !absent.contains("secret"), "{absent}");
        let wrong = error("postgres://u:secret@db.example/j?colour=red");
        assert!(wrong.contains("its address cannot be read") && !wrong.contains("secret"), "{wrong}");
        let shown = format!("{:?}", Address::parse("postgres://u:secret@localhost/j", None).unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }
}
