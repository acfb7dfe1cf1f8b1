//! Configuration of the extractor.

use std::borrow::Cow;

use orbweaver_log::RECORD_LIMIT;
use orbweaver_messages::{Markdown, Page};
use orbweaver_settings::{Conflict, Cores, Count, GIB, MIB, Section, Size};
use orbweaver_url::{MAX_URL_BYTES, WideDomains};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the extractor: the section `extractor` of the configuration, and settings that it shares with others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExtractorConfig {
    /// Maximum number of pages that are extracted concurrently.
    ///
    /// Each is on a blocking thread.
    #[serde(with = "Cores")]
    pub threads: usize,
    /// Maximum number of pages per job.
    ///
    /// A job moves to a blocking thread once, unless it waits for memory.
    #[serde(with = "Count::<1, 1024>")]
    pub batch_pages: usize,
    /// Maximum size of the records of a job.
    ///
    /// Several threads thus share a few large pages; a single page may be larger.
    #[serde(with = "Size::<1, GIB>")]
    pub batch_bytes: usize,
    /// Memory for pages and results that are not yet durable.
    #[serde(with = "Size::<MIB, { 64 * GIB }>")]
    pub memory: usize,
    /// Maximum number of URLs per record of `crawl.discovered`.
    #[serde(with = "Count::<1, 100_000>")]
    pub max_discovered_urls: usize,
    /// Maximum size of the URLs in a record of `crawl.discovered`; must be well below the brokers' limit per record.
    ///
    /// In bytes of JSON; less if the record limit is lower.
    #[serde(with = "Size::<{ MAX_URL_BYTES as u64 }, { 16 * MIB }>")]
    pub max_discovered_bytes: usize,
    /// Also follow links marked nofollow.
    ///
    /// This includes links of pages that ask robots not to follow them.
    pub follow_nofollow: bool,
    /// Add the decoded body to the document.
    ///
    /// A document is then larger by up to three times `max_body_bytes`.
    pub html: bool,
    /// Add the main text to the document: without navigation and other boilerplate, with paragraphs.
    pub main_text: bool,
    /// Add the main text to the document as Markdown, with or without images.
    pub markdown: Markdown,
    /// Add facts of the page to the document, such as dates, authors, Open Graph, JSON-LD and the detected language.
    pub facts: bool,
    /// Add the other links of the page to the document: pictures with their alternative texts, scripts, style sheets, media,
    /// and `link` elements.
    ///
    /// At most `max_links`, with at most `max_links_bytes` of URLs and texts.
    pub other_links: bool,
    /// Mark documents whose main text is nearly that of an earlier page of their site and crawl.
    pub near_duplicates: bool,
    /// Maximum number of pages per partition with which others are compared; the oldest ones are dropped.
    ///
    /// A page takes 40 to 80 bytes of memory.
    #[serde(with = "Count::<1, 100_000_000>")]
    pub near_duplicate_pages: usize,
    /// Maximum size of a body; the rest is not read.
    #[serde(with = "Size::<1, GIB>")]
    pub max_body_bytes: usize,
    /// Maximum size of the stored text of a page, of its main text, and of its Markdown.
    #[serde(with = "Size::<1, GIB>")]
    pub max_text_bytes: usize,
    /// Maximum number of links of a page in its document and in the store; further links are only followed.
    ///
    /// Real pages have 28,000 and more.
    #[serde(with = "Count::<1, 10_000_000>")]
    pub max_links: usize,
    /// Maximum total size of the URLs of the links of a page in its document and in the store.
    ///
    /// The texts of links have no more bytes than the page.
    #[serde(with = "Size::<1, { 32 * MIB }>")]
    pub max_links_bytes: usize,
    /// Maximum size of the stored text of a link.
    #[serde(with = "Size::<1, MIB>")]
    pub max_link_text_bytes: usize,
    /// Discover the feeds that the page declares.
    #[serde(skip)]
    pub feeds: bool,
    /// Maximum number of requisites of a page that are discovered; 0: none.
    #[serde(skip)]
    pub requisites: u32,
    /// Product token of the crawler: `meta name=TOKEN` and `X-Robots-Tag: TOKEN: ...` apply like those for all robots.
    #[serde(skip)]
    pub agent: String,
    /// Minimum number of links that a pass over a page takes, if it has as many; see [`pass`](crate::pass).
    #[serde(skip)]
    pub pass_links: usize,
    /// Minimum total length of their URLs in bytes, if the page has as many. With a long `base` and short links,
    /// resolution makes a page grow a thousandfold; this limit bounds the memory.
    #[serde(skip)]
    pub pass_bytes: usize,
    /// Record limit of the log, in bytes; a document whose record would exceed it is cut.
    #[serde(skip)]
    pub record_limit: usize,
    /// Domains whose hosts are separate sites; the same for all services of a pipeline.
    #[serde(skip)]
    pub wide_domains: WideDomains,
}

