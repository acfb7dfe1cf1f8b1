//! Pure: exported records of a line of the results.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{args::Kind, filter::Properties};

/// Line of `documents.jsonl`, as far as an export needs it.
#[derive(Debug, Deserialize)]
pub(super) struct DocumentLine<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
    status: u16,
    #[serde(borrow)]
    fetched_at: Cow<'a, str>,
    #[serde(default)]
    language: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    facts: Option<FactsOfDocument<'a>>,
    #[serde(default)]
    near_duplicate_of: Option<Cow<'a, str>>,
    #[serde(default)]
    visit: u32,
    /// Parsed if they are exported.
    #[serde(borrow)]
    links: &'a RawValue,
    /// Parsed in the same way.
    #[serde(default, borrow)]
    other_links: Option<&'a RawValue>,
}

/// Facts in `documents.jsonl`.
#[derive(Debug, Deserialize)]
struct FactsOfDocument<'a> {
    #[serde(default, borrow)]
    detected_language: Option<Cow<'a, str>>,
}

/// Link in `documents.jsonl`.
#[derive(Debug, Deserialize)]
struct LinkOnPage<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(borrow)]
    text: Cow<'a, str>,
    #[serde(default, borrow)]
    rel: Cow<'a, str>,
    #[serde(default, borrow)]
    kind: Cow<'a, str>,
}

/// Record of a link.
#[derive(Debug, Serialize)]
struct Edge<'a> {
    from: &'a str,
    to: &'a str,
    text: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    rel: &'a str,
    /// Absent for the usual one, as in the document.
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    fetched_at: &'a str,
    #[serde(skip_serializing_if = "is_first")]
    visit: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde expects")]
fn is_first(visit: &u32) -> bool {
    *visit == 0
}

/// Line of `urls.jsonl`, as far as an export needs it.
#[derive(Debug, Deserialize)]
pub(super) struct PageLine<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(default)]
    status: Option<u16>,
    #[serde(borrow)]
    time: Cow<'a, str>,
}

/// File of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Documents,
    Urls,
}

impl Source {
    /// All files, in the order of the export.
    pub(super) const ALL: [Self; 2] = [Self::Documents, Self::Urls];

    /// Returns the name of the file.
    pub(super) fn file(self) -> &'static str {
        match self {
            Self::Documents => "documents.jsonl",
            Self::Urls => "urls.jsonl",
        }
    }

    /// Returns the kinds of results in the file.
    pub(super) fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Documents => &[Kind::Documents, Kind::Links],
            Self::Urls => &[Kind::Pages],
        }
    }
}

/// Parsed line of a result file.
pub(super) enum Line<'a> {
    Document(&'a str, DocumentLine<'a>),
    Page(&'a str, PageLine<'a>),
}

impl<'a> Line<'a> {
    /// Parses a line of this file.
    ///
    /// # Errors
    /// Fails with the reason if the line is not valid.
    pub(super) fn parse(source: Source, line: &'a [u8]) -> Result<Self, String> {
        let line = std::str::from_utf8(line).map_err(|error| error.to_string())?;
        Ok(match source {
            Source::Documents => Self::Document(line, parsed(line)?),
            Source::Urls => Self::Page(line, parsed(line)?),
        })
    }

    /// Returns the properties that conditions apply to.
    pub(super) fn properties(&self) -> Properties<'_> {
        match self {
            Self::Document(_, document) => Properties {
                url: &document.url,
                status: Some(document.status),
                language: document.language(),
                is_near_duplicate: document.near_duplicate_of.is_some(),
                time: &document.fetched_at,
            },
            Self::Page(_, page) => Properties {
                url: &page.url,
                status: page.status,
                language: None,
                is_near_duplicate: false,
                time: &page.time,
            },
        }
    }

    /// Appends the records of a kind, each with a line feed, and returns their number.
    ///
    /// # Errors
    /// Fails with the reason if the line is not valid.
    pub(super) fn append_to(&self, lines: &mut Vec<u8>, kind: Kind) -> Result<u64, String> {
        match (self, kind) {
            (Self::Document(line, _), Kind::Documents) | (Self::Page(line, _), Kind::Pages) => {
                lines.extend_from_slice(line.as_bytes());
                lines.push(b'\n');
                Ok(1)
            }
            (Self::Document(_, document), Kind::Links) => document.append_links_to(lines),
            _ => Ok(0),
        }
    }
}

impl DocumentLine<'_> {
    /// Returns the declared language, unless another one was detected in the text: declarations are often those of a template.
    fn language(&self) -> Option<&str> {
        let declared = self.language.as_deref();
        let Some(detected) = self.facts.as_ref().and_then(|facts| facts.detected_language.as_deref()) else {
            return declared;
        };
        let is_confirmed = |tag: &&str| tag.split(['-', '_']).next().unwrap_or(tag).eq_ignore_ascii_case(detected);
        declared.filter(is_confirmed).or(Some(detected))
    }

    fn append_links_to(&self, lines: &mut Vec<u8>) -> Result<u64, String> {
        let mut links: Vec<LinkOnPage<'_>> = parsed(self.links.get())?;
        if let Some(others) = self.other_links {
            links.extend(parsed::<Vec<LinkOnPage<'_>>>(others.get())?);
        }
        for link in &links {
            let edge = Edge {
                from: &self.url,
                to: &link.url,
                text: &link.text,
                rel: &link.rel,
                kind: &link.kind,
                fetched_at: &self.fetched_at,
                visit: self.visit,
            };
            serde_json::to_writer(&mut *lines, &edge).map_err(|error| error.to_string())?;
            lines.push(b'\n');
        }
        Ok(links.len() as u64)
    }
}

