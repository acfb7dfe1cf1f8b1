//! Values of options that are quantities or addresses.

use std::{net::SocketAddr, time::Duration};

/// Parses a size in bytes.
///
/// # Errors
/// Fails with the expected form.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = text.parse().ok().map(|size: bytesize::ByteSize| size.as_u64()).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "expected a size from 1B, such as `512KiB`".to_owned())
}

/// Parses a duration.
///
/// # Errors
/// Fails with the expected form.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "expected a duration, such as `500ms`, `90s` or `10m`".to_owned())
}

/// Parses the address of a server. A name may mean several addresses.
///
/// # Errors
/// Fails with the expected form.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an IP address and a port, such as `127.0.0.1:9480` or `[::1]:9480`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_that_cannot_be_read_is_answered_with_an_allowed_form() {
        assert_eq!((size("512KiB"), duration("1m30s")), (Ok(512 << 10), Ok(Duration::from_secs(90))));
        for text in ["", "fast", "-1", "10"] {
            assert!(duration(text).unwrap_err().contains("such as `500ms`"), "{text}");
        }
        assert_eq!(address("[::1]:0"), Ok(SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0))));
        for text in ["", "localhost:9480", "127.0.0.1", "127.0.0.1:65536", ":9480", "9480"] {
            assert!(address(text).unwrap_err().contains("such as `127.0.0.1:9480`"), "{text}");
        }
        for text in ["", "large", "-1", "0"] {
            assert!(size(text).unwrap_err().contains("such as `512KiB`"), "{text}");
        }
    }
}
