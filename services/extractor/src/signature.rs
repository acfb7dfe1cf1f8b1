//! Signatures of texts.
//!
//! One-bit minwise hashing (Li and König, "b-Bit Minwise Hashing", 2010) of the sequences of three words: of two texts that
//! share a part J of their sequences (Jaccard), (1 - J) / 2 of the bits differ.

use orbweaver_messages::TextSignature;
use xxhash_rust::xxh3::xxh3_64;

/// Minimum number of distinct sequences of a text with a signature: too many shorter ones are similar.
const MIN_SEQUENCES: usize = 20;
/// Maximum number of words that count: the first ones.
const MAX_WORDS: usize = 100_000;
/// Number of hash functions, one per bit.
const BITS: usize = 128;

/// Returns the signature of a text; `None` if it is too short. Case and punctuation do not matter.
pub(crate) fn signature(text: &str) -> Option<TextSignature> {
    let words = words(&text.to_lowercase());
    let sequence = |words: &[u64; 3]| {
        let [first, second, third] = *words;
        mixed(first.rotate_left(42) ^ second.rotate_left(21) ^ third)
    };
    let mut sequences: Vec<u64> = words.array_windows().map(sequence).collect();
    sequences.sort_unstable();
    sequences.dedup();
    (sequences.len() >= MIN_SEQUENCES).then(|| minwise(&sequences))
}

/// Returns the hashes of the words of a text in lower case, in order.
fn words(text: &str) -> Vec<u64> {
    let mut words = vec![];
    for word in text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()) {
        if words.len() >= MAX_WORDS {
            break;
        }
        if word.contains(is_unspaced) {
            // Without a dictionary: pairs of characters.
            let ends = word.char_indices().map(|(start, _)| start).skip(2).chain([word.len()]);
            let pairs = word.char_indices().zip(ends).map(|((start, _), end)| xxh3_64(&word.as_bytes()[start..end]));
            words.extend(pairs.take(MAX_WORDS));
        } else {
            words.push(xxh3_64(word.as_bytes()));
        }
    }
    words
}

/// Returns a bit of the least hash of each hash function.
fn minwise(hashes: &[u64]) -> TextSignature {
    let functions: [u64; BITS] = std::array::from_fn(|number| mixed(number as u64 + 1));
    let mut least = [u64::MAX; BITS];
    for hash in hashes {
        for (least, function) in least.iter_mut().zip(functions) {
            *least = (*least).min((hash ^ function).wrapping_mul(MULTIPLIER));
        }
    }
    TextSignature(least.iter().fold(0, |bits, least| bits << 1 | u128::from(mixed(*least) >> 63)))
}

/// Odd constant of 64 random bits.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of a number (finalizer of MurmurHash3).
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ bits >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ bits >> 33
}

/// Returns `true` for letters of scripts without spaces between words: Thai to Tibetan, Myanmar, Khmer, and those of China
/// and Japan.
fn is_unspaced(char: char) -> bool {
    matches!(char, '\u{e00}'..='\u{fff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a text of these words.
    fn text(words: impl Iterator<Item = usize>) -> String {
        words.map(|word| format!("word{word} ")).collect()
    }

    fn distance(a: &str, b: &str) -> u32 {
        signature(a).unwrap().distance(signature(b).unwrap())
    }

    #[test]
    fn a_text_of_few_words_has_no_signature() {
        assert_eq!(signature(&text(0..21)), None);
        assert_eq!(signature(&"a b c ".repeat(100)), None);
        assert!(signature(&text(0..22)).is_some());
        assert_eq!(signature(""), None);
    }

    #[test]
    fn case_and_punctuation_do_not_matter_and_the_order_of_words_does() {
        let words = signature(&text(0..30));
        assert_eq!(signature(&text(0..30).to_uppercase().replace(' ', ", ")), words);
        assert!(distance(&text(0..30), &text((0..30).rev())) > 40);
    }

    #[test]
    fn a_text_without_spaces_is_compared_by_pairs_of_characters() {
        let text: String = (0..200).filter_map(|at| char::from_u32(0x4e00 + at * 7)).collect();
        let changed = text.replace('\u{4e00}', "\u{8000}");
        assert!(distance(&text, &changed) < 10);
        let other: String = (0..200).filter_map(|at| char::from_u32(0x5e00 + at * 7)).collect();
        assert!(distance(&text, &other) > 40);
        assert_eq!(signature("\u{4e00}"), None, "a single character");
    }

    #[test]
    fn a_long_text_has_the_signature_of_its_beginning() {
        let beginning = signature(&text(0..MAX_WORDS));
        assert_eq!(signature(&text(0..2 * MAX_WORDS)), beginning);
    }

    proptest! {
        #[test]
        fn any_text_can_be_signed(text in "\\PC{0,300}") {
            let _ = signature(&text);
        }

        #[test]
        fn the_distance_follows_from_the_sequences_that_two_texts_share(seed in 0..1000_usize, every in 10..60_usize) {
            let words = |replaced: bool| {
                text((seed * 1000..).take(900).map(|word| if replaced && word % every == 0 { word + 500_000 } else { word }))
            };
            // Each replaced word changes three sequences.
            let shared = 1.0 - 3.0 / every as f64;
            let expected = 64.0 * (1.0 - shared / (2.0 - shared));
            let distance = f64::from(distance(&words(false), &words(true)));
            prop_assert!((distance - expected).abs() < 25.0, "{distance} of {expected}");
        }
    }
}
