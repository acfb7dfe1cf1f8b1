//! Requests to a server of the command.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Returns the answer to a request, with its head; `None` if nothing listens.
pub(crate) async fn request(address: SocketAddr, line: &str, body: &str) -> Result<Option<String>> {
    let Ok(mut stream) = TcpStream::connect(address).await else { return Ok(None) };
    let length = body.len();
    let head =
        format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n");
    stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(Some(answer))
}
