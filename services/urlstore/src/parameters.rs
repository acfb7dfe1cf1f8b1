//! Parameters of a query. Pure.
//!
//! A parameter that is unknown or repeated is refused: otherwise the part of an unescaped URL after its first `&` would be
//! ignored silently, and another page be found.

use std::borrow::Cow;

use orbweaver_url::{CrawlName, Keying, Policy};
use percent_encoding::percent_decode_str;

use crate::{
    identity::Identity,
    problem::{Kind, Problem},
    selection::{self, Selection, StatusFilter},
};

/// Maximum length of a query, in bytes: a URL of the maximum length with each byte escaped, and the other parameters.
pub(crate) const MAX_QUERY_BYTES: usize = 32 << 10;
/// Parameters by which each route finds a page.
pub(crate) const OF_PAGE: [&str; 4] = ["url", "crawl", "canonical", "resolve"];
/// Allowed values of the name of a site.
pub(crate) const SITES: &str = "a registrable domain, a host or an IP address, such as `example.org`";
/// Maximum number of entries of a list, and the default.
pub(crate) const MAX_LIMIT: usize = 1000;
pub(crate) const LIMIT: usize = 100;

/// Parameters of a query, each at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameters(Vec<(String, String)>);

/// The page that a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    /// URL as given.
    pub(crate) requested: String,
    pub(crate) keying: Keying,
    pub(crate) identity: Identity,
}

impl Parameters {
    /// Reads a query that may have the parameters `own` in addition to [`OF_PAGE`].
    pub(crate) fn read(query: Option<&str>, own: &[&str]) -> Result<Self, Problem> {
        Self::among(query, &[&OF_PAGE, own].concat())
    }

    /// Reads a query that may have these parameters.
    pub(crate) fn among(query: Option<&str>, names: &[&str]) -> Result<Self, Problem> {
        let query = query.unwrap_or_default();
        if query.len() > MAX_QUERY_BYTES {
            let detail = format!("the query has {} bytes; allowed: {MAX_QUERY_BYTES}", query.len());
            return Err(Problem::new(Kind::UriTooLong, detail));
        }
        let mut found: Vec<(String, String)> = vec![];
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decoded(name).ok().filter(|name| names.contains(&&**name));
            let Some(name) = name else { return Err(unknown(pair, names)) };
            if found.iter().any(|(known, _)| *known == name) {
                return Err(Problem::invalid(&name, "the parameter is given twice", "once"));
            }
            let value = decoded(value).map_err(|()| {
                Problem::invalid(&name, "the escaped bytes of the parameter are not valid UTF-8", "UTF-8")
            })?;
            found.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(found))
    }

    /// Returns the value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the page; `policy` applies unless the request names one.
    pub(crate) fn subject(&self, policy: Policy) -> Result<Subject, Problem> {
        let Some(requested) = self.get("url") else {
            return Err(Problem::invalid("url", "the parameter is missing", "an http or https URL, percent-encoded"));
        };
        subject(requested, keying(self.get("crawl"), self.get("canonical"), policy)?)
            .map_err(|detail| Problem::invalid("url", detail, "an http or https URL, percent-encoded"))
    }

    /// Returns whether redirects and canonical URLs are followed.
    pub(crate) fn follows(&self) -> Result<bool, Problem> {
        Ok(self.one_of("resolve", ["yes", "no"])? == "yes")
    }

    /// Returns the pages of a list.
    pub(crate) fn selection(&self) -> Result<Selection, Problem> {
        let Some(site) = self.get("site") else {
            return Err(Problem::invalid("site", "the parameter is missing", SITES));
        };
        let site = selection::site(site);
        let site = site.ok_or_else(|| Problem::invalid("site", "the value is not the name of a site", SITES))?;
        let crawl = keying(self.get("crawl"), None, Policy::STANDARD)?.crawl;
        let status = self.get("status").map_or(Ok(StatusFilter::Any), str::parse);
        let status = status.map_err(|()| {
            Problem::invalid("status", "the value is not one of the allowed ones", StatusFilter::ALLOWED)
        })?;
        Ok(Selection { crawl, site, status })
    }

    /// Returns the maximum number of entries.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        let Some(text) = self.get("limit") else { return Ok(LIMIT) };
        let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
        limit.ok_or_else(|| {
            Problem::invalid("limit", "the value is not a number of entries", format!("1 to {MAX_LIMIT}"))
        })
    }

    /// Returns which of these words a parameter has; the first one is the default.
    pub(crate) fn one_of<const N: usize>(&self, name: &str, words: [&'static str; N]) -> Result<&'static str, Problem> {
        let Some(given) = self.get(name) else { return Ok(words[0]) };
        let word = words.into_iter().find(|word| *word == given);
        let allowed = || words.map(|word| format!("`{word}`")).join(", ");
        word.ok_or_else(|| Problem::invalid(name, "the value is not one of the allowed ones", allowed()))
    }
}

/// Returns how keys are derived; the parts have the names of their parameters.
pub(crate) fn keying(crawl: Option<&str>, canonical: Option<&str>, policy: Policy) -> Result<Keying, Problem> {
    let crawl = crawl.map_or_else(|| Ok(CrawlName::default()), CrawlName::new);
    let crawl = crawl.map_err(|error| Problem::invalid("crawl", error.to_string(), "the name of a crawl"))?;
    let policy = canonical.map_or(Ok(policy), str::parse);
    let policy = policy.map_err(|error| {
        Problem::invalid("canonical", error.to_string(), "`standard`, `aggressive` or `raw`, and rules after commas")
    })?;
    Ok(Keying { crawl, policy, ..Keying::default() })
}

/// Returns the page of a URL, or the reason why it is none.
pub(crate) fn subject(requested: &str, keying: Keying) -> Result<Subject, String> {
    let identity = Identity::read(requested, &keying).map_err(|error| error.to_string())?;
    Ok(Subject { requested: requested.to_owned(), keying, identity })
}

/// Decodes a name or a value of a form (WHATWG URL section 5.1).
fn decoded(text: &str) -> Result<Cow<'_, str>, ()> {
    let spaced = if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    match spaced {
        Cow::Borrowed(text) => percent_decode_str(text).decode_utf8().map_err(drop),
        Cow::Owned(text) => {
            percent_decode_str(&text).decode_utf8().map(|text| Cow::Owned(text.into_owned())).map_err(drop)
        }
    }
}

