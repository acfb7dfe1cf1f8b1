//! Headers that name the schema of a record and its version.
//!
//! A schema changes compatibly (optional fields) or gets a new version; a consumer of another version must not guess.

use bytes::Bytes;

use crate::topic::{DEAD_LETTERS, SchemaRef, Topic, describe};

/// Header with the name of a record's schema: the first part of its file name in `schemas/`.
pub const SCHEMA_HEADER: &str = "schema";
/// Header with the version of a record's schema, a decimal number.
pub const SCHEMA_VERSION_HEADER: &str = "schema-version";

/// Returns the schema of the records with this key; `None` for dead letters, which keep the headers of the rejected
/// record, and for records that carry no message, such as claims.
#[must_use]
pub fn schema_of(topic: Topic, key: Option<&[u8]>) -> Option<&'static SchemaRef> {
    let matches = |schema: &&SchemaRef| match schema.key_prefix {
        None => true,
        Some(prefix) => key.is_some_and(|key| key.starts_with(prefix.as_bytes())),
    };
    describe(topic).filter(|_| topic != DEAD_LETTERS)?.schemas.iter().find(matches)
}

impl SchemaRef {
    /// Returns the headers of a record with this schema.
    #[must_use]
    pub fn headers(&self) -> [(&'static str, Bytes); 2] {
        [
            (SCHEMA_HEADER, Bytes::from_static(self.name.as_bytes())),
            (SCHEMA_VERSION_HEADER, Bytes::from_static(self.version_text.as_bytes())),
        ]
    }

    /// Returns why a record with these headers cannot be read as this schema, and what to do; `None` if it can. A record
    /// without them, such as a seed from a user, counts as readable.
    #[must_use]
    pub fn unreadable(&self, schema: Option<&[u8]>, version: Option<&[u8]>) -> Option<String> {
        if schema? != self.name.as_bytes() {
            return None;
        }
        let text = String::from_utf8_lossy(version?);
        let advice = match text.parse::<u32>() {
            Ok(version) if version == self.version => return None,
            Ok(version) if (1..self.version).contains(&version) => {
                "let the earlier release that wrote it complete its crawls, or use another prefix"
            }
            _ => "upgrade this program",
        };
        let (name, known) = (self.name, self.version);
        let shown: String = text.chars().take(20).collect();
        Some(format!("schema `{name}` has version {shown:?}; this release reads version {known}: {advice}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::{CONTROL, DOCUMENTS, OUTCOMES};

    #[test]
    fn the_schema_of_a_record_follows_from_its_topic_and_the_prefix_of_its_key() {
        let name = |topic, key: Option<&str>| schema_of(topic, key.map(str::as_bytes)).map(|schema| schema.name);
        assert_eq!(name(OUTCOMES, None), Some("outcome"));
        assert_eq!(name(CONTROL, Some("pages/3/docs")), Some("page-count"));
        assert_eq!(name(CONTROL, Some("consumers")), Some("consumer-groups"));
        assert_eq!(name(CONTROL, Some("other")), None);
        assert_eq!(name(CONTROL, None), None);
        assert_eq!(name(DEAD_LETTERS, Some("x")), None);
    }

    #[test]
    fn only_another_version_of_the_schema_is_unreadable() {
        let schema = schema_of(DOCUMENTS, None).unwrap();
        let reason = |name: &str, version: &str| schema.unreadable(Some(name.as_bytes()), Some(version.as_bytes()));
        assert_eq!(reason("document", "1"), None);
        assert_eq!(reason("of-a-user", "7"), None);
        assert_eq!(schema.unreadable(None, Some(b"7")), None);
        assert_eq!(schema.unreadable(Some(b"document"), None), None);
        for version in ["2", "0", "", "v1", "99999999999999999999"] {
            let reason = reason("document", version).unwrap();
            assert!(reason.starts_with("schema `document` has version \""), "{reason}");
            assert!(reason.ends_with("this release reads version 1: upgrade this program"), "{reason}");
        }
        let earlier = schema_of(OUTCOMES, None).unwrap().unreadable(Some(b"outcome"), Some(b"1")).unwrap();
        assert!(earlier.ends_with("complete its crawls, or use another prefix"), "{earlier}");
    }
}
