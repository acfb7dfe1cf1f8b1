//! Robots directives of a page: `meta name=robots`, `meta name=TOKEN` and `X-Robots-Tag`.
//!
//! Several of them are combined, so that the most restrictive applies
//! (<https://developers.google.com/search/docs/crawling-indexing/robots-meta-tag>).

use orbweaver_messages::RobotsDirectives;

/// Adds the directives of a `meta` element, if its name is `robots` or the crawler's own.
pub(crate) fn add_meta(directives: &mut RobotsDirectives, (name, content): (&str, &str), agent: &str) {
    if is_addressed(name, agent) {
        content.split(is_separator).for_each(|word| add(directives, word));
    }
}

/// Adds the directives of an `X-Robots-Tag` header.
pub(crate) fn add_header(directives: &mut RobotsDirectives, value: &str, agent: &str) {
    header_words(value, agent).for_each(|word| add(directives, word));
}

/// Returns `true` if the name of a `meta` element addresses the crawler, whose product token is `agent`.
pub(crate) fn is_addressed(name: &str, agent: &str) -> bool {
    let name = name.trim();
    name.eq_ignore_ascii_case("robots") || name.eq_ignore_ascii_case(agent)
}

/// Returns the directives of an `X-Robots-Tag` header for the crawler. `TOKEN:` before directives names the crawler to
/// which they apply, up to the next such name.
pub(crate) fn header_words<'a>(value: &'a str, agent: &'a str) -> impl Iterator<Item = &'a str> {
    let mut applies = true;
    let for_agent = move |item: &'a str| {
        let Some((name, rest)) = item.split_once(':') else { return applies.then_some(item) };
        let name = name.trim();
        if is_valued(name) {
            return None;
        }
        applies = name.eq_ignore_ascii_case(agent) || name == "*";
        applies.then_some(rest)
    };
    value.split(',').filter_map(for_agent).flat_map(|words| words.split(is_separator))
}

fn add(directives: &mut RobotsDirectives, word: &str) {
    let none = word.eq_ignore_ascii_case("none");
    directives.noindex |= none || word.eq_ignore_ascii_case("noindex");
    directives.nofollow |= none || word.eq_ignore_ascii_case("nofollow");
}

pub(crate) fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | ';')
}

/// Returns `true` for a directive with a value, whose colon does not follow a crawler's name.
fn is_valued(name: &str) -> bool {
    ["unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
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
        assert_eq!(header("OrbWeaver: noindex"), (true, false));
        assert_eq!(header("otherbot: noindex, orbweaver: nofollow"), (false, true));
        assert_eq!(header("nofollow, otherbot: noindex"), (false, true));
    }

    #[test]
    fn a_date_is_no_crawler_s_name() {
        assert_eq!(header("unavailable_after: 25 Jun 2010 15:00:00 PST, nofollow"), (false, true));
        assert_eq!(header("noindex, max-snippet: 20, nofollow"), (true, true));
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
