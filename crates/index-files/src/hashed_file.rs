//! Small files that are replaced atomically, and end with the hash of their content.

use std::{fs, io, path::Path};

use xxhash_rust::xxh3::xxh3_64;

/// Replaces the file of this name in a directory.
///
/// # Errors
/// Fails if the file cannot be written; the earlier one then stays.
pub fn replace_hashed(dir: &Path, name: &str, mut content: Vec<u8>) -> io::Result<()> {
    content.extend(xxh3_64(&content).to_le_bytes());
    let fresh = dir.join(format!("{name}.new"));
    fs::write(&fresh, content)?;
    fs::rename(&fresh, dir.join(name))
}

/// Returns the content of the file of this name in a directory; `None` if there is none, or it is damaged.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn read_hashed(dir: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = match fs::read(dir.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let Some((content, hash)) = bytes.split_last_chunk() else { return Ok(None) };
    let (length, is_intact) = (content.len(), xxh3_64(content) == u64::from_le_bytes(*hash));
    bytes.truncate(length);
    Ok(is_intact.then_some(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn a_file_reads_back_and_one_with_a_flipped_bit_or_a_missing_end_does_not(
            content in prop::collection::vec(any::<u8>(), 0..100), at: usize, bit in 0u8..8,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let (dir, path) = (directory.path(), directory.path().join("manifest"));
            prop_assert_eq!(read_hashed(dir, "manifest").unwrap(), None);
            replace_hashed(dir, "manifest", vec![1; 300]).unwrap();
            replace_hashed(dir, "manifest", content.clone()).unwrap();
            prop_assert_eq!(read_hashed(dir, "manifest").unwrap(), Some(content));
            let mut bytes = fs::read(&path).unwrap();
            let at = at % bytes.len();
            fs::write(&path, &bytes[..at]).unwrap();
            prop_assert_eq!(read_hashed(dir, "manifest").unwrap(), None);
            bytes[at] ^= 1 << bit;
            fs::write(&path, &bytes).unwrap();
            prop_assert_eq!(read_hashed(dir, "manifest").unwrap(), None);
        }
    }
}
