//! Workaround for texts that the crate `url` (2.5.8) parses differently from the URL Standard: another text of the same
//! length is parsed, then the true spelling is restored in the parts that `url` exports for inter-process communication
//! and accepts back without parsing.

use serde_json::Value;
use url::{ParseError, Url};

/// Returns a URL with its true spelling, as given by `spelling`. The parts keep their offsets, since no byte is added.
pub(crate) fn truly_spelled(url: &Url, spelling: impl Fn(&str) -> String) -> Result<Url, ParseError> {
    let spelled = || {
        let mut parts = url.serialize_internal(serde_json::value::Serializer).ok()?;
        let Some(Value::String(text)) = parts.get_mut(0) else { return None };
        *text = spelling(text);
        Url::deserialize_internal(parts).ok()
    };
    spelled().ok_or(ParseError::IdnaError)
}

/// Returns the text with some bytes replaced, ASCII by ASCII.
pub(crate) fn replaced(text: &str, by: impl Fn(&[u8], usize) -> u8) -> String {
    let bytes = text.as_bytes();
    let replaced = text.char_indices().map(|(at, one)| if one.is_ascii() { char::from(by(bytes, at)) } else { one });
    replaced.collect()
}