fn parsed<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn records(source: Source, kind: Kind, line: &str) -> Result<(String, u64), String> {
        let mut lines = vec![];
        let number = Line::parse(source, line.as_bytes())?.append_to(&mut lines, kind)?;
        Ok((String::from_utf8(lines).unwrap(), number))
    }

    #[test]
    fn a_link_is_an_edge_with_the_time_of_its_page() {
        let links = json!([{"url": "http://b.test/\u{e9}", "text": "a \"b\"", "rel": "nofollow"}, {"url": "http://c.test/", "text": ""}]);
        let mut document = json!({"url": "http://a.test/", "status": 200, "fetched_at": "2027-01-01T00:00:00.000Z", "links": links, "title": "T"});
        let (edges, number) = records(Source::Documents, Kind::Links, &document.to_string()).unwrap();
        let expected = [
            r#"{"from":"http://a.test/","to":"http://b.test/é","text":"a \"b\"","rel":"nofollow","fetched_at":"2027-01-01T00:00:00.000Z"}"#,
            r#"{"from":"http://a.test/","to":"http://c.test/","text":"","fetched_at":"2027-01-01T00:00:00.000Z"}"#,
        ];
        assert_eq!((edges.lines().collect::<Vec<_>>(), number), (expected.to_vec(), 2));
        document["visit"] = json!(3);
        document["links"] = json!([{"url": "x", "text": "y"}]);
        let (edges, _) = records(Source::Documents, Kind::Links, &document.to_string()).unwrap();
        assert!(edges.ends_with("\"visit\":3}\n"), "{edges}");
        document["other_links"] = json!([{"url": "z", "text": "", "rel": "next", "kind": "next"}]);
        let (edges, number) = records(Source::Documents, Kind::Links, &document.to_string()).unwrap();
        let other = r#"{"from":"http://a.test/","to":"z","text":"","rel":"next","kind":"next","fetched_at""#;
        assert!(number == 2 && edges.lines().nth(1).unwrap().starts_with(other), "{edges}");
        document["other_links"] = json!(null);
        document["links"] = json!([]);
        assert_eq!(records(Source::Documents, Kind::Links, &document.to_string()).unwrap(), (String::new(), 0));
    }

    #[test]
    fn a_detected_language_is_preferred_to_another_one_that_was_declared() {
        for (declared, detected, language) in [
            (json!("en-GB"), json!(null), Some("en-GB")),
            (json!("en-GB"), json!({"detected_language": "en"}), Some("en-GB")),
            (json!("en-GB"), json!({"detected_language": "de", "meta": []}), Some("de")),
            (json!(null), json!({"detected_language": "de"}), Some("de")),
            (json!("en"), json!({}), Some("en")),
            (json!(null), json!({}), None),
        ] {
            let line = json!({"url": "a", "status": 200, "fetched_at": "", "language": declared, "facts": detected, "links": []});
            let line = line.to_string();
            let document = Line::parse(Source::Documents, line.as_bytes()).unwrap();
            assert_eq!(document.properties().language, language, "{declared} {detected}");
        }
    }

    #[test]
    fn a_document_with_a_mark_is_a_near_duplicate() {
        for (mark, is_near_duplicate) in [(json!(null), false), (json!("22959a3ffd84ca834c2b3c9e624a1134"), true)] {
            let line = json!({"url": "a", "status": 200, "fetched_at": "", "links": [], "near_duplicate_of": mark})
                .to_string();
            let document = Line::parse(Source::Documents, line.as_bytes()).unwrap();
            assert_eq!(document.properties().is_near_duplicate, is_near_duplicate);
        }
    }

    #[test]
    fn documents_and_pages_are_their_lines() {
        let document = r#"{ "url":"a", "status":200, "fetched_at":"now", "links":[], "text":"\u0041"}"#;
        assert_eq!(records(Source::Documents, Kind::Documents, document).unwrap(), (format!("{document}\n"), 1));
        let page = r#"{"url":"a","status":null,"time":"now", "x":1.50}"#;
        assert_eq!(records(Source::Urls, Kind::Pages, page).unwrap(), (format!("{page}\n"), 1));
    }

    #[test]
    fn a_line_of_another_form_is_refused() {
        for line in ["", "{}", "[]", r#"{"url":"a","status":200,"fetched_at":"now"}"#, "{\"url\":\"a\",\"sta"] {
            assert!(records(Source::Documents, Kind::Documents, line).is_err(), "{line}");
        }
        let links = r#"{"url":"a","status":200,"fetched_at":"now","links":[{"url":7,"text":""}]}"#;
        assert!(records(Source::Documents, Kind::Links, links).is_err());
        let others = r#"{"url":"a","status":200,"fetched_at":"now","links":[],"other_links":{}}"#;
        assert!(records(Source::Documents, Kind::Links, others).is_err());
        assert!(Line::parse(Source::Urls, b"{\"url\":\"a\",\"time\":\"\",\"x\":\"\xff\"}").is_err());
        assert!(records(Source::Urls, Kind::Pages, r#"{"url":"a","time":"now"} {}"#).is_err());
    }
}
