//! Network access of a tool: allowed hosts, ports and private networks.

use std::fmt;

use host_client_core::Error;
use ipnet::IpNet;
use url::{Host, Url};

use super::address::Reach;

/// Networks that `loopback` stands for.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1/128"];
/// Networks that `private` stands for.
const PRIVATE: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];
/// Maximum number of hosts that an error message lists.
const NAMED_HOSTS: usize = 20;

/// Hosts and ports that a tool may contact. The default allows none.
///
/// Private, link-local and cloud metadata addresses are refused, whichever name resolves to them, unless
/// [`allow_private`](Self::allow_private) names their network.
///
/// ```
/// use host_client_sources::RemoteAccess;
///
/// # fn main() -> Result<(), host_client_sources::InvalidAccess> {
/// let access = RemoteAccess::to(["api.example.com", "*.example.org", "http://intranet.example:8080"])?
///     .allow_private("10.1.0.0/16")?;
/// assert!(access.to_string().contains("https://*.example.org"));
/// assert!(RemoteAccess::to(["example.com/path"]).is_err(), "an entry is a host and a port, no more");
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct RemoteAccess {
    hosts: Vec<AllowedHost>,
    networks: Vec<IpNet>,
    /// `true`: only addresses in `networks` are contacted, not public ones.
    is_private_only: bool,
    pub(super) authorities: Option<Vec<u8>>,
}

/// Error of an entry of [`RemoteAccess`] that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAccess {
    /// The entry is not a host: it is malformed, or has a path, a query, a user or another scheme than http and https.
    #[error("{0:?} is no host to allow: write example.com, example.com:8443, *.example.com or http://example.com")]
    Host(String),
    /// The text is not a network in CIDR notation.
    #[error("{0:?} is no network: write an address and how many of its bits count, such as 10.1.0.0/16")]
    Network(String),
}

impl From<InvalidAccess> for Error {
    fn from(error: InvalidAccess) -> Self {
        Self::source("the access of tools to the network", error)
    }
}

/// One allowed scheme, host and port.
#[derive(Clone, PartialEq, Eq)]
struct AllowedHost {
    is_tls: bool,
    host: HostPattern,
    port: u16,
}

/// Host part of an entry.
#[derive(Clone, PartialEq, Eq)]
enum HostPattern {
    Exactly(Host<String>),
    /// Every name that ends with this text, which begins with a dot: `*.example.com`.
    Under(String),
}

impl RemoteAccess {
    /// Allows these hosts: `example.com`, `example.com:8443`, or `*.example.com` for every name below it. The scheme is
    /// HTTPS unless an entry begins with `http://`, such as `http://example.com:8080`.
    ///
    /// # Errors
    /// [`InvalidAccess::Host`] with the first entry that is not a host, or that has more than a scheme, a host and a
    /// port.
    pub fn to<S: AsRef<str>>(hosts: impl IntoIterator<Item = S>) -> Result<Self, InvalidAccess> {
        let hosts = hosts.into_iter().map(|entry| AllowedHost::parse(entry.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { hosts, ..Self::default() })
    }

    /// Lets the allowed hosts resolve to addresses in this private network, too, such as `10.1.0.0/16` of an intranet
    /// or `127.0.0.0/8` in tests. Can be called several times.
    ///
    /// # Errors
    /// [`InvalidAccess::Network`] if `network` is not in CIDR notation.
    pub fn allow_private(mut self, network: &str) -> Result<Self, InvalidAccess> {
        self.networks.push(network.parse().map_err(|_| InvalidAccess::Network(network.to_owned()))?);
        Ok(self)
    }

    /// Allows networks as [`allow_private`](Self::allow_private) does, by a word or in CIDR notation: `loopback` stands for
    /// `127.0.0.0/8` and `::1/128`; `private` for `10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16` and `fc00::/7`.
    ///
    /// # Errors
    /// [`InvalidAccess::Network`] if `networks` is neither word and not in CIDR notation.
    pub fn allow_named(self, networks: &str) -> Result<Self, InvalidAccess> {
        match networks {
            "loopback" => LOOPBACK.iter().try_fold(self, |access, network| access.allow_private(network)),
            "private" => PRIVATE.iter().try_fold(self, |access, network| access.allow_private(network)),
            network => self.allow_private(network),
        }
    }

    /// Trusts these certificate authorities (PEM) instead of the built-in list of public ones.
    #[must_use]
    pub fn authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// Removes the public internet from the access: only networks of [`allow_private`](Self::allow_private) remain.
    pub(crate) fn only_private(mut self) -> Self {
        self.is_private_only = true;
        self
    }

    /// Returns the IP addresses that may be connected to.
    pub(super) fn reach(&self) -> Reach {
        Reach { is_public_allowed: !self.is_private_only, networks: self.networks.clone() }
    }

    /// Leaves one host, and the networks and authorities.
    #[cfg(feature = "post")]
    pub(crate) fn only_to(mut self, host: &str) -> Result<Self, InvalidAccess> {
        self.hosts.clear();
        self.and(host)
    }

    /// Adds one host to the access.
    pub(crate) fn and(mut self, host: &str) -> Result<Self, InvalidAccess> {
        self.hosts.push(AllowedHost::parse(host)?);
        Ok(self)
    }

    /// Returns `true` if the URL names an allowed scheme, host and port. The resolver checks the IP address later.
    pub(super) fn allows(&self, url: &Url) -> bool {
        self.hosts.iter().any(|allowed| allowed.allows(url))
    }
}

impl AllowedHost {
    fn parse(entry: &str) -> Result<Self, InvalidAccess> {
        let invalid = || InvalidAccess::Host(entry.to_owned());
        let (scheme, rest) = entry.split_once("://").unwrap_or(("https", entry));
        let (is_wildcard, rest) = rest.strip_prefix("*.").map_or((false, rest), |rest| (true, rest));
        // The URL parser normalizes the host exactly as it normalizes those of requests.
        let url = Url::parse(&format!("{scheme}://{rest}")).map_err(|_| invalid())?;
        let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let has_user = !url.username().is_empty() || url.password().is_some();
        if !is_bare || has_user || !matches!(url.scheme(), "http" | "https") {
            return Err(invalid());
        }
        let port = url.port_or_known_default().ok_or_else(invalid)?;
        let host = match url.host().ok_or_else(invalid)?.to_owned() {
            Host::Domain(name) if name.contains('*') => return Err(invalid()),
            Host::Domain(name) if is_wildcard => HostPattern::Under(format!(".{name}")),
            _ if is_wildcard => return Err(invalid()),
            host => HostPattern::Exactly(host),
        };
        Ok(Self { is_tls: url.scheme() == "https", host, port })
    }

