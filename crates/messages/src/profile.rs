//! Settings of the requests of a crawl.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ProxyUrl, is_default};

/// Fetch profile of a crawl: the settings of its requests. A setting that is absent is that of the services.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchProfile {
    /// Name of the crawler in the requests of the crawl; its product token is looked up in robots.txt and robots
    /// directives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// Contact for site owners: a URL or `mailto:`, sent in the user agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// Additional headers of every request, which replace those of the service with the same names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Politeness delay of the crawl at each site, in milliseconds, from 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    /// Decoded bytes that are read of a body, if fewer than the service reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_body_bytes: Option<u64>,
    /// Media types whose bodies are read, in addition to HTML and XHTML: `type/subtype`, `type/*` or `*/*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<String>,
    /// Whether no robots.txt is requested for the crawl. Only for your own sites.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ignore_robots: bool,
    /// Whether the sitemaps of its sites are read: those that robots.txt names, else `/sitemap.xml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sitemaps: Option<bool>,
    /// Whether the feeds that its pages declare are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feeds: Option<bool>,
    /// Whether all its responses are archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<bool>,
    /// Maximum number of requisites of each page that are fetched, such as pictures and style sheets; absent or 0: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requisites: Option<u32>,
    /// Whether its documents contain the decoded body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<bool>,
    /// Whether its documents contain the main text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_text: Option<bool>,
    /// Main text of its documents as Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub markdown: Option<Markdown>,
    /// Whether its documents contain the facts of the pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<bool>,
    /// Whether its documents contain the other links of the pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_links: Option<bool>,
    /// Whether its documents are marked that are near duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_duplicates: Option<bool>,
    /// Purposes of the crawl. A page that its site refuses for one of them is not kept; with an empty list all are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Vec<CrawlPurpose>>,
    /// Proxy of its requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyUrl>,
}

/// Purpose of a crawl, which sites may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CrawlPurpose {
    /// A search index, whose results lead to the pages.
    Search,
    /// Input of AI models, such as grounding and retrieval-augmented generation.
    AiInput,
    /// Training of AI models.
    AiTrain,
    /// An archive, which shows copies of the pages.
    Archive,
}

impl CrawlPurpose {
    /// All purposes.
    pub const ALL: [Self; 4] = [Self::Search, Self::AiInput, Self::AiTrain, Self::Archive];

    /// Returns the name, as it is serialized.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::AiInput => "ai-input",
            Self::AiTrain => "ai-train",
            Self::Archive => "archive",
        }
    }
}

/// Main text of a document as Markdown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Markdown {
    /// With links, and without images.
    Text,
    /// With links and images.
    Images,
    /// The document has no Markdown.
    #[default]
    None,
}

impl Markdown {
    /// Returns the name, as it is serialized.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Images => "images",
            Self::None => "none",
        }
    }
}
