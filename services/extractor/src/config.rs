//! What can be set, and its limits.

use orbweaver_url::{MAX_URL_BYTES, WideDomains};

/// How one page is extracted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractOptions {
    /// The crawler's product token: `meta name=TOKEN` and `X-Robots-Tag: TOKEN: ...` apply as those for all robots do.
    pub agent: String,
    /// Put links marked nofollow, and links of pages that ask not to be followed, into `crawl.discovered` too.
    pub follow_nofollow: bool,
    /// Add the decoded body to the document. A document then has up to three times `max_body_bytes` more.
    pub html: bool,
    /// A body is read up to this many bytes. Should not be below the fetcher's limit, else pages are cut twice.
    pub max_body_bytes: usize,
    /// A page's text is kept up to this many bytes.
    pub max_text_bytes: usize,
    /// Links that are taken from a page at most; real pages have 28,000 and more.
    pub max_links: usize,
    /// The URLs of all links of a page together have at most this many bytes. A long `base` and short links make a page grow a
    /// thousand times when its links are resolved; this is what bounds it. Texts have no more bytes than the page.
    pub max_links_bytes: usize,
    /// The text of one link is kept up to this many bytes.
    pub max_link_text_bytes: usize,
    /// Domains whose hosts are sites of their own; the same for all services of a pipeline.
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
            max_link_text_bytes: 1024,
            wide_domains: WideDomains::default(),
        }
    }
}

/// Settings of the extractor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractorConfig {
    /// Pages that are extracted at the same time, each on a blocking thread. Should be the number of cores.
    pub threads: usize,
    /// Pages of one job at most: each job hops to a blocking thread once.
    pub batch_pages: usize,
    /// Bytes of records of one job at most, so that a few large pages are shared out; one page may have more.
    pub batch_bytes: usize,
    /// Bytes of pages being extracted and of their results until these are durable. A page waits until there is room for it.
    pub memory: usize,
    /// URLs in one record of `crawl.discovered` at most; the links of a page to one site go on in further records.
    pub max_discovered_urls: usize,
    /// Bytes of URLs in JSON in one record of `crawl.discovered` at most; fewer where the record limit is lower.
    pub max_discovered_bytes: usize,
    /// The largest record that the log takes, in bytes; a document whose record would be larger is cut.
    pub record_limit: usize,
    /// How a page is extracted.
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

/// A setting is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("extractor setting `{key}` is `{value}`; allowed is {allowed}")]
pub struct ConfigError {
    /// The setting.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub allowed: &'static str,
}

impl ExtractorConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of range, and what is allowed.
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
        let room = (MAX_URL_BYTES, 16 << 20, "8192 (one longest url) to 16 MiB");
        range("max_discovered_bytes", self.max_discovered_bytes, room)?;
        self.options.validate()
    }
}

impl ExtractOptions {
    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of range, and what is allowed.
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
        // RFC 9309 section 2.2.1: a product token is made of letters, "_" and "-".
        if self.agent.is_empty() || !self.agent.bytes().all(|c| c.is_ascii_alphabetic() || matches!(c, b'_' | b'-')) {
            let allowed = "a product token of letters, `_` and `-`";
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
        assert_eq!(error, "extractor setting `threads` is `0`; allowed is 1 to 1024");
        let options = ExtractOptions { agent: "orb weaver".into(), ..ExtractOptions::default() };
        assert_eq!(options.validate().unwrap_err().key, "agent");
    }
}
