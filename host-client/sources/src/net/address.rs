//! Allowed IP addresses, and a resolver that returns no others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Maximum number of addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;

/// Makes an IPv4 network of four octets and a prefix length.
const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

/// Makes an IPv6 network of three groups and a prefix length.
const fn v6(a: u16, b: u16, c: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

/// IPv4 networks that are not the public internet, from IANA's registry of special-purpose addresses.
const NOT_PUBLIC_V4: [Ipv4Net; 17] = [
    v4(0, 0, 0, 0, 8),          // this network; Linux takes 0.0.0.0 for loopback
    v4(10, 0, 0, 0, 8),         // private
    v4(100, 64, 0, 0, 10),      // carriers' NAT; a cloud's metadata server, too
    v4(127, 0, 0, 0, 8),        // loopback
    v4(168, 63, 129, 16, 32),   // Azure's host, which every machine there can ask
    v4(169, 254, 0, 0, 16),     // link-local; the metadata servers of most clouds
    v4(172, 16, 0, 0, 12),      // private
    v4(192, 0, 0, 0, 24),       // protocol assignments
    v4(192, 0, 2, 0, 24),       // documentation
    v4(192, 88, 99, 0, 24),     // 6to4 relays
    v4(192, 168, 0, 0, 16),     // private
    v4(198, 18, 0, 0, 15),      // benchmarks
    v4(198, 51, 100, 0, 24),    // documentation
    v4(203, 0, 113, 0, 24),     // documentation
    v4(224, 0, 0, 0, 4),        // multicast
    v4(240, 0, 0, 0, 4),        // reserved
    v4(255, 255, 255, 255, 32), // broadcast
];

/// The range of public IPv6 addresses. Addresses that embed an IPv4 address (mapped, compatible, NAT64) are outside.
const PUBLIC_V6: Ipv6Net = v6(0x2000, 0, 0, 3);

/// Networks within [`PUBLIC_V6`] that are not public.
const NOT_PUBLIC_V6: [Ipv6Net; 4] = [
    v6(0x2001, 0, 0, 23),     // protocol assignments; Teredo, which carries IPv4 addresses, among them
    v6(0x2001, 0xdb8, 0, 32), // documentation
    v6(0x2002, 0, 0, 16),     // 6to4, which carries IPv4 addresses
    v6(0x3fff, 0, 0, 20),     // documentation
];

/// Set of IP addresses that may be connected to.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    /// `true`: public addresses are allowed.
    pub(crate) is_public_allowed: bool,
    /// Further networks that are allowed, private ones included.
    pub(crate) networks: Vec<IpNet>,
}

impl Reach {
    /// Returns `true` if this address may be connected to.
    pub(crate) fn admits(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address)) || (self.is_public_allowed && is_public(address))
    }
}

/// Returns `true` if the address belongs to the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC_V4.iter().any(|network| network.contains(&address)),
        IpAddr::V6(address) => {
            PUBLIC_V6.contains(&address) && !NOT_PUBLIC_V6.iter().any(|network| network.contains(&address))
        }
    }
}

/// Error of a name that resolves only to addresses that are not allowed. The message contains no address, because it
/// may be one of an internal network.
#[derive(Debug, thiserror::Error)]
#[error("it has no address that may be connected to")]
pub(crate) struct OutOfReach;

/// Name resolver that asks the system and returns allowed addresses only.
pub(crate) struct GuardedResolver {
    pub(crate) reach: Arc<Reach>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = Arc::clone(&self.reach);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let within: Vec<SocketAddr> =
                found.filter(|address| reach.admits(address.ip())).take(MAX_ADDRESSES).collect();
            if within.is_empty() {
                return Err(OutOfReach.into());
            }
            Ok(Box::new(within.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn admits(text: &str) -> bool {
        Reach { is_public_allowed: true, networks: Vec::new() }.admits(text.parse().unwrap())
    }

    #[test]
    fn the_first_and_last_address_of_every_network_that_is_not_public_is_refused() {
        for text in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.0.0",
            "169.254.169.254",
            "169.254.170.2",
            "169.254.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.0",
            "192.0.0.192",
            "192.0.2.0",
            "192.0.2.255",
            "192.88.99.1",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.0",
            "255.255.255.255", // IPv6
            "::",
            "::1",
            "::7f00:1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::ffff:0:8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:53aa:64c::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:1ff:ffff::",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::",
            "3fff::1",
            "3fff:fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "ffff::1",
            "1fff:ffff::1",
        ] {
            assert!(!admits(text), "{text}");
        }
    }

    #[test]
    fn the_neighbours_of_those_networks_are_public() {
        for text in [
            "1.0.0.0",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "191.255.255.255",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.255",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "2000::1",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2003::1",
            "2606:4700::1",
            "3ffe:ffff::1",
        ] {
            assert!(admits(text), "{text}");
        }
    }

    #[test]
    fn a_network_that_was_allowed_is_within_reach_and_no_other() {
        let reach = Reach { is_public_allowed: false, networks: vec!["127.0.0.0/8".parse().unwrap()] };
        assert!(reach.admits("127.0.0.1".parse().unwrap()));
        for text in ["8.8.8.8", "10.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(!reach.admits(text.parse().unwrap()), "{text}");
        }
    }
}
