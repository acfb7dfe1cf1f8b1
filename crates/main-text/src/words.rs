//! Groups of words in classes, ids, roles and item properties: hints of the purpose of an element.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

/// Number of groups.
pub(crate) const GROUPS: usize = LISTS.len();

/// Words of each group, separated by spaces.
const LISTS: [&str; 38] = [
    "content contents maincontent",
    "main primary",
    "article story entry hentry blog single",
    "text paragraph prose richtext markdown bodytext",
    "post posts",
    "forum thread topic message discussion answer question",
    "comment disqus respond reply replies",
    "footer foot bottom copyright colophon contentinfo",
    "header masthead banner top",
    "nav navigation navbar breadcrumb pagination pager paging",
    "menu dropdown submenu hamburger",
    "sidebar aside rail secondary complementary right side widget",
    "share sharing social facebook twitter linkedin whatsapp pinterest follow",
    "related recommend popular trending more similar next prev latest",
    "promo sponsor advert ads ad taboola outbrain gpt",
    "newsletter subscribe signup login account register paywall",
    "cookie consent gdpr privacy legal policy terms",
    "price cart sku stock shipping checkout buy",
    "product",
    "description desc summary detail details spec specs feature overview",
    "review rating testimonial",
    "author byline bio writer profile user avatar publisher",
    "date time published updated modified timestamp meta info",
    "title heading headline subtitle",
    "caption figure image photo gallery thumbnail media video player img",
    "list items item grid card tile results",
    "tag tags category categories taxonomy label badge",
    "modal popup overlay dialog alert notice tooltip lightbox",
    "hidden hide sronly visually screenreader sr invisible collapse noprint skip",
    "form search input button btn submit field select filter cta",
    "code highlight example syntax",
    "quote signature sig",
    "tab tabs accordion faq toggle slider carousel",
    "logo icon brand branding",
    "toc tableofcontents outline anchor",
    "edit tools toolbar action actions print vote like stats count counter",
    "contact address location phone email",
    "intro lead excerpt teaser standfirst dek abstract hero",
];

/// Words from this length on are also found within other words.
const LONG_WORD: usize = 6;

/// A set of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Groups(u64);

impl Groups {
    pub(crate) fn contains(self, group: usize) -> bool {
        self.0 >> group & 1 == 1
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

struct Finder {
    automaton: AhoCorasick,
    /// Group of each word.
    groups: Vec<u8>,
}

static FINDER: LazyLock<Option<Finder>> = LazyLock::new(|| {
    let words = || LISTS.iter().enumerate().flat_map(|(group, list)| list.split(' ').map(move |word| (group, word)));
    let groups = words().map(|(group, _)| group as u8).collect();
    let mut builder = AhoCorasick::builder();
    builder.ascii_case_insensitive(true).match_kind(MatchKind::Standard);
    // Building fails only beyond a size that these words do not reach.
    let automaton = builder.build(words().map(|(_, word)| word)).ok()?;
    Some(Finder { automaton, groups })
});

/// Returns the groups of the words in `name`, for example the value of a class.
pub(crate) fn groups_of(name: &[u8]) -> Groups {
    let mut found = Groups::default();
    let Some(finder) = FINDER.as_ref() else { return found };
    for hit in finder.automaton.find_overlapping_iter(name) {
        let is_whole = begins_word(name, hit.start()) && ends_word(name, hit.end());
        if is_whole || hit.len() >= LONG_WORD {
            found.0 |= 1 << finder.groups[hit.pattern().as_usize()];
        }
    }
    found
}

/// Returns `true` if a word begins at `at`, in `snake_case`, `kebab-case` or `camelCase`.
fn begins_word(name: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|before| name.get(before)) else { return true };
    !before.is_ascii_alphabetic() || (before.is_ascii_lowercase() && name[at].is_ascii_uppercase())
}

/// Returns `true` if a word, or its singular, ends at `at`.
fn ends_word(name: &[u8], at: usize) -> bool {
    let is_end = |at: usize| name.get(at).is_none_or(|byte| !byte.is_ascii_lowercase());
    is_end(at) || (name[at] == b's' && is_end(at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in(name: &str, word: &str) -> bool {
        let group = LISTS.iter().position(|list| list.split(' ').any(|other| other == word)).expect("a known word");
        groups_of(name.as_bytes()).contains(group)
    }

    #[test]
    fn short_words_are_found_whole_in_any_case() {
        assert!(is_in("site-nav", "nav") && is_in("siteNav", "nav") && is_in("Tags_list", "tag"));
        assert!(!is_in("canvas", "nav") && !is_in("stage", "tag") && !is_in("uploads", "ads"));
    }

    #[test]
    fn long_words_are_found_within_others() {
        assert!(is_in("wpfooterarea", "footer") && is_in("globalsidebar2", "sidebar"));
    }
}
