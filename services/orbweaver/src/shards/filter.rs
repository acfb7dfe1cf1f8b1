//! Pure: results that an export selects.

use std::{fmt, str::FromStr, time::SystemTime};

use orbweaver_url::Url;
use serde::{Deserialize, Serialize};

/// Conditions on exported results; each with no value selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Filter {
    pub(super) sites: Vec<Site>,
    pub(super) status: Vec<StatusRange>,
    pub(super) languages: Vec<Language>,
    /// Without near duplicates.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unique: bool,
    pub(super) since: Option<Time>,
    pub(super) until: Option<Time>,
}

/// Properties of a result that conditions apply to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Properties<'a> {
    pub(super) url: &'a str,
    pub(super) status: Option<u16>,
    pub(super) language: Option<&'a str>,
    /// Whether it is marked as a near duplicate.
    pub(super) is_near_duplicate: bool,
    /// RFC 3339.
    pub(super) time: &'a str,
}

impl Filter {
    /// Returns `true` if a result fulfils all conditions.
    ///
    /// # Errors
    /// Fails with the reason if a property is not valid.
    pub(super) fn selects(&self, result: &Properties<'_>) -> Result<bool, String> {
        let is_any = |wanted: bool, is_empty: bool| is_empty || wanted;
        let status = self.status.iter().any(|range| result.status.is_some_and(|status| range.contains(status)));
        let language = self.languages.iter().any(|range| result.language.is_some_and(|tag| range.contains(tag)));
        Ok(is_any(status, self.status.is_empty())
            && is_any(language, self.languages.is_empty())
            && !(self.unique && result.is_near_duplicate)
            && self.has_time(result.time)?
            && (self.sites.is_empty() || self.has_site(result.url)?))
    }

    fn has_time(&self, time: &str) -> Result<bool, String> {
        if self.since.is_none() && self.until.is_none() {
            return Ok(true);
        }
        let time = humantime::parse_rfc3339(time).map_err(|error| format!("the time `{time}`: {error}"))?;
        Ok(self.since.is_none_or(|since| since.0 <= time) && self.until.is_none_or(|until| time < until.0))
    }

    fn has_site(&self, url: &str) -> Result<bool, String> {
        let url = orbweaver_url::parse(url).map_err(|error| error.to_string())?;
        let host = host(&url);
        Ok(self.sites.iter().any(|site| site.contains(host)))
    }
}

/// Returns the host of a URL, without the dot of the DNS root.
fn host(url: &Url) -> &str {
    let host = url.host_str().unwrap_or_default();
    host.strip_suffix('.').unwrap_or(host)
}

/// A host with its subdomains. For a registrable domain these are the URLs of its site, however the crawl divides it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Site(String);

impl Site {
    fn contains(&self, host: &str) -> bool {
        host.strip_suffix(&*self.0).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

impl FromStr for Site {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_address = text.starts_with('[') && text.ends_with(']');
        let is_name = !text.contains(['/', '?', '#', '@', '\\']) && (is_address || !text.contains(':'));
        let parsed = orbweaver_url::parse(&format!("http://{text}/")).ok().filter(|_| is_name);
        let name = parsed.map(|url| host(&url).to_owned()).filter(|name| !name.is_empty());
        name.map(Self).ok_or_else(|| "expected a host, such as `example.org`".to_owned())
    }
}

/// A status, or a class of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum StatusRange {
    /// One status, such as 404.
    Code(u16),
    /// The hundred with this digit, such as 2xx.
    Class(u16),
}

impl StatusRange {
    fn contains(self, status: u16) -> bool {
        match self {
            Self::Code(code) => code == status,
            Self::Class(class) => class == status / 100,
        }
    }
}

impl FromStr for StatusRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (digits, is_class) = text.strip_suffix("xx").map_or((text, false), |class| (class, true));
        let number = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
        match number {
            Some(class @ 1..=9) if is_class => Ok(Self::Class(class)),
            Some(code @ 100..=999) if !is_class => Ok(Self::Code(code)),
            _ => Err("expected a status or a class of them, such as `404` or `2xx`".to_owned()),
        }
    }
}

/// A range of languages (RFC 4647, basic filtering): `en` contains `en-GB`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Language(String);

impl Language {
    /// Returns `true` if the range contains the language that a page declares; pages also write `en_GB`.
    fn contains(&self, tag: &str) -> bool {
        let (tag, range) = (tag.trim().as_bytes(), self.0.as_bytes());
        tag.get(..range.len()).is_some_and(|start| {
            let is_equal = |(a, b): (&u8, &u8)| a.eq_ignore_ascii_case(b) || (*a == b'_' && *b == b'-');
            start.iter().zip(range).all(is_equal)
        }) && matches!(tag.get(range.len()), None | Some(b'-' | b'_'))
    }
}

