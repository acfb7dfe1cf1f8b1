//! The words of a text, each as a hash: runs of ASCII letters and digits and of non-ASCII bytes.
//!
//! Word boundaries are found for 64 bytes at once, and the bytes of words are hashed sixteen at a time: a loop over
//! single bytes mispredicts a branch at the end of nearly every word, which costs more than the bytes themselves.

/// Number of bytes that are examined together, one bit of a mask each.
const BLOCK: usize = 64;
/// Number of bytes that are hashed together.
const CHUNK: usize = 16;
/// Mask that converts ASCII letters to lower case. Non-ASCII bytes lose a bit too: in some scripts, the case of a
/// letter.
const SMALL: u128 = 0x2020_2020_2020_2020_2020_2020_2020_2020;
/// Constants of the hash, a folded product as in wyhash.
const KEYS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];
/// Masks of the first 0 to 16 bytes of a chunk.
const FIRST: [u128; CHUNK + 1] = {
    let mut first = [0; CHUNK + 1];
    let mut bytes = 1;
    while bytes <= CHUNK {
        first[bytes] = u128::MAX >> (128 - 8 * bytes);
        bytes += 1;
    }
    first
};

/// Calls `each` with the hash of every word, or with `None` for a word that contains a digit.
pub(crate) fn words(text: &[u8], mut each: impl FnMut(Option<u64>)) {
    // An unfinished word: its start, and whether it had a digit before this block.
    let mut begun: Option<(usize, bool)> = None;
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    let mut last = [0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    for (number, block) in blocks.iter().chain([&last]).enumerate() {
        let (inside, digits) = masks_of(block);
        let before = inside << 1 | u64::from(begun.is_some());
        // Bits at the start of each word, and just after its end.
        let (mut starts, mut ends) = (inside & !before, before & !inside);
        let origin = number * BLOCK;
        if let Some((start, digit)) = begun {
            if ends == 0 {
                begun = Some((start, digit || digits != 0));
                continue;
            }
            let end = ends.trailing_zeros();
            ends &= ends - 1;
            let digit = digit || digits & !(u64::MAX << end) != 0;
            each((!digit).then(|| hash_of(text, start, origin + end as usize)));
        }
        while ends != 0 {
            let (start, end) = (starts.trailing_zeros(), ends.trailing_zeros());
            starts &= starts - 1;
            ends &= ends - 1;
            let digit = digits & (u64::MAX << start) & !(u64::MAX << end) != 0;
            each((!digit).then(|| hash_of(text, origin + start as usize, origin + end as usize)));
        }
        let unfinished = |start: u32| (origin + start as usize, digits >> start != 0);
        begun = (starts != 0).then(|| unfinished(starts.trailing_zeros()));
    }
    if let Some((start, digit)) = begun {
        each((!digit).then(|| hash_of(text, start, text.len())));
    }
}

/// Returns the hash of the word from `start` to `end`.
#[inline]
fn hash_of(text: &[u8], start: usize, end: usize) -> u64 {
    let mut hash = (end - start) as u64;
    let mut at = start;
    // Few words are longer than a chunk: the loop runs once and is predicted to.
    loop {
        let chunk = match text.get(at..).and_then(<[u8]>::first_chunk::<CHUNK>) {
            Some(chunk) => u128::from_le_bytes(*chunk),
            None => text[at..].iter().rev().fold(0, |chunk, byte| chunk << 8 | u128::from(*byte)),
        };
        let (low, high) = halves(chunk & FIRST[(end - at).min(CHUNK)] | SMALL);
        let (less, more) = halves(u128::from(low ^ KEYS[0] ^ hash) * u128::from(high ^ KEYS[1]));
        hash = less ^ more;
        at += CHUNK;
        if at >= end {
            return hash;
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the halves")]
const fn halves(value: u128) -> (u64, u64) {
    (value as u64, (value >> 64) as u64)
}

/// Returns masks of the bytes that belong to words, and of those that are digits.
fn masks_of(block: &[u8; BLOCK]) -> (u64, u64) {
    let digits = block.map(|byte| u8::from(byte.wrapping_sub(b'0') < 10));
    let inside = block.map(|byte| {
        let letter = u8::from((byte | 0x20).wrapping_sub(b'a') < 26);
        u8::from(byte.wrapping_sub(b'0') < 10) | letter | byte >> 7
    });
    (side_by_side(&inside), side_by_side(&digits))
}

/// Collects the lowest bits of bytes that have no other bit set, eight per multiplication.
fn side_by_side(bytes: &[u8; BLOCK]) -> u64 {
    bytes
        .as_chunks::<8>()
        .0
        .iter()
        .rev()
        .fold(0, |bits, eight| bits << 8 | u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the words, found byte by byte in the obvious way.
    fn one_by_one(text: &[u8]) -> Vec<Option<Vec<u8>>> {
        let runs = text.split(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric());
        let runs = runs.filter(|run| !run.is_empty());
        runs.map(|run| (!run.iter().any(u8::is_ascii_digit)).then(|| run.to_ascii_lowercase())).collect()
    }

    fn hashes(text: &[u8]) -> Vec<Option<u64>> {
        let mut hashes = vec![];
        words(text, |word| hashes.push(word));
        hashes
    }

    #[test]
    fn each_byte_alone_is_of_a_word_or_is_not_as_ascii_has_it() {
        for byte in 0..=255u8 {
            let mut block = [b' '; BLOCK];
            for at in [0, 7, 8, 63] {
                block[at] = byte;
            }
            let all = 1 | 1 << 7 | 1 << 8 | 1 << 63;
            let inside = if byte.is_ascii_alphanumeric() || !byte.is_ascii() { all } else { 0 };
            let digits = if byte.is_ascii_digit() { all } else { 0 };
            assert_eq!(masks_of(&block), (inside, digits), "{byte}");
        }
    }

    proptest! {
        #[test]
        fn words_are_those_that_are_found_byte_by_byte_and_equal_ones_have_equal_hashes(
            parts in proptest::collection::vec("[ .,-]{1,3}|[a-cA-C]{1,20}|[0-9]{1,2}|[é☃]{1,3}|[ -~]{0,9}", 0..60),
        ) {
            let text = parts.concat();
            let (found, expected) = (hashes(text.as_bytes()), one_by_one(text.as_bytes()));
            prop_assert_eq!(found.len(), expected.len());
            for (one, word) in found.iter().zip(&expected) {
                prop_assert_eq!(one.is_none(), word.is_none());
                for (other, same) in found.iter().zip(&expected) {
                    prop_assert_eq!(one == other, word == same);
                }
            }
        }

        #[test]
        fn a_word_has_its_hash_wherever_it_stands(word in "[a-zé]{1,30}", before in "[ a-z]{0,70}", after in "[ a-z]{0,70}") {
            let text = format!("{before} {word} {after}");
            prop_assert!(hashes(text.as_bytes()).contains(&hashes(word.as_bytes())[0]));
        }
    }
}
