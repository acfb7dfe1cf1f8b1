//! Values of options that are quantities.

use std::time::Duration;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_that_cannot_be_read_is_answered_with_an_allowed_form() {
        assert_eq!((size("512KiB"), duration("1m30s")), (Ok(512 << 10), Ok(Duration::from_secs(90))));
        for text in ["", "fast", "-1", "10"] {
            assert!(duration(text).unwrap_err().contains("such as `500ms`"), "{text}");
        }
        for text in ["", "large", "-1", "0"] {
            assert!(size(text).unwrap_err().contains("such as `512KiB`"), "{text}");
        }
    }
}
