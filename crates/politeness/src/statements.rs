//! Statements of a site on a page: robots directives, the TDM Reservation Protocol, Content-Signal and Content-Usage.
//!
//! | statement | source |
//! |---|---|
//! | robots directives in `X-Robots-Tag` and `meta` | <https://developers.google.com/search/docs/crawling-indexing/robots-meta-tag> |
//! | `noai`, `noimageai` | directives that `DeviantArt` introduced |
//! | `tdm-reservation`, `tdm-policy` | <https://www.w3.org/community/reports/tdmrep/CG-FINAL-tdmrep-20240510/> |
//! | `Content-Signal` | <https://contentsignals.org/> |
//! | `Content-Usage` | <https://datatracker.ietf.org/doc/draft-ietf-aipref-attach/> |

/// A statement of a header or a `meta` element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statement<'a> {
    /// A robots directive, as written: `noindex`, `none`, `noai`, …
    Directive(&'a str),
    /// Whether rights to text and data mining are reserved.
    TdmReservation(bool),
    /// URL of a policy for text and data mining.
    TdmPolicy(&'a str),
    /// Value of `Content-Signal`, such as `search=yes, ai-train=no`.
    ContentSignal(&'a str),
    /// Value of `Content-Usage`, such as `train-ai=n`.
    ContentUsage(&'a str),
}

/// Calls `each` with the statements of a header of a response. `agent` is the product token of the crawler.
pub fn of_header<'a>((name, value): (&str, &'a str), agent: &'a str, mut each: impl FnMut(Statement<'a>)) {
    if name.eq_ignore_ascii_case("x-robots-tag") {
        header_words(value, agent).for_each(|word| each(Statement::Directive(word)));
    } else if name.eq_ignore_ascii_case("content-signal") {
        each(Statement::ContentSignal(value));
    } else if name.eq_ignore_ascii_case("content-usage") {
        each(Statement::ContentUsage(value));
    } else {
        of_tdm(name, value, each);
    }
}

/// Calls `each` with the statements of a `meta` element. `agent` is the product token of the crawler.
pub fn of_meta<'a>((name, content): (&str, &'a str), agent: &str, mut each: impl FnMut(Statement<'a>)) {
    let name = name.trim();
    if name.eq_ignore_ascii_case("robots") || name.eq_ignore_ascii_case(agent) {
        content.split(is_separator).for_each(|word| each(Statement::Directive(word)));
    } else {
        of_tdm(name, content, each);
    }
}

fn of_tdm<'a>(name: &str, value: &'a str, mut each: impl FnMut(Statement<'a>)) {
    let value = value.trim();
    if name.eq_ignore_ascii_case("tdm-policy") {
        each(Statement::TdmPolicy(value));
    } else if name.eq_ignore_ascii_case("tdm-reservation") && matches!(value, "0" | "1") {
        each(Statement::TdmReservation(value == "1"));
    }
}

/// Returns the directives of an `X-Robots-Tag` header for the crawler. `TOKEN:` before directives names the crawler to
/// which they apply, up to the next such name.
fn header_words<'a>(value: &'a str, agent: &'a str) -> impl Iterator<Item = &'a str> {
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

fn is_separator(c: char) -> bool {
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

    fn directives(value: &str) -> Vec<&str> {
        let mut found = vec![];
        of_header(("X-Robots-Tag", value), "orbweaver", |statement| match statement {
            Statement::Directive(word) if !word.is_empty() => found.push(word),
            _ => {}
        });
        found
    }

    #[test]
    fn directives_for_another_crawler_are_left_out() {
        assert_eq!(directives("otherbot: noindex, nofollow"), Vec::<&str>::new());
        assert_eq!(directives("OrbWeaver: noindex"), ["noindex"]);
        assert_eq!(directives("otherbot: noindex, orbweaver: nofollow"), ["nofollow"]);
        assert_eq!(directives("nofollow, otherbot: noindex"), ["nofollow"]);
        assert_eq!(directives("otherbot: noindex, *: noai noarchive"), ["noai", "noarchive"]);
    }

    #[test]
    fn a_date_is_no_crawler_s_name() {
        assert_eq!(directives("unavailable_after: 25 Jun 2010 15:00:00 PST, nofollow").last(), Some(&"nofollow"));
        assert_eq!(directives("noindex, max-snippet: 20, nofollow"), ["noindex", "nofollow"]);
    }

    #[test]
    fn an_element_is_read_if_its_name_addresses_the_crawler() {
        let found = |name: &str, content: &'static str| {
            let mut found = vec![];
            of_meta((name, content), "orbweaver", |statement| found.push(statement));
            found
        };
        assert_eq!(found("ROBOTS", "noindex"), [Statement::Directive("noindex")]);
        assert_eq!(found(" Orbweaver ", "NOAI"), [Statement::Directive("NOAI")]);
        assert_eq!(found("otherbot", "none"), []);
        assert_eq!(found("TDM-Reservation", " 1 "), [Statement::TdmReservation(true)]);
        assert_eq!(found("tdm-reservation", "yes"), []);
        assert_eq!(found("tdm-policy", " https://a.example/p "), [Statement::TdmPolicy("https://a.example/p")]);
        assert_eq!(found("content-signal", "search=no"), [], "defined for robots.txt and headers");
    }
}
