//! Robots directives of a page: `meta name=robots`, `meta name=TOKEN` and `X-Robots-Tag`.
//!
//! Several of them are combined, so that the most restrictive applies
//! (<https://developers.google.com/search/docs/crawling-indexing/robots-meta-tag>).

use orbweaver_messages::RobotsDirectives;
use orbweaver_politeness::statements::{self, Statement};

/// Adds the directives of a `meta` element, if its name is `robots` or the crawler's own.
pub(crate) fn add_meta(directives: &mut RobotsDirectives, element: (&str, &str), agent: &str) {
    statements::of_meta(element, agent, |statement| add_statement(directives, statement));
}

/// Adds the directives of an `X-Robots-Tag` header.
pub(crate) fn add_header(directives: &mut RobotsDirectives, value: &str, agent: &str) {
    statements::of_header(("x-robots-tag", value), agent, |statement| add_statement(directives, statement));
}

fn add_statement(directives: &mut RobotsDirectives, statement: Statement<'_>) {
    if let Statement::Directive(word) = statement {
        add(directives, word);
    }
}

fn add(directives: &mut RobotsDirectives, word: &str) {
    let none = word.eq_ignore_ascii_case("none");
    directives.noindex |= none || word.eq_ignore_ascii_case("noindex");
    directives.nofollow |= none || word.eq_ignore_ascii_case("nofollow");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(value: &str) -> (bool, bool) {
        let mut directives = RobotsDirectives::default();
        add_header(&mut directives, value, "orbweaver");
        (directives.noindex, directives.nofollow)
    }

    #[test]
    fn directives_for_another_crawler_do_not_apply() {
        assert_eq!(header("otherbot: noindex, nofollow"), (false, false));
        assert_eq!(header("otherbot: noindex, orbweaver: nofollow"), (false, true));
        assert_eq!(header("NONE"), (true, true));
    }

    #[test]
    fn the_most_restrictive_of_several_elements_holds() {
        let mut directives = RobotsDirectives::default();
        for (name, content) in [("robots", "index,follow"), (" Orbweaver ", "NOFOLLOW"), ("otherbot", "none")] {
            add_meta(&mut directives, (name, content), "orbweaver");
        }
        assert_eq!(directives, RobotsDirectives { noindex: false, nofollow: true });
    }
}
