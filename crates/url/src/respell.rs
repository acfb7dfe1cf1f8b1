//! Reading what the crate `url` (2.5.8) reads otherwise than the URL Standard: as another text of the same length, after which
//! the true spelling is put back into the parts that `url` hands out for communication between processes and takes back unread.

use serde_json::Value;
use url::{ParseError, Url};

/// A URL with each byte of some that were replaced as it was. Its parts begin where they did, since not a byte is added.
///
/// # Errors
/// Those of IDNA, if `url` does not take its parts back.
pub(crate) fn truly_spelled(url: &Url, spelling: impl Fn(&str) -> String) -> Result<Url, ParseError> {
    let spelled = || {
        let mut parts = url.serialize_internal(serde_json::value::Serializer).ok()?;
        let Some(Value::String(text)) = parts.get_mut(0) else { return None };
        *text = spelling(text);
        Url::deserialize_internal(parts).ok()
    };
    spelled().ok_or(ParseError::IdnaError)
}
