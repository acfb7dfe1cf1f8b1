//! Maps by fingerprint.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
};

use orbweaver_url::Fingerprint;

/// A map by fingerprint. A fingerprint is already a hash, so hashing it again from scratch would be wasteful; but an
/// author of URLs can choose it, so a secret number is mixed in.
pub(crate) type ByFingerprint<V> = HashMap<Fingerprint, V, Keyed>;

/// Builder of hashers with a key of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keyed(u64);

impl Default for Keyed {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0u8))
    }
}

impl BuildHasher for Keyed {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher(self.0)
    }
}

/// Hasher that folds 16 bytes into 8 by multiplying 64 by 128 bits, half by half.
#[derive(Debug)]
pub(crate) struct KeyedHasher(u64);

impl Hasher for KeyedHasher {
    fn write(&mut self, bytes: &[u8]) {
        for half in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..half.len()].copy_from_slice(half);
            let word = u128::from(self.0 ^ u64::from_le_bytes(word));
            let product = word.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            self.0 = (product >> 64) as u64 ^ product as u64;
        }
    }

    fn write_usize(&mut self, _: usize) {
        // The length of an array, which is constant.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn fingerprints_that_share_their_halves_are_told_apart() {
        let keyed = Keyed::default();
        let mut hashes = HashSet::new();
        for number in 0..1000u32 {
            for at in [0, 4, 8, 12] {
                let mut bytes = [7; 16];
                bytes[at..at + 4].copy_from_slice(&(number + 1_000_000).to_le_bytes());
                hashes.insert(keyed.hash_one(Fingerprint(bytes)) & 0xf_ffff);
            }
        }
        assert!(hashes.len() > 3900, "{}", hashes.len());
    }
}