fn unknown(pair: &str, names: &[&str]) -> Problem {
    const SHOWN: usize = 40;
    let name: String = pair.split('=').next().unwrap_or_default().chars().take(SHOWN).collect();
    let allowed: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let escape = if names.contains(&"url") { "; within the parameter `url`, `&` is written `%26`" } else { "" };
    let detail = format!("there is no parameter `{name}`{escape}");
    Problem::invalid("query", detail, allowed.join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(query: &str) -> Result<Parameters, Problem> {
        Parameters::read(Some(query), &["limit", "resolve"])
    }

    fn refused<T: std::fmt::Debug>(result: Result<T, Problem>) -> (String, String) {
        let problem = result.unwrap_err();
        assert_eq!(problem.status, 400);
        (problem.part.unwrap(), problem.detail)
    }

    #[test]
    fn a_query_is_read_as_a_form() {
        let parameters = read("url=https%3A%2F%2Fa.example%2F%3Fb%26c%2Bd+e&crawl=docs").unwrap();
        let subject = parameters.subject(Policy::STANDARD).unwrap();
        assert_eq!(subject.requested, "https://a.example/?b&c+d e");
        assert_eq!((&*subject.keying.crawl, subject.keying.policy), ("docs", Policy::STANDARD));
        let bare = read("url=https://a.example/?b=c").unwrap().subject(Policy::STANDARD).unwrap();
        assert_eq!(bare.identity.canonical, "https://a.example/?b=c");
    }

    #[test]
    fn the_rest_of_an_unescaped_url_is_refused_and_not_ignored() {
        let (part, detail) = refused(read("url=https://a.example/?b=c&d=e"));
        assert_eq!(part, "query");
        assert!(detail.contains("`d`") && detail.contains("%26"), "{detail}");
    }

    #[test]
    fn each_fault_names_its_parameter() {
        for (query, expected) in [
            ("url=a.example&url=b.example", "url"),
            ("url=%ff", "url"),
            ("", "url"),
            ("url=ftp://a.example", "url"),
            ("url=a.example&crawl=", "crawl"),
            ("url=a.example&crawl=a%00b", "crawl"),
            ("url=a.example&canonical=none", "canonical"),
            ("%ff=1", "query"),
        ] {
            let result = read(query).and_then(|parameters| parameters.subject(Policy::STANDARD));
            assert_eq!(refused(result).0, expected, "{query}");
        }
        for (query, expected) in [
            ("", "site"),
            ("site=a/b", "site"),
            ("site=a.example&status=ok", "status"),
            ("site=a.example&crawl=", "crawl"),
            ("site=a.example&site=b.example", "site"),
            ("site=a.example&url=a.example", "query"),
        ] {
            let result = Parameters::among(Some(query), &["site", "crawl", "status"]);
            assert_eq!(refused(result.and_then(|parameters| parameters.selection())).0, expected, "{query}");
        }
        for limit in ["0", "1001", "-1", "", "1e3", "99999999999999999999"] {
            assert_eq!(refused(read(&format!("limit={limit}")).unwrap().limit()).0, "limit");
        }
        assert_eq!(refused(read("resolve=maybe").unwrap().one_of("resolve", ["yes", "no"])).0, "resolve");
    }

    #[test]
    fn limits_are_inclusive_and_have_defaults() {
        let limit = |query: &str| read(query).unwrap().limit().unwrap();
        assert_eq!([limit(""), limit("limit=1"), limit("limit=1000")], [100, 1, 1000]);
        assert_eq!(read("").unwrap().one_of("resolve", ["yes", "no"]), Ok("yes"));
        assert_eq!(read("resolve=no").unwrap().one_of("resolve", ["yes", "no"]), Ok("no"));
    }

    #[test]
    fn a_query_of_the_maximum_length_is_read() {
        assert!(read(&format!("crawl={}", "a".repeat(MAX_QUERY_BYTES - 6))).is_ok());
        let problem = read(&"a".repeat(MAX_QUERY_BYTES + 1)).unwrap_err();
        assert_eq!((problem.kind, problem.status), (Kind::UriTooLong, 414));
    }

    proptest! {
        #[test]
        fn no_query_makes_it_panic(query in "\\PC{0,60}|(url|crawl|limit|%[0-9a-f]{2}|[&=+]){0,20}") {
            let _ = read(&query).and_then(|parameters| parameters.subject(Policy::STANDARD));
        }

        #[test]
        fn an_escaped_value_is_read_back(value in "\\PC{0,60}") {
            let escaped = percent_encoding::utf8_percent_encode(&value, percent_encoding::NON_ALPHANUMERIC);
            let parameters = read(&format!("url={escaped}")).unwrap();
            prop_assert_eq!(parameters.get("url"), Some(&*value));
        }
    }
}
