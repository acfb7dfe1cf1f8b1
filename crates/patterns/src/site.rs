//! State of one site.

use orbweaver_messages::Pattern;

use crate::{contents::Contents, shape, words::Words};

/// Number of URLs to which pages of a pattern may lead without new text, net of the credit that new text restores. At
/// this number, the pattern is over its budget.
pub const BUDGET: i16 = 200;
/// Limit of the same count at which URLs to which the pattern itself has led may be refused.
pub const HARD_LIMIT: i16 = 500;
/// Credit restored per URL found on a page with new text; each other URL costs 1. A pattern of which a quarter is new
/// thus always has credit.
pub const NEW: i16 = 3;
/// Minimum number of times a trail must have passed a pattern for the pattern to lead into itself.
pub const LEADS_INTO_ITSELF: u16 = 2;

/// Maximum number of patterns without a full credit that are remembered. A trap has a few.
const SPENDERS: usize = 128;

/// State of one site in one crawl. Where there are very many sites, most have no more than words, and small states are reached
/// sooner.
#[derive(Debug, Default)]
pub(crate) struct Site {
    words: Words,
    learned: Option<Box<Learned>>,
    /// Number of the latest call that used this site.
    pub(crate) used: u64,
}

/// State that follows from the pages of a site.
#[derive(Debug, Default)]
struct Learned {
    contents: Contents,
    /// The pages that have been counted.
    pages: Contents,
    /// The credit used per pattern, in URLs, from 1 to [`HARD_LIMIT`]. A pattern that is not listed has a full credit.
    spent: Vec<(Pattern, i16)>,
    /// The last page, and the change per URL found on it: URLs found on one page arrive together.
    last: (u32, i16),
}

impl Site {
    pub(crate) fn pattern(&mut self, url: &str) -> Pattern {
        shape::pattern(url, &mut self.words)
    }

    /// Counts a URL found on a page with this pattern and content. A page that reappears after others counts for
    /// nothing.
    pub(crate) fn learn(&mut self, page: u32, pattern: Pattern, content: u32) {
        self.learned.get_or_insert_default().learn(page, pattern, content);
    }

    fn all_spent(&self) -> &[(Pattern, i16)] {
        self.learned.as_ref().map_or(&[], |learned| &learned.spent)
    }

    /// Returns the credit that a pattern has used.
    pub(crate) fn spent(&self, pattern: Pattern) -> i16 {
        self.all_spent().iter().find(|(known, _)| *known == pattern).map_or(0, |(_, spent)| *spent)
    }

    /// Returns the number of patterns that are over their budget.
    pub(crate) fn over(&self) -> usize {
        self.all_spent().iter().filter(|(_, spent)| *spent >= BUDGET).count()
    }

    /// Returns the approximate memory used, in four-byte cells.
    pub(crate) fn cells(&self) -> usize {
        32 + self.words.cells() + self.learned.as_ref().map_or(0, |learned| learned.cells())
    }
}

impl Learned {
    fn learn(&mut self, page: u32, pattern: Pattern, content: u32) {
        if self.last.0 != page {
            let counts = self.pages.add(page);
            let change = if self.contents.add(content) { -NEW } else { 1 };
            self.last = (page, if counts { change } else { 0 });
        }
        let change = self.last.1;
        if let Some(at) = self.spent.iter().position(|(known, _)| *known == pattern) {
            let spent = &mut self.spent[at].1;
            *spent = (*spent + change).min(HARD_LIMIT);
            if *spent <= 0 {
                self.spent.swap_remove(at);
            }
        } else if change > 0 {
            if self.spent.len() == SPENDERS
                && let Some((least, _)) = self.spent.iter().enumerate().min_by_key(|(_, (_, spent))| *spent)
            {
                self.spent.swap_remove(least);
            }
            self.spent.push((pattern, change));
        }
    }

    fn cells(&self) -> usize {
        self.contents.cells() + self.pages.cells() + 2 * self.spent.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_makes_good_what_is_not() {
        let (mut site, pattern) = (Site::default(), Pattern(1));
        for page in 1..=1000 {
            site.learn(page, pattern, if page.is_multiple_of(4) { page } else { 0 });
            assert!(site.spent(pattern) <= 3, "page {page}");
        }
        for page in 2000..2201 {
            site.learn(page, pattern, 0);
        }
        assert!(site.spent(pattern) >= BUDGET && site.over() == 1);
        (3000..3100).for_each(|page| site.learn(page, pattern, page));
        assert_eq!((site.spent(pattern), site.over()), (0, 0));
    }

    #[test]
    fn each_url_that_a_page_leads_to_counts_and_a_page_that_comes_again_does_not() {
        let mut site = Site::default();
        (0..5).for_each(|_| site.learn(7, Pattern(1), 9));
        (0..5).for_each(|_| site.learn(8, Pattern(1), 9));
        (0..500).for_each(|link| site.learn(7 + link % 2, Pattern(1), 9));
        assert_eq!(site.spent(Pattern(1)), 5);
    }

    #[test]
    fn nothing_counts_beyond_the_hard_limit_and_few_patterns_are_known_at_a_time() {
        let mut site = Site::default();
        let page = |number: u32| number.wrapping_mul(0x9e37_79b1);
        (1..=10_000).for_each(|number| site.learn(page(number), Pattern(0), 9));
        assert_eq!(site.spent(Pattern(0)), HARD_LIMIT);
        (10_001..=20_000).for_each(|number| site.learn(page(number), Pattern(number), 9));
        assert_eq!((site.all_spent().len(), site.spent(Pattern(0))), (SPENDERS, HARD_LIMIT));
        assert!(site.cells() < 10_000, "{}", site.cells());
    }
}
