//! Lines of CDXJ indexes, as `cdxj-indexer` writes them. Pure.

use std::fmt::Write as _;

use crate::{
    Capture, Written,
    fields::{clean_name, date, push_value, target_uri},
    surt::surt,
};

/// Returns the line of a capture in the index of its file, without a line end: the key of its URL, its time, and a JSON
/// object. Sorted by bytes, the lines of one or more files are an index.
#[must_use]
pub fn index_line(filename: &str, capture: &Capture<'_>, written: &Written) -> String {
    let uri = target_uri(capture.url);
    let mut line = surt(&uri);
    line.push(' ');
    line.extend(date(capture.date_ms).chars().filter(char::is_ascii_digit).take(14));
    line.push_str(" {");
    // Readers parse the header of a response only then.
    let is_http = uri.starts_with("http:") || uri.starts_with("https:");
    let mime = if capture.revisit.is_some() { Some("warc/revisit".to_owned()) } else { mime(capture, is_http) };
    let fields = [
        ("url", Some(uri)),
        ("mime", mime),
        ("status", is_http.then(|| format!("{:03}", capture.status.min(999)))),
        ("digest", written.payload_digest.clone()),
        ("length", Some(written.length.to_string())),
        ("offset", Some(written.offset.to_string())),
        ("filename", Some(filename.to_owned())),
    ];
    let mut separator = "";
    for (name, value) in fields.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        line.push_str(separator);
        separator = ", ";
        push_string(&mut line, name);
        line.push_str(": ");
        push_string(&mut line, value);
    }
    line.push('}');
    line
}

/// Returns the first `Content-Type` without its parameters, as a reader of the file finds it.
fn mime(capture: &Capture<'_>, is_http: bool) -> Option<String> {
    let is_type = |name: &str| clean_name(name).is_some_and(|name| name.eq_ignore_ascii_case("content-type"));
    let (_, value) = capture.headers.iter().find(|(name, _)| is_http && is_type(name))?;
    let mut written = String::new();
    push_value(&mut written, value);
    let mime = written.trim().split(|c: char| c == ';' || c.is_whitespace()).next().unwrap_or_default();
    Some(mime.to_owned())
}

/// Appends a JSON string in printable ASCII.
fn push_string(line: &mut String, text: &str) {
    line.push('"');
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte @ (b'"' | b'\\')) => line.extend(['\\', char::from(byte)]),
            Ok(byte @ b' '..=b'~') => line.push(char::from(byte)),
            // Values have no control characters, which have shorter forms.
            _ => {
                let _infallible = write!(line, "\\u{unit:04x}");
            }
        }
    }
    line.push('"');
}
