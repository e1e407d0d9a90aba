//! `healthcheck`: asks a relay on this machine whether it is ready, for a container's HEALTHCHECK.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use clap::Args;

const TIMEOUT: Duration = Duration::from_secs(2);

/// The flags of `healthcheck`.
#[derive(Debug, Args)]
pub struct HealthcheckArgs {
    /// The address that the relay listens on
    #[arg(long, env = "RELAY_LISTEN", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
}

/// Asks `/ready`.
///
/// # Errors
/// The relay does not answer, or is not ready; the text says which.
pub fn healthcheck(args: &HealthcheckArgs) -> Result<(), String> {
    let mut address = args.listen;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    let answer = ask(address).map_err(|error| format!("no relay answers at {address}: {error}"))?;
    match answer.split_ascii_whitespace().nth(1) {
        Some("200") => Ok(()),
        _ => Err(format!("the relay at {address} is not ready: {}", answer.lines().last().unwrap_or_default())),
    }
}

fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /ready HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(4_096).read_to_string(&mut answer)?;
    Ok(answer)
}
