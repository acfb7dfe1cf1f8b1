//! `--probe`: the readiness of the service that runs with this configuration on this machine, for images without other tools.

use std::{
    io::{self, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    time::Duration,
};

use crate::exit::ExitReason;

/// Timeout of the connection, of the request and of each part of the answer.
const WITHIN: Duration = Duration::from_secs(4);
/// Maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Requests `/readyz`; returns the exit reason and a line with the answer.
pub(crate) fn readiness(listen: SocketAddr) -> (ExitReason, String) {
    if listen.port() == 0 {
        return (
            ExitReason::Configuration,
            "http.listen has no fixed port, so the service cannot be found\n".to_owned(),
        );
    }
    let address = reachable(listen);
    match answer(address) {
        Err(error) => (ExitReason::Failed, format!("{address} does not answer: {error}\n")),
        Ok(answer) => judged(&answer),
    }
}

/// Returns the address for connections from this machine.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn answer(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, WITHIN)?;
    stream.set_read_timeout(Some(WITHIN))?;
    stream.set_write_timeout(Some(WITHIN))?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = vec![];
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn judged(answer: &str) -> (ExitReason, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let reason = match head.split(' ').nth(1) {
        Some("200") => ExitReason::Success,
        Some("503") => ExitReason::TempFail,
        _ => {
            return (
                ExitReason::Failed,
                format!("the answer is not that of a service: {}\n", head.lines().next().unwrap_or_default()),
            );
        }
    };
    (reason, format!("{}\n", body.trim_end()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_a_service_that_is_ready_is_a_success() {
        let answer = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n\r\n{{\"ok\":1}}");
        assert_eq!(judged(&answer("200 OK")), (ExitReason::Success, "{\"ok\":1}\n".to_owned()));
        assert_eq!(judged(&answer("503 Service Unavailable")).0, ExitReason::TempFail);
        for other in ["404 Not Found", "2000 x", "302 Found"] {
            let (reason, line) = judged(&answer(other));
            assert!(reason == ExitReason::Failed && line.contains(other), "{line}");
        }
        assert_eq!(judged("SSH-2.0-OpenSSH").0, ExitReason::Failed);
    }

    #[test]
    fn a_service_on_all_addresses_is_found_on_loopback() {
        for (listen, expected) in
            [("0.0.0.0:9464", "127.0.0.1:9464"), ("[::]:1", "[::1]:1"), ("10.0.0.1:2", "10.0.0.1:2")]
        {
            assert_eq!(reachable(listen.parse().unwrap()), expected.parse().unwrap());
        }
    }

    #[test]
    fn a_service_that_is_not_there_or_cannot_be_found_is_a_failure() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (reason, line) = readiness(free);
        assert!(reason == ExitReason::Failed && line.contains(&free.to_string()), "{line}");
        assert_eq!(readiness("127.0.0.1:0".parse().unwrap()).0, ExitReason::Configuration);
    }
}
