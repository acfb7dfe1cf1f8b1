//! Facts that a page states, as data.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::is_default;

/// Facts of a page: what it says of itself in `meta` elements, links, JSON-LD and microdata, and the language of its text.
///
/// A list is in the order of the page; one that is empty is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Time of publication: a date (`2026-11-29`), or RFC 3339 in the zone of the page if it has time and zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// Time of the last change, in the same form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
    /// Names of the authors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<String>,
    /// Name of the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site_name: Option<String>,
    /// Language that was detected in the text, ISO 639-1, or 639-3 if it has no shorter code. Absent if in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detected_language: Option<String>,
    /// Versions of the page in other languages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternates: Vec<Alternate>,
    /// Feeds that the page declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feeds: Vec<FeedLink>,
    /// URLs of the licences of the page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub licenses: Vec<String>,
    /// Statements on the use of the content.
    #[serde(default, skip_serializing_if = "is_default")]
    pub usage: UsageStatements,
    /// All `meta` elements with a property, name or `itemprop`, such as Open Graph.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meta: Vec<MetaElement>,
    /// Objects of the JSON-LD scripts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_ld: Vec<Map<String, Value>>,
    /// Items of the microdata, as WHATWG HTML 5.5 converts them to JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub microdata: Vec<Map<String, Value>>,
}

/// Version of a page in another language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternate {
    /// Value of `hreflang`, such as `de-AT` or `x-default`.
    pub language: String,
    /// URL, absolute.
    pub url: String,
}

/// Feed that a page declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedLink {
    /// URL, absolute.
    pub url: String,
    /// Media type.
    #[serde(rename = "type")]
    pub media_type: String,
    /// Title; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
}

/// A `meta` element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaElement {
    /// Property, name or `itemprop`, in lower case.
    pub name: String,
    /// Content, white space folded.
    pub content: String,
}

/// Statements of a page, or of the response, on the use of the content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageStatements {
    /// `noai` in meta robots or X-Robots-Tag: no use for artificial intelligence.
    #[serde(default, skip_serializing_if = "is_default")]
    pub noai: bool,
    /// `noimageai` there: no such use of its images.
    #[serde(default, skip_serializing_if = "is_default")]
    pub noimageai: bool,
    /// Value of `tdm-reservation` (TDM Reservation Protocol): whether the rights of text and data mining are reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tdm_reservation: Option<bool>,
    /// Value of `tdm-policy`: the URL of the terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tdm_policy: Option<String>,
    /// Value of the header Content-Signal, such as `search=yes, ai-train=no`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_signal: Option<String>,
    /// Value of the header Content-Usage (IETF AIPREF), such as `train-ai=n`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_usage: Option<String>,
}
