//! Metadata of a seed: what users write to it so as to find it again in its document.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Maximum number of entries.
pub const MAX_METADATA_ENTRIES: usize = 32;
/// Maximum length of a name, in bytes.
pub const MAX_METADATA_NAME_BYTES: usize = 64;
/// Maximum length of all names and values, in bytes: every record of the URL carries them.
pub const MAX_METADATA_BYTES: usize = 4096;

/// Names and values, within the limits of this module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct SeedMetadata(BTreeMap<String, String>);

/// Error of metadata beyond a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeedMetadataError {
    /// There are too many entries.
    #[error("the metadata has {0} entries; allowed: {max}", max = MAX_METADATA_ENTRIES)]
    Entries(usize),
    /// A name is empty or too long.
    #[error("the metadata has a name of {0} bytes; allowed: 1 to {max}", max = MAX_METADATA_NAME_BYTES)]
    Name(usize),
    /// Names and values are too long.
    #[error("the metadata has {0} bytes of names and values; allowed: {max}", max = MAX_METADATA_BYTES)]
    Bytes(usize),
}

impl SeedMetadata {
    /// Returns `true` if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the entries, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}

impl TryFrom<BTreeMap<String, String>> for SeedMetadata {
    type Error = SeedMetadataError;

    fn try_from(entries: BTreeMap<String, String>) -> Result<Self, SeedMetadataError> {
        if entries.len() > MAX_METADATA_ENTRIES {
            return Err(SeedMetadataError::Entries(entries.len()));
        }
        if let Some(name) = entries.keys().find(|name| name.is_empty() || name.len() > MAX_METADATA_NAME_BYTES) {
            return Err(SeedMetadataError::Name(name.len()));
        }
        let bytes = entries.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > MAX_METADATA_BYTES { Err(SeedMetadataError::Bytes(bytes)) } else { Ok(Self(entries)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: impl IntoIterator<Item = (String, String)>) -> Result<SeedMetadata, SeedMetadataError> {
        entries.into_iter().collect::<BTreeMap<_, _>>().try_into()
    }

    #[test]
    fn metadata_beyond_a_limit_is_refused_with_the_limit() {
        let numbered = |count: usize| (0..count).map(|number| (number.to_string(), String::new()));
        assert_eq!(read(numbered(32)).unwrap().iter().count(), 32);
        assert_eq!(read(numbered(33)), Err(SeedMetadataError::Entries(33)));
        assert_eq!(read([(String::new(), String::new())]), Err(SeedMetadataError::Name(0)));
        assert_eq!(read([("n".repeat(65), String::new())]), Err(SeedMetadataError::Name(65)));
        assert!(read([("n".to_owned(), "v".repeat(4095))]).is_ok());
        assert_eq!(read([("n".to_owned(), "v".repeat(4096))]), Err(SeedMetadataError::Bytes(4097)));
        let error = serde_json::from_str::<SeedMetadata>(r#"{"": "x"}"#).unwrap_err().to_string();
        assert!(error.contains("a name of 0 bytes; allowed: 1 to 64"), "{error}");
    }
}