impl Section for ExtractorConfig {
    const NAME: &'static str = "extractor";
}

impl Default for ExtractorConfig {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            batch_pages: 16,
            batch_bytes: 1 << 20,
            memory: 128 << 20,
            max_discovered_urls: 1000,
            max_discovered_bytes: 256 << 10,
            follow_nofollow: false,
            html: false,
            main_text: false,
            markdown: Markdown::None,
            facts: false,
            other_links: false,
            near_duplicates: false,
            near_duplicate_pages: 100_000,
            max_body_bytes: 16 << 20,
            max_text_bytes: 1 << 20,
            max_links: 100_000,
            max_links_bytes: 8 << 20,
            max_link_text_bytes: 1024,
            feeds: false,
            requisites: 0,
            agent: "orbweaver".to_owned(),
            pass_links: 100_000,
            pass_bytes: 8 << 20,
            record_limit: RECORD_LIMIT,
            wide_domains: WideDomains::default(),
        }
    }
}

impl ExtractorConfig {
    /// Returns the maximum number of links that a pass takes, and the maximum total length of their URLs in bytes: the
    /// links of a document are those of one pass.
    pub(crate) fn pass_limits(&self) -> (usize, usize) {
        (self.pass_links.max(self.max_links), self.pass_bytes.max(self.max_links_bytes))
    }

    /// Returns the settings for a page, whose crawl may have an agent of its own and determine what its documents
    /// contain.
    pub(crate) fn of_page(&self, page: &Page) -> Cow<'_, Self> {
        let of_documents = [page.html, page.main_text, page.facts, page.other_links, page.near_duplicates];
        let is_as_configured = of_documents.iter().all(Option::is_none) && page.markdown.is_none();
        let requisites = page.requisites.unwrap_or(0);
        if page.agent.is_none() && is_as_configured && page.feeds == self.feeds && requisites == self.requisites {
            return Cow::Borrowed(self);
        }
        let mut own = self.clone();
        own.feeds = page.feeds;
        own.requisites = requisites;
        own.html = page.html.unwrap_or(own.html);
        own.main_text = page.main_text.unwrap_or(own.main_text);
        own.markdown = page.markdown.unwrap_or(own.markdown);
        own.facts = page.facts.unwrap_or(own.facts);
        own.other_links = page.other_links.unwrap_or(own.other_links);
        own.near_duplicates = page.near_duplicates.unwrap_or(own.near_duplicates);
        own.agent = page.agent.clone().unwrap_or(own.agent);
        Cow::Owned(own)
    }

    /// Returns the settings for a pass that only follows links.
    pub(crate) fn without_document(&self) -> Self {
        Self {
            html: false,
            main_text: false,
            markdown: Markdown::None,
            facts: false,
            other_links: false,
            near_duplicates: false,
            requisites: 0,
            max_text_bytes: 0,
            max_links: 0,
            max_links_bytes: 0,
            ..self.clone()
        }
    }

    /// Checks the agent.
    ///
    /// # Errors
    /// Returns a conflict of `user_agent`.
    pub fn check_agent(&self) -> Result<(), Conflict> {
        // RFC 9309 section 2.2.1 has no digits, but crawlers do (`MJ12bot`).
        if self.agent.is_empty() || !self.agent.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-')) {
            let allowed = "text that begins with a product token of letters, digits, `_` and `-`";
            return Err(Conflict::allowed("user_agent", allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_a_product_token() {
        let with = |agent: &str| ExtractorConfig { agent: agent.into(), ..ExtractorConfig::default() };
        assert_eq!(with("mj12bot").check_agent(), Ok(()));
        assert_eq!(with("orb weaver").check_agent().unwrap_err().key, "user_agent");
    }
}
