//! Lines of headers, target URIs and dates. Names and values come from the web, so that none may end its line.

use std::fmt::Write as _;

use jiff::Timestamp;

/// Appends the line of a field. A name gets `_` for each character that a name may not have; a value gets a space for
/// each control character. A field without a name is dropped.
pub(crate) fn push_field(lines: &mut String, name: &str, value: &str) {
    if let Some(name) = clean_name(name) {
        push_clean(lines, &name, value);
    }
}

/// Appends the line of a field with a valid name.
pub(crate) fn push_clean(lines: &mut String, name: &str, value: &str) {
    lines.push_str(name);
    lines.push_str(": ");
    push_value(lines, value);
    lines.push_str("\r\n");
}

/// Returns a valid name for a field: a token, in the sense of HTTP.
pub(crate) fn clean_name(name: &str) -> Option<String> {
    let name = name.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    (!name.is_empty()).then(|| name.chars().map(|c| if is_token(c) { c } else { '_' }).collect())
}

/// Appends a value without line ends, control characters and surrounding space.
pub(crate) fn push_value(lines: &mut String, value: &str) {
    let is_space = |c: char| c.is_control() || c == ' ';
    let value = value.trim_matches(is_space);
    lines.extend(value.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }));
}

/// Returns a URL for `WARC-Target-URI`: printable ASCII, in which the rest is percent-encoded. A URL that is serialized
/// by the URL Standard stays as it is.
pub(crate) fn target_uri(url: &str) -> String {
    let mut uri = String::with_capacity(url.len());
    for byte in url.trim().bytes() {
        if byte.is_ascii_graphic() && !b"\"<>".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _infallible = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// Returns a time as `WARC-Date` has it: UTC with milliseconds, within 1970 and 9999.
pub(crate) fn date(date_ms: i64) -> String {
    let date = Timestamp::from_millisecond(date_ms.max(0)).unwrap_or(Timestamp::MAX);
    format!("{date:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, value: &str) -> String {
        let mut lines = String::new();
        push_field(&mut lines, name, value);
        lines
    }

    #[test]
    fn a_field_is_one_line() {
        assert_eq!(line("Server", "a\r\nb: c\0\u{85}\td"), "Server: a  b: c  \td\r\n");
        assert_eq!(line("X\r\nY:Z é", "\r\n v \n"), "X__Y_Z__: v\r\n");
        assert_eq!(line("Content-Encoding \r", ""), "Content-Encoding: \r\n");
    }

    #[test]
    fn a_field_without_a_name_is_dropped() {
        assert_eq!(line("", "a") + &line(" \r\n\0", "b"), "");
    }

    #[test]
    fn a_target_uri_is_printable_ascii() {
        assert_eq!(
            target_uri(" http://a.example/ü b\r\n?\"<|>%20\0 "),
            "http://a.example/%C3%BC%20b%0D%0A?%22%3C|%3E%20%00"
        );
        let serialized = "http://a.example:8080/a|b/{c}?q=[1]^`'\\&r=%ff#x";
        assert_eq!(target_uri(serialized), serialized);
    }

    #[test]
    fn a_date_has_milliseconds_and_four_digits_of_the_year() {
        assert_eq!(date(1_700_000_000_120), "2023-11-14T22:13:20.120Z");
        assert_eq!(
            (date(0), date(i64::MIN)),
            ("1970-01-01T00:00:00.000Z".to_owned(), "1970-01-01T00:00:00.000Z".to_owned())
        );
        assert_eq!(date(i64::MAX), "9999-12-30T22:00:00.999Z");
    }
}
