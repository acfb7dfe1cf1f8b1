//! Digests and record ids.

use data_encoding::BASE32;
use sha1::{Digest as _, Sha1};

/// Namespace of URLs, from RFC 9562.
const NAMESPACE: [u8; 16] =
    [0x6b, 0xa7, 0xb8, 0x11, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8];

/// Returns the digest of a body as WARC files and their indexes write it: SHA-1 in base 32, with the prefix `sha1:`.
#[must_use]
pub fn payload_digest(body: &[u8]) -> String {
    labelled(&[body])
}

/// Returns the labelled digest of several parts in a row.
pub(crate) fn labelled(parts: &[&[u8]]) -> String {
    format!("sha1:{}", BASE32.encode(&sha1(parts)))
}

/// Returns the id of a record: the UUID of version 5 of `warc:FILENAME#NUMBER`.
pub(crate) fn record_id(filename: &str, number: u64) -> String {
    let hash = sha1(&[&NAMESPACE, format!("warc:{filename}#{number}").as_bytes()]);
    let mut bits = hash.iter().take(16).fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    bits = bits & !(0xf << 76) | 5 << 76;
    bits = bits & !(0b11 << 62) | 0b10 << 62;
    let group = |shift: u32, digits: u32| (bits >> shift) & ((1 << (4 * digits)) - 1);
    format!(
        "<urn:uuid:{:08x}-{:04x}-{:04x}-{:04x}-{:012x}>",
        group(96, 8),
        group(80, 4),
        group(64, 4),
        group(48, 4),
        group(0, 12)
    )
}

fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let mut hash = Sha1::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_other_writers() {
        assert_eq!(payload_digest(b""), "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ");
        // Computed with Python's hashlib and base64.
        assert_eq!(payload_digest(b"abc"), "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5");
        assert_eq!(labelled(&[b"a", b"", b"bc"]), payload_digest(b"abc"));
    }

    #[test]
    fn a_record_id_is_a_uuid_of_version_5_of_the_file_and_the_number() {
        // Python: uuid.uuid5(uuid.NAMESPACE_URL, "warc:sample.warc.gz#0"), and #1.
        assert_eq!(record_id("sample.warc.gz", 0), "<urn:uuid:8d999ccb-4e67-5470-80f4-14d3fca71be8>");
        assert_eq!(record_id("sample.warc.gz", 1), "<urn:uuid:71f6f931-b3e6-575e-bdb4-53692bf927fd>");
    }
}
