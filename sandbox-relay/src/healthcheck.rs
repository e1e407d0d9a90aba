//! `healthcheck`: asks a relay on this machine whether it is ready, for a container's `HEALTHCHECK`.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::config::DEFAULT_LISTEN;
use crate::tls;

/// Maximum time for connecting, for each read and for each write.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The flags of `healthcheck`.
#[derive(Debug, Args)]
pub struct HealthcheckArgs {
    /// Address that the relay listens on
    #[arg(long, env = "RELAY_LISTEN", value_name = "ADDRESS", default_value_t = DEFAULT_LISTEN)]
    listen: SocketAddr,
    /// PEM file with the relay's certificate, if it speaks TLS; no other certificate is accepted
    #[arg(long, env = "RELAY_TLS_CERT_FILE", value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
}

/// Asks the relay's `/ready`.
///
/// # Errors
/// A message for people: the certificate cannot be read, the relay does not answer, or it is not ready.
pub fn healthcheck(args: &HealthcheckArgs) -> Result<(), String> {
    let mut address = args.listen;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    let tls = args.tls_cert_file.as_deref().map(tls::only_this_certificate).transpose();
    let tls = tls.map_err(|error| error.to_string())?;
    let answer = ask(address, tls).map_err(|error| format!("no relay answers at {address}: {error}"))?;
    match answer.split_ascii_whitespace().nth(1) {
        Some("200") => Ok(()),
        _ => Err(format!("the relay at {address} is not ready: {}", answer.lines().last().unwrap_or_default())),
    }
}

fn ask(address: SocketAddr, tls: Option<ClientConfig>) -> std::io::Result<String> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    match tls {
        None => request(stream, address),
        Some(tls) => {
            let connection =
                ClientConnection::new(Arc::new(tls), address.ip().into()).map_err(std::io::Error::other)?;
            request(StreamOwned::new(connection, stream), address)
        }
    }
}

fn request(mut stream: impl Read + Write, address: SocketAddr) -> std::io::Result<String> {
    write!(stream, "GET /ready HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    stream.flush()?;
    let mut answer = Vec::new();
    match stream.take(4_096).read_to_end(&mut answer) {
        // A TLS connection may end without its closing alert; the answer before it is whole.
        Err(error) if answer.is_empty() => Err(error),
        _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}
