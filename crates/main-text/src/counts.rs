//! Counts of a block's text.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// Number of groups of phrases.
pub(crate) const PHRASE_GROUPS: usize = PHRASES.len();

/// Length of the beginning of a text in which phrases are searched for, in bytes.
const PHRASE_BYTES: usize = 240;

/// Phrases of page furniture, in groups, separated by `|`.
const PHRASES: [&str; 10] = [
    "copyright|©|rights reserved|terms of|privacy policy|impressum|powered by|版权|备案",
    "cookie|javascript|browser|gdpr|consent",
    "subscribe|newsletter|sign up|sign in|log in|login|register|password|your email|email address|注册|登录",
    "read more|more from|see also|related|you may|you might|recommended|also like|most read|popular|trending|latest|\
     相关|推荐",
    "share|tweet|facebook|twitter|pinterest|whatsapp|follow us|instagram|linkedin|分享",
    "comment|reply|replies|quote|likes|upvote|posted by|joined|评论|回复",
    "posted|published|updated|min read|minutes ago|hours ago|days ago|written by|reporter|editor|来源|记者|编辑|时间",
    "add to|cart|in stock|out of stock|shipping|wishlist|checkout|free delivery|quantity|sku|price",
    "advert|sponsored|skip to|menu|toggle|close|search|previous|next|back to|home|view all|show more|load more|click here",
    "photo|image|credit|getty|reuters|ap |picture|video|watch|listen|图",
];

/// Frequent words of languages with spaces.
const STOP_WORDS: &str = "the of and to a in is that it for was on with as be by at are this have from or had not but \
    what all were when we there can an your which their said if will one you has been would who more they about der \
    die und das den von zu mit sich des auf ist im dem nicht ein eine als auch es an werden aus er hat dass sie nach \
    wird bei einer um am sind noch wie le la les et des en un du une que est pour qui dans au par sur pas plus ce il \
    ne se de el y los del las por con una su para como lo al o e che di il per non sono i w na z do nie to jest się";

static STOP: LazyLock<Vec<&[u8]>> = LazyLock::new(|| {
    let mut words: Vec<&[u8]> = STOP_WORDS.split_ascii_whitespace().map(str::as_bytes).collect();
    words.sort_unstable();
    words.dedup();
    words
});

struct Finder {
    automaton: AhoCorasick,
    groups: Vec<u8>,
}

static FINDER: LazyLock<Option<Finder>> = LazyLock::new(|| {
    let phrases =
        || PHRASES.iter().enumerate().flat_map(|(group, list)| list.split('|').map(move |text| (group, text)));
    let groups = phrases().map(|(group, _)| group as u8).collect();
    let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(phrases().map(|(_, text)| text)).ok()?;
    Some(Finder { automaton, groups })
});

/// Counts of characters, words and phrases.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) bytes: u32,
    /// Words, of which a Chinese or Japanese character is one.
    pub(crate) words: u32,
    pub(crate) chinese: u32,
    pub(crate) stop_words: u32,
    pub(crate) letters: u32,
    pub(crate) capitals: u32,
    pub(crate) digits: u32,
    pub(crate) commas: u32,
    /// Ends of sentences.
    pub(crate) stops: u32,
    /// Other signs.
    pub(crate) signs: u32,
    pub(crate) breaks: u32,
    pub(crate) ends_sentence: bool,
    pub(crate) ends_with_colon: bool,
    pub(crate) begins_small: bool,
    /// Set of groups of phrases.
    pub(crate) phrases: u16,
    /// Hash of the words.
    pub(crate) hash: u64,
}

impl Counts {
    pub(crate) fn of(text: &str) -> Self {
        let mut counts = Self { bytes: text.len() as u32, ..Self::default() };
        counts.count_characters(text);
        counts.count_stop_words(text);
        counts.find_phrases(text);
        let text = text.trim();
        counts.begins_small = text.chars().next().is_some_and(char::is_lowercase);
        let last = text.chars().rev().find(|char| !"\"'”’)»」』".contains(*char));
        counts.ends_sentence = last.is_some_and(|char| ".!?…。！？".contains(char));
        counts.ends_with_colon = matches!(last, Some(':' | '：'));
        counts
    }

    fn count_characters(&mut self, text: &str) {
        let mut in_word = false;
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for char in text.chars() {
            let is_word = match char {
                'a'..='z' => {
                    self.letters += 1;
                    true
                }
                'A'..='Z' => {
                    self.letters += 1;
                    self.capitals += 1;
                    true
                }
                '0'..='9' => {
                    self.digits += 1;
                    true
                }
                ' ' => false,
                '\n' => {
                    self.breaks += 1;
                    false
                }
                ',' | '，' | '、' | ';' | '；' => {
                    self.commas += 1;
                    false
                }
                '.' | '!' | '?' | '。' | '！' | '？' => {
                    self.stops += 1;
                    false
                }
                _ if is_chinese(char) => {
                    self.chinese += 1;
                    self.words += 1;
                    false
                }
                _ if !char.is_ascii() && char.is_alphanumeric() => {
                    self.letters += 1;
                    self.capitals += u32::from(char.is_uppercase());
                    true
                }
                _ => {
                    self.signs += 1;
                    char == '_'
                }
            };
            if is_word || !char.is_ascii() {
                hash = (hash ^ u64::from(char)).wrapping_mul(0x0100_0000_01b3);
            }
            self.words += u32::from(is_word && !in_word);
            in_word = is_word;
        }
        self.hash = hash;
    }

    fn count_stop_words(&mut self, text: &str) {
        for word in text.as_bytes().split(|byte| matches!(byte, b' ' | b'\n' | b',' | b'.')) {
            if word.is_empty() || word.len() > 6 {
                continue;
            }
            let mut small = [0; 6];
            let small = &mut small[..word.len()];
            small.copy_from_slice(word);
            small.make_ascii_lowercase();
            self.stop_words += u32::from(STOP.binary_search(&&*small).is_ok());
        }
    }

    fn find_phrases(&mut self, text: &str) {
        let Some(finder) = FINDER.as_ref() else { return };
        let start = &text.as_bytes()[..text.len().min(PHRASE_BYTES)];
        for hit in finder.automaton.find_iter(start) {
            self.phrases |= 1 << finder.groups[hit.pattern().as_usize()];
        }
    }
}

/// Returns `true` for a character of Chinese or Japanese, which are written without spaces.
fn is_chinese(char: char) -> bool {
    matches!(char, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns the hashes of the words of a title, in lower case, without duplicates.
pub(crate) fn word_hashes(text: &str) -> Vec<u64> {
    let mut hashes = vec![];
    for word in text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()) {
        if word.chars().any(is_chinese) {
            hashes.extend(word.chars().map(u64::from));
        } else {
            hashes.push(
                word.chars().flat_map(char::to_lowercase).fold(0xcbf2_9ce4_8422_2325_u64, |hash, char| {
                    (hash ^ u64::from(char)).wrapping_mul(0x0100_0000_01b3)
                }),
            );
        }
    }
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_with_and_without_spaces() {
        let counts = Counts::of("The cat, 3 dogs.");
        assert_eq!((counts.words, counts.stop_words, counts.commas, counts.stops, counts.digits), (4, 1, 1, 1, 1));
        let counts = Counts::of("日本語です。");
        assert_eq!((counts.words, counts.chinese, counts.ends_sentence), (5, 5, true));
    }

    #[test]
    fn texts_that_differ_in_spaces_alone_have_one_hash() {
        assert_eq!(Counts::of("one two").hash, Counts::of("one  two ").hash);
        assert_ne!(Counts::of("one two").hash, Counts::of("one three").hash);
    }
}
