//! Static copies of header names chosen by other writers: a record to be appended carries static names.

use std::{
    borrow::Cow,
    collections::HashSet,
    sync::{LazyLock, Mutex, PoisonError},
};

use bytes::Bytes;

/// Maximum number of names kept, for the life of the process.
const NAMES: usize = 256;
/// Maximum length of a kept name in bytes.
const NAME_BYTES: usize = 128;
/// Header for names that are not kept: its value is the name, a zero byte and the value.
const OTHER: &str = "original-header";

static KNOWN: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

/// Returns the header `name` with a static name. Memory for foreign names is bounded: beyond 256 names, or for a name
/// of more than 128 bytes, the header becomes `original-header`, whose value holds both.
pub(crate) fn header_name(name: Cow<'static, str>, value: Bytes) -> (&'static str, Bytes) {
    let name = match name {
        Cow::Borrowed(name) => return (name, value),
        Cow::Owned(name) => name,
    };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&kept) = known.get(name.as_str()) {
        return (kept, value);
    }
    if known.len() < NAMES && name.len() <= NAME_BYTES {
        let kept: &'static str = Box::leak(name.into_boxed_str());
        known.insert(kept);
        return (kept, value);
    }
    (OTHER, Bytes::from([name.as_bytes(), b"\0", &value].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_up_to_a_bound_and_nothing_is_lost_past_it() {
        let value = Bytes::from_static(b"value");
        assert_eq!(header_name("trace".to_owned().into(), value.clone()), ("trace", value.clone()));
        let long = "x".repeat(NAME_BYTES + 1);
        assert_eq!(header_name(long.clone().into(), value.clone()), (OTHER, Bytes::from(format!("{long}\0value"))));
        for name in 0..2 * NAMES {
            header_name(format!("made-up-{name}").into(), value.clone());
        }
        assert!(KNOWN.lock().unwrap().len() <= NAMES);
        let (name, carried) = header_name("one-too-many".to_owned().into(), value);
        assert_eq!((name, carried.as_ref()), (OTHER, b"one-too-many\0value".as_slice()));
    }
}