    fn allows(&self, url: &Url) -> bool {
        let is_host = match (&self.host, url.host()) {
            (HostPattern::Exactly(allowed), Some(host)) => *allowed == host.to_owned(),
            (HostPattern::Under(end), Some(Host::Domain(name))) => name.len() > end.len() && name.ends_with(end),
            _ => false,
        };
        let scheme = if self.is_tls { "https" } else { "http" };
        is_host && url.scheme() == scheme && url.port_or_known_default() == Some(self.port)
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_tls { "https://" } else { "http://" })?;
        match &self.host {
            HostPattern::Exactly(host) => write!(f, "{host}")?,
            HostPattern::Under(end) => write!(f, "*{end}")?,
        }
        let usual = if self.is_tls { 443 } else { 80 };
        if self.port == usual { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// Lists the allowed hosts for error messages, at most 20 of them.
impl fmt::Display for RemoteAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, host) in self.hosts.iter().take(NAMED_HOSTS).enumerate() {
            write!(f, "{}{host}", if number == 0 { "" } else { ", " })?;
        }
        match self.hosts.len() {
            0 => f.write_str("none"),
            1..=NAMED_HOSTS => Ok(()),
            more => write!(f, " and {} more", more - NAMED_HOSTS),
        }
    }
}

impl fmt::Debug for RemoteAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteAccess({self}; private networks: {:?})", self.networks)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn allows(entry: &str, url: &str) -> bool {
        RemoteAccess::to([entry]).unwrap().allows(&Url::parse(url).unwrap())
    }

    #[test]
    fn an_entry_allows_one_scheme_host_and_port() {
        for (entry, url) in [
            ("example.com", "https://example.com/a?b#c"),
            ("example.com", "https://EXAMPLE.com:443/"),
            ("EXAMPLE.com:8443", "https://example.com:8443"),
            ("http://example.com", "http://example.com:80/"),
            ("*.example.com", "https://a.b.example.com/"),
            ("127.0.0.1", "https://2130706433/"),
            ("[::1]:8443", "https://[0:0:0:0:0:0:0:1]:8443/"),
            ("bücher.example", "https://xn--bcher-kva.example/"),
        ] {
            assert!(allows(entry, url), "{entry} {url}");
        }
        for (entry, url) in [
            ("example.com", "http://example.com/"),
            ("example.com", "https://example.com:8443/"),
            ("example.com", "https://a.example.com/"),
            ("example.com", "https://example.com./"),
            ("example.com", "https://example.com.evil.example/"),
            ("example.com", "https://example.com@evil.example/"),
            ("*.example.com", "https://example.com/"),
            ("*.example.com", "https://.example.com/"),
            ("*.example.com", "https://evilexample.com/"),
            ("example.com", "ftp://example.com/"),
        ] {
            assert!(!allows(entry, url), "{entry} {url}");
        }
    }

    #[test]
    fn entries_that_say_more_or_less_than_a_host_are_refused() {
        for entry in [
            "",
            "*",
            "*.",
            "**.example.com",
            "a.*.com",
            "*.127.0.0.1",
            "example.com/path",
            "example.com?q",
            "user@example.com",
            "ftp://example.com",
            "https://",
            "exa mple.com",
            "example.com:99999",
        ] {
            assert_eq!(RemoteAccess::to([entry]).unwrap_err(), InvalidAccess::Host(entry.into()));
        }
        let access = RemoteAccess::to(["example.com", "http://*.example.org:81"]).unwrap();
        assert_eq!(access.to_string(), "https://example.com, http://*.example.org:81");
        assert!(access.allow_private("10.0.0.0/33").is_err());
    }
}
