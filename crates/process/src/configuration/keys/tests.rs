use std::collections::BTreeSet;

use super::*;
use crate::{configuration::Raw, service::ServiceId};

#[test]
fn every_default_is_allowed_and_every_key_is_described_once() {
    let mut paths = BTreeSet::new();
    for key in KEYS.iter() {
        assert!(paths.insert(key.path()), "{} twice", key.path());
        assert!(key.meaning.ends_with(['.', ')']) && !key.readers.is_empty(), "{}", key.path());
        for service in ServiceId::ALL {
            let default = key.default_for(service).map(|text| Raw::Scalar(text.to_owned()));
            assert!(default.is_none_or(|raw| key.kind.read(&raw).is_some()), "{}", key.path());
        }
    }
}

#[test]
fn a_name_can_be_written_as_a_variable() {
    for key in KEYS.iter() {
        let lower = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b"_.*".contains(&b));
        assert!(lower(key.section) && lower(key.name), "{}", key.path());
        assert!(!key.section.contains("__") && !key.name.contains("__"), "{}", key.path());
        // A variable with this suffix names a file.
        assert!(!key.name.ends_with("_file"), "{}", key.path());
    }
}
