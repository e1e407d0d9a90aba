//! Requests to the pages of a relay, such as `/health`.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::within;

/// Gets a page of the server at an address, and returns its status and its body as JSON; a body that is no JSON is `null`.
///
/// # Errors
/// [`io::Error`]: the server does not answer, or not with HTTP.
pub async fn get(address: &str, path: &str) -> io::Result<(u16, Value)> {
    let (status, body) = get_text(address, path).await?;
    Ok((status, serde_json::from_str(&body).unwrap_or_default()))
}

/// Gets a page of the server at an address, and returns its status and its body.
///
/// # Errors
/// [`io::Error`]: the server does not answer, or not with HTTP.
pub async fn get_text(address: &str, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    // An answer to version 1.0 ends with the connection: none comes in chunks.
    let request = format!("GET {path} HTTP/1.0\r\nHost: relay\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await?;
    let no_http = || io::Error::new(io::ErrorKind::InvalidData, "it is not HTTP");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(no_http)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(no_http)?;
    Ok((status, body.to_owned()))
}
