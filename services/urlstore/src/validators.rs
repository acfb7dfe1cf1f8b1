//! Entity tags and `If-None-Match` (RFC 9110 sections 8.8.3 and 13.1.2). Pure.

use xxhash_rust::xxh3::xxh3_128;

/// Returns the tag of a representation with these bytes, or of the one that they identify.
pub(crate) fn tag(bytes: &[u8]) -> String {
    format!("\"{:032x}\"", xxh3_128(bytes))
}

/// Returns `true` if the value of an `If-None-Match` names the tag.
pub(crate) fn names(if_none_match: &str, tag: &str) -> bool {
    let tags = if_none_match.split(',').map(str::trim);
    // The comparison is the weak one.
    tags.map(|given| given.strip_prefix("W/").unwrap_or(given)).any(|given| given == tag || given == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_in_a_list_weak_or_not() {
        let tag = tag(b"a");
        for value in [tag.clone(), format!("W/{tag}"), format!("\"x\" , {tag}"), "*".to_owned()] {
            assert!(names(&value, &tag), "{value}");
        }
        for value in ["", "\"x\"", "W/", &tag[1..], &format!("{tag}x")] {
            assert!(!names(value, &tag), "{value}");
        }
        assert_ne!(tag, super::tag(b"b"));
    }
}
