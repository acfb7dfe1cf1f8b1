//! Long texts as JSON. serde_json searches a text for characters to escape byte by byte, which would be half of the time
//! in which a document is encoded.

use std::fmt::Write as _;

use serde::{Serialize as _, Serializer, ser::SerializeStruct as _};

/// Name of a struct with one field of the same name whose text serde_json writes unchanged: that of its `RawValue`, which itself
/// can only be made from a text by parsing it.
const UNCHANGED: &str = "$serde_json::private::RawValue";
/// Number of bytes that are examined together.
const STRIDE: usize = 32;
/// Length from which a text is escaped here, in bytes.
const LONG: usize = 4 * STRIDE;

/// Serializes a text, for serde's `serialize_with`. Only for serializers of serde_json.
pub(crate) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if text.len() < LONG {
        return serializer.serialize_str(text);
    }
    let mut unchanged = serializer.serialize_struct(UNCHANGED, 1)?;
    unchanged.serialize_field(UNCHANGED, &escaped(text))?;
    unchanged.end()
}

/// Serializes a text that may be missing.
#[allow(clippy::ref_option, reason = "the signature is serde's")]
pub(crate) fn serialize_option<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    match text {
        Some(text) => serialize(text, serializer),
        None => None::<&str>.serialize(serializer),
    }
}

/// Returns a text in quotes, as serde_json writes it.
fn escaped(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + text.len() / 32 + 2);
    json.push('"');
    let mut rest = text;
    while let Some(at) = first_to_escape(rest.as_bytes()) {
        json.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => json.push_str("\\\""),
            b'\\' => json.push_str("\\\\"),
            0x08 => json.push_str("\\b"),
            b'\t' => json.push_str("\\t"),
            b'\n' => json.push_str("\\n"),
            0x0c => json.push_str("\\f"),
            b'\r' => json.push_str("\\r"),
            // A string can always be written to.
            control => _ = write!(json, "\\u{control:04x}"),
        }
        rest = &rest[at + 1..];
    }
    json.push_str(rest);
    json.push('"');
    json
}

/// Returns the position of the first byte that JSON escapes.
fn first_to_escape(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(bytes) = text[at..].first_chunk::<STRIDE>() {
        if bytes.iter().fold(0, |any, byte| any | is_escaped(*byte)) != 0 {
            break;
        }
        at += STRIDE;
    }
    text[at..].iter().position(|byte| is_escaped(*byte) != 0).map(|found| at + found)
}

/// Returns 1 for a byte that is escaped (RFC 8259, section 7): without a branch, so that the compiler vectorizes it.
const fn is_escaped(byte: u8) -> u8 {
    (byte < b' ') as u8 | (byte == b'"') as u8 | (byte == b'\\') as u8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Serialize;
    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    struct Texts {
        #[serde(serialize_with = "serialize")]
        text: String,
        #[serde(serialize_with = "serialize_option")]
        option: Option<String>,
    }

    proptest! {
        #[test]
        fn a_text_is_written_as_serde_json_writes_it(
            pieces in prop::collection::vec("[ -~]{0,70}|\\PC{0,9}|[\u{0}-\u{20}\u{7f}\"\\\\]{0,4}", 0..12),
            option in prop::option::of("[ -~\n]{0,300}"),
        ) {
            let texts = Texts { text: pieces.concat(), option };
            let expected = json!({ "text": &texts.text, "option": &texts.option });
            let written = serde_json::to_string(&texts).unwrap();
            prop_assert!(written.contains(&serde_json::to_string(&texts.text).unwrap()));
            prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&written).unwrap(), &expected);
            prop_assert_eq!(serde_json::to_string(&expected).unwrap().len(), written.len());
            prop_assert_eq!(serde_json::to_value(&texts).unwrap(), expected);
        }
    }
}
