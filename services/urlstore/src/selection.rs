//! Selection of the pages of a list: site, crawl and status. Pure.

use std::{fmt, str::FromStr};

use orbweaver_store::PageRow;
use orbweaver_url::{CrawlName, Fingerprint, SiteName, is_dns_name, parse};

/// Pages of a site that a crawl fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) crawl: CrawlName,
    pub(crate) site: SiteName,
    pub(crate) status: StatusFilter,
}

/// Allowed statuses of the last fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusFilter {
    Any,
    /// Without a response.
    Absent,
    /// Statuses with this first digit.
    Class(u16),
    One(u16),
}

impl Selection {
    /// Returns `true` if the page with this row is selected. An entry of the list may be of a page whose site or status has
    /// changed since.
    pub(crate) fn selects(&self, fingerprint: Fingerprint, row: &PageRow) -> bool {
        row.site == self.site && self.status.admits(row.status) && Fingerprint::of(&self.crawl, &row.key) == fingerprint
    }
}

impl fmt::Display for Selection {
    /// Formats the selection; different ones have different texts, since no part has a NUL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\0{}\0{}", self.crawl, self.site, self.status)
    }
}

impl StatusFilter {
    /// Allowed texts, for messages.
    pub(crate) const ALLOWED: &str =
        "a status such as `404`, a class from `1xx` to `9xx`, or `none`: without a response";

    pub(crate) fn admits(self, status: Option<u16>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => status.is_none(),
            Self::Class(class) => status.is_some_and(|status| status / 100 == class),
            Self::One(one) => status == Some(one),
        }
    }
}

impl FromStr for StatusFilter {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.as_bytes() {
            b"none" => Ok(Self::Absent),
            [class @ b'1'..=b'9', b'x', b'x'] => Ok(Self::Class(u16::from(class - b'0'))),
            [b'1'..=b'9', _, _] if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().map(Self::One).map_err(drop)
            }
            _ => Err(()),
        }
    }
}

impl fmt::Display for StatusFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => Ok(()),
            Self::Absent => f.write_str("none"),
            Self::Class(class) => write!(f, "{class}xx"),
            Self::One(one) => write!(f, "{one}"),
        }
    }
}

/// Reads the name of a site: a domain, a host or an IP address, an IPv6 address in brackets. International names may have
/// either form.
pub(crate) fn site(text: &str) -> Option<SiteName> {
    let is_bracketed = text.starts_with('[') && text.ends_with(']');
    if text.contains(['/', '\\', '@', '?', '#']) || (text.contains(':') && !is_bracketed) {
        return None;
    }
    let url = parse(&format!("http://{text}/")).ok()?;
    let host = url.host_str()?;
    // A host without empty labels ends with at most one dot, that of the root.
    (is_bracketed || is_dns_name(host)).then(|| host.strip_suffix('.').unwrap_or(host).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn admitted(filter: &str) -> Vec<Option<u16>> {
        let filter: StatusFilter = filter.parse().unwrap();
        [None, Some(99), Some(200), Some(204), Some(299), Some(300), Some(404)]
            .into_iter()
            .filter(|status| filter.admits(*status))
            .collect()
    }

    #[test]
    fn a_status_is_one_a_class_or_none() {
        assert_eq!(admitted("404"), [Some(404)]);
        assert_eq!(admitted("2xx"), [Some(200), Some(204), Some(299)]);
        assert_eq!(admitted("none"), [None]);
        for text in ["", "0xx", "2XX", "2x", "20", "2000", "x", "+20", "099", " 200", "None", "two", "2\u{e4}"] {
            assert_eq!(text.parse::<StatusFilter>(), Err(()), "{text}");
        }
    }

    #[test]
    fn a_site_has_one_name_in_each_spelling() {
        for (text, name) in [
            ("example.org", "example.org"),
            ("EXAMPLE.org.", "example.org"),
            ("m\u{fc}nchen.example", "xn--mnchen-3ya.example"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(site(text).as_deref(), Some(name), "{text}");
        }
        for text in [
            "",
            ".",
            "a..b",
            "a..",
            "example.org:80",
            "example.org/",
            "u@example.org",
            "a?b",
            "a#b",
            "::1",
            "[::1]:80",
            "a b",
        ] {
            assert_eq!(site(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_status_is_read_back_from_its_text(filter in "[1-9]xx|[1-9][0-9]{2}|none") {
            prop_assert_eq!(filter.parse::<StatusFilter>().unwrap().to_string(), filter);
        }

        #[test]
        fn the_name_of_a_site_is_that_of_itself(text in "\\PC{0,20}|[a-z0-9.\\[\\]:%-]{0,20}") {
            if let Some(name) = site(&text) {
                prop_assert_eq!(site(&name), Some(name));
            }
        }
    }
}
