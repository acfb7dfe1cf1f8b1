//! Signatures of texts.
//!
//! SimHash (Charikar, "Similarity Estimation Techniques from Rounding Algorithms", 2002) of the distinct words: the fewer words
//! differ, the fewer bits do. How often and in which order they occur does not matter.

use orbweaver_messages::TextSignature;
use xxhash_rust::xxh3::xxh3_64;

/// Minimum number of distinct words of a text with a signature: too many shorter ones are similar.
const MIN_WORDS: usize = 20;
/// Maximum number of words that count: the first ones.
const MAX_WORDS: usize = 100_000;

/// Returns the signature of a text; `None` if it is too short. Case and punctuation do not matter.
pub(crate) fn signature(text: &str) -> Option<TextSignature> {
    let text = text.to_lowercase();
    let mut words: Vec<u64> = vec![];
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
    words.sort_unstable();
    words.dedup();
    (words.len() >= MIN_WORDS).then(|| majority(&words))
}

/// Returns the bits that more than half of the hashes have.
fn majority(hashes: &[u64]) -> TextSignature {
    let mut counts = [0_usize; 64];
    for hash in hashes {
        // Without a branch.
        counts.iter_mut().enumerate().for_each(|(bit, count)| *count += usize::from(hash >> bit & 1 == 1));
    }
    TextSignature(counts.iter().rev().fold(0, |bits, count| bits << 1 | u64::from(count * 2 > hashes.len())))
}

/// Returns `true` for letters of scripts without spaces between words: Thai to Tibetan, Myanmar, Khmer, and those of China and Japan.
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

    #[test]
    fn a_text_of_few_words_has_no_signature() {
        assert_eq!(signature(&text((0..19).chain(0..19))), None);
        assert!(signature(&text(0..20)).is_some());
        assert_eq!(signature(""), None);
    }

    #[test]
    fn case_punctuation_order_and_repetition_do_not_matter() {
        let words = signature(&text(0..30));
        assert_eq!(signature(&text((0..30).rev().chain(3..9)).to_uppercase().replace(' ', ", ")), words);
        assert_ne!(signature(&text(1..31)), words);
    }

    #[test]
    fn a_text_without_spaces_is_compared_by_pairs_of_characters() {
        let text: String = (0..200).filter_map(|at| char::from_u32(0x4e00 + at * 7)).collect();
        let changed = text.replace('\u{4e00}', "\u{8000}");
        let distance = |a: &str, b: &str| signature(a).unwrap().distance(signature(b).unwrap());
        assert!(distance(&text, &changed) < 10);
        let other: String = (0..200).filter_map(|at| char::from_u32(0x5e00 + at * 7)).collect();
        assert!(distance(&text, &other) > 10);
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
        fn texts_of_which_one_word_in_fifty_differs_are_similar(seed in 0..1000_usize) {
            let words = |replaced: bool| {
                text((seed * 1000..).take(400).map(|word| if replaced && word % 50 == 0 { word + 500 } else { word }))
            };
            let distance = signature(&words(false)).unwrap().distance(signature(&words(true)).unwrap());
            prop_assert!(distance <= 16, "{distance}");
        }
    }
}