impl FromStr for Language {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_subtag =
            |tag: &str| (1..=8).contains(&tag.len()) && tag.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let text = text.to_ascii_lowercase().replace('_', "-");
        if !text.split('-').all(is_subtag) {
            return Err("expected a language tag, such as `en` or `pt-BR`".to_owned());
        }
        Ok(Self(text))
    }
}

/// A time, RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Time(SystemTime);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let day = || humantime::parse_rfc3339(&format!("{text}T00:00:00Z"));
        let time = humantime::parse_rfc3339_weak(text).or_else(|_| day()).map(Self);
        time.map_err(|_| "expected a time in UTC, such as `2027-01-01` or `2027-01-01T12:00:00Z`".to_owned())
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "{code}"),
            Self::Class(class) => write!(f, "{class}xx"),
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", humantime::format_rfc3339(self.0))
    }
}

/// Stores a type as its text.
macro_rules! stored_as_text {
    ($($name:ty),*) => { $(
        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )* };
}

stored_as_text!(Site, StatusRange, Language, Time);

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Properties<'static> = Properties {
        url: "https://docs.example.org/a",
        status: Some(404),
        language: Some("en-GB"),
        is_near_duplicate: false,
        time: "2027-01-01T00:00:00.000Z",
    };

    fn selects(filter: &Filter) -> bool {
        filter.selects(&PAGE).unwrap()
    }

    fn parsed<T: FromStr<Err = String>>(text: &str) -> Vec<T> {
        vec![text.parse().unwrap()]
    }

    #[test]
    fn a_site_is_a_host_with_its_subdomains() {
        for (site, is_selected) in [
            ("example.org", true),
            ("DOCS.example.org.", true),
            ("org", true),
            ("ocs.example.org", false),
            ("www.example.org", false),
            ("a.docs.example.org", false),
        ] {
            assert_eq!(selects(&Filter { sites: parsed(site), ..Filter::default() }), is_selected, "{site}");
        }
        for text in
            ["", "http://example.org", "example.org/a", "example.org:80", "a@example.org", "example.org?a", "[::1]:80"]
        {
            assert!(text.parse::<Site>().is_err(), "{text}");
        }
        assert_eq!("[::1]".parse::<Site>().unwrap().to_string(), "[::1]");
        assert_eq!("bücher.example".parse::<Site>().unwrap().to_string(), "xn--bcher-kva.example");
    }

    #[test]
    fn a_status_is_a_code_or_a_class() {
        for (status, is_selected) in [("404", true), ("4xx", true), ("400", false), ("2xx", false)] {
            assert_eq!(selects(&Filter { status: parsed(status), ..Filter::default() }), is_selected, "{status}");
        }
        let filter = Filter { status: parsed("4xx"), ..Filter::default() };
        assert!(!filter.selects(&Properties { status: None, ..PAGE }).unwrap(), "no response has no status");
        for text in ["", "xx", "0xx", "10xx", "44", "+40", "1000", "4x", "4XX"] {
            assert!(text.parse::<StatusRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_language_contains_its_regions() {
        for (language, is_selected) in [("en", true), ("EN_gb", true), ("en-US", false), ("e", false), ("fr", false)] {
            assert_eq!(
                selects(&Filter { languages: parsed(language), ..Filter::default() }),
                is_selected,
                "{language}"
            );
        }
        let filter = Filter { languages: parsed("en-gb"), ..Filter::default() };
        for (tag, is_selected) in [(Some("en_GB"), true), (Some("en"), false), (Some(""), false), (None, false)] {
            assert_eq!(filter.selects(&Properties { language: tag, ..PAGE }).unwrap(), is_selected, "{tag:?}");
        }
        assert!("*".parse::<Language>().is_err() && "".parse::<Language>().is_err());
    }

    #[test]
    fn a_period_contains_its_start_and_not_its_end() {
        let filter = |since: &str, until: &str| Filter {
            since: since.parse().ok(),
            until: until.parse().ok(),
            ..Filter::default()
        };
        assert!(selects(&filter("2027-01-01", "")) && !selects(&filter("", "2027-01-01T00:00:00Z")));
        assert!(selects(&filter("", "2027-01-01T00:00:00.001Z")) && !selects(&filter("2027-01-01T00:00:00.001Z", "")));
        let error = filter("2027-01-01", "").selects(&Properties { time: "yesterday", ..PAGE });
        assert!(error.unwrap_err().contains("`yesterday`"));
        assert!("7days".parse::<Time>().is_err());
    }

    #[test]
    fn all_conditions_apply() {
        let filter = Filter { sites: parsed("example.org"), status: parsed("404"), ..Filter::default() };
        assert!(selects(&filter) && selects(&Filter::default()));
        assert!(!selects(&Filter { languages: parsed("fr"), ..filter }));
        let near_duplicate = Properties { is_near_duplicate: true, ..PAGE };
        for (unique, is_selected) in [(false, true), (true, false)] {
            let filter = Filter { unique, ..Filter::default() };
            assert!(selects(&filter));
            assert_eq!(filter.selects(&near_duplicate), Ok(is_selected), "{unique}");
        }
    }
}
