//! Configuration of the extractor, and its limits.

use orbweaver_url::{MAX_URL_BYTES, WideDomains};

/// Options for extracting a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractOptions {
    /// Product token of the crawler: `meta name=TOKEN` and `X-Robots-Tag: TOKEN: ...` apply like those for all robots.
    pub agent: String,
    /// Whether to put links marked nofollow, and links of pages that ask robots not to follow them, into
    /// `crawl.discovered`.
    pub follow_nofollow: bool,
    /// Whether to add the decoded body to the document. A document is then larger by up to three times
    /// `max_body_bytes`.
    pub html: bool,
    /// Maximum number of body bytes read. Should not be below the fetcher's limit, else pages are cut twice.
    pub max_body_bytes: usize,
    /// Maximum length of a page's text, in bytes.
    pub max_text_bytes: usize,
    /// Maximum number of links of a page in its document and in the store; real pages have 28,000 and more. Further
    /// links are only followed.
    pub max_links: usize,
    /// Maximum total length of the URLs of these links, in bytes. Texts have no more bytes than the page.
    pub max_links_bytes: usize,
    /// Minimum number of links that a pass over a page takes, if it has as many; see [`pass`](crate::pass).
    pub pass_links: usize,
    /// Minimum total length of their URLs in bytes, if the page has as many. With a long `base` and short links,
    /// resolution makes a page grow a thousandfold; this limit bounds the memory.
    pub pass_bytes: usize,
    /// Maximum length of the text of one link, in bytes.
    pub max_link_text_bytes: usize,
    /// Domains whose hosts are separate sites; the same for all services of a pipeline.
    pub wide_domains: WideDomains,
}

impl Default for ExtractOptions {
    fn default() -> Self {
        Self {
            agent: "orbweaver".to_owned(),
            follow_nofollow: false,
            html: false,
            max_body_bytes: 16 << 20,
            max_text_bytes: 1 << 20,
            max_links: 100_000,
            max_links_bytes: 8 << 20,
            pass_links: 100_000,
            pass_bytes: 8 << 20,
            max_link_text_bytes: 1024,
            wide_domains: WideDomains::default(),
        }
    }
}

/// Configuration of the extractor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractorConfig {
    /// Number of pages extracted at the same time, each on a blocking thread. Should be the number of cores.
    pub threads: usize,
    /// Maximum number of pages per job: a job moves to a blocking thread once, unless it waits for memory.
    pub batch_pages: usize,
    /// Maximum size of the records of one job, in bytes, so that several threads share a few large pages; a single
    /// page may be larger.
    pub batch_bytes: usize,
    /// Memory for pages being extracted, and for their results until these are durable, in bytes. A page waits for
    /// free memory.
    pub memory: usize,
    /// Maximum number of URLs in one record of `crawl.discovered`; further links of a page to the same site go into
    /// further records.
    pub max_discovered_urls: usize,
    /// Maximum size of the URLs in one record of `crawl.discovered`, in bytes of JSON; less if the record limit is
    /// lower.
    pub max_discovered_bytes: usize,
    /// Record limit of the log, in bytes; a document whose record would exceed it is cut.
    pub record_limit: usize,
    /// Options for extracting a page.
    pub options: ExtractOptions,
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
            record_limit: 16 << 20,
            options: ExtractOptions::default(),
        }
    }
}

/// A setting out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("extractor setting `{key}` is `{value}`; allowed: {allowed}")]
pub struct ConfigError {
    pub key: &'static str,
    pub value: String,
    pub allowed: &'static str,
}

impl ExtractorConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// Returns the first setting that is out of range, and the allowed values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let range = |key, value: usize, (low, high, allowed): (usize, usize, &'static str)| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError { key, value: value.to_string(), allowed })
            }
        };
        range("threads", self.threads, (1, 1024, "1 to 1024"))?;
        range("batch_pages", self.batch_pages, (1, 1024, "1 to 1024"))?;
        range("batch_bytes", self.batch_bytes, (1, usize::MAX, "at least 1"))?;
        range("memory", self.memory, (1 << 20, 64 << 30, "1 MiB to 64 GiB"))?;
        range("max_discovered_urls", self.max_discovered_urls, (1, 100_000, "1 to 100000"))?;
        let room = (MAX_URL_BYTES, 16 << 20, "8192 (the longest url) to 16 MiB");
        range("max_discovered_bytes", self.max_discovered_bytes, room)?;
        self.options.validate()
    }
}

impl ExtractOptions {
    /// Returns the maximum number of links that a pass takes, and the maximum total length of their URLs in bytes: the
    /// links of a document are those of one pass.
    pub(crate) fn pass_limits(&self) -> (usize, usize) {
        (self.pass_links.max(self.max_links), self.pass_bytes.max(self.max_links_bytes))
    }

    /// Returns the options for a pass that only follows links.
    pub(crate) fn without_document(&self) -> Self {
        Self { html: false, max_text_bytes: 0, max_links: 0, max_links_bytes: 0, ..self.clone() }
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// Returns the first setting that is out of range, and the allowed values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let bytes = |key, value: usize, (high, allowed): (usize, &'static str)| {
            if (1..=high).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError { key, value: value.to_string(), allowed })
            }
        };
        bytes("max_body_bytes", self.max_body_bytes, (1 << 30, "1 byte to 1 GiB"))?;
        bytes("max_text_bytes", self.max_text_bytes, (1 << 30, "1 byte to 1 GiB"))?;
        bytes("max_links", self.max_links, (10_000_000, "1 to 10 million"))?;
        bytes("max_links_bytes", self.max_links_bytes, (32 << 20, "1 byte to 32 MiB"))?;
        bytes("max_link_text_bytes", self.max_link_text_bytes, (1 << 20, "1 byte to 1 MiB"))?;
        // RFC 9309 section 2.2.1 has no digits, but crawlers do (`MJ12bot`).
        if self.agent.is_empty() || !self.agent.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-')) {
            let allowed = "text that begins with a product token of letters, digits, `_` and `-`";
            return Err(ConfigError { key: "agent", value: self.agent.clone(), allowed });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(ExtractorConfig::default().validate(), Ok(()));
    }

    #[test]
    fn a_setting_out_of_range_is_named_with_what_is_allowed() {
        let config = ExtractorConfig { threads: 0, ..ExtractorConfig::default() };
        let error = config.validate().unwrap_err().to_string();
        assert_eq!(error, "extractor setting `threads` is `0`; allowed: 1 to 1024");
        let options = ExtractOptions { agent: "mj12bot".into(), ..ExtractOptions::default() };
        assert_eq!(options.validate(), Ok(()));
        let options = ExtractOptions { agent: "orb weaver".into(), ..ExtractOptions::default() };
        assert_eq!(options.validate().unwrap_err().key, "agent");
    }
}
