//! Comparison of documents and requests with the truth.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orbweaver_log::{Log, TopicPartition};
use orbweaver_messages::{Document, decode, topic};
use orbweaver_toyweb::{Entry, Expected, Fate};

use crate::digest::Digest;

/// Maximum wait for a record that must exist.
const READ_WAIT: Duration = Duration::from_secs(5);

/// Properties of a page, according to its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Size of the decoded body, in bytes.
    pub bytes: u64,
    /// Hash of the decoded body.
    pub hash: String,
    /// Links of the page.
    pub links: Digest,
    /// Words of the page's text.
    pub words: Digest,
    /// Whether the document was truncated.
    pub is_cut: bool,
}

impl Content {
    fn of(document: Document) -> Self {
        Self {
            bytes: document.bytes,
            links: Digest::of(document.links.iter().map(|link| link.url.as_str())),
            words: Digest::of(document.text.split_whitespace()),
            is_cut: !document.truncated.is_empty(),
            hash: document.content_hash,
        }
    }
}

/// Results of a crawl.
#[derive(Debug, Default)]
pub struct Found {
    /// Number of documents of each URL.
    pub documents: BTreeMap<String, u32>,
    /// Last document of each URL.
    pub contents: BTreeMap<String, Content>,
    /// Number of records that could not be processed.
    pub dead_letters: u64,
}

impl Found {
    /// Reads all documents and counts the dead letters.
    pub async fn read(log: &dyn Log) -> Result<Self> {
        Self::read_where(log, |_| true).await
    }

    /// Reads the documents of a crawl and counts the dead letters.
    pub async fn of_crawl(log: &dyn Log, crawl: &str) -> Result<Self> {
        Self::read_where(log, |document| *document.crawl == *crawl).await
    }

    async fn read_where(log: &dyn Log, is_wanted: impl Fn(&Document) -> bool) -> Result<Self> {
        let mut found = Self::default();
        for partition in 0..log.partitions(topic::DOCUMENTS)? {
            let tp = TopicPartition::new(topic::DOCUMENTS, partition);
            let bounds = log.bounds(tp).await?;
            let mut reader = log.reader(tp, bounds.start).await?;
            while reader.position() < bounds.end {
                let before = reader.position();
                for record in reader.read(READ_WAIT).await? {
                    let document: Document = decode("document", record.value.as_ref())?;
                    if !is_wanted(&document) {
                        continue;
                    }
                    *found.documents.entry(document.url.clone()).or_default() += 1;
                    found.contents.insert(document.url.clone(), Content::of(document));
                }
                ensure!(reader.position() > before, "{tp}: nothing to read at {before} below {}", bounds.end);
            }
        }
        for partition in 0..log.partitions(topic::DEAD_LETTERS)? {
            let bounds = log.bounds(TopicPartition::new(topic::DEAD_LETTERS, partition)).await?;
            found.dead_letters += bounds.end - bounds.start;
        }
        Ok(found)
    }

    /// Checks that exactly the pages of the web have documents, and that there are no dead letters. With `once` each
    /// page has exactly one, as when no process was disturbed.
    ///
    /// # Errors
    /// Lists the first URLs that violate this.
    pub fn check(&self, truth: &[Expected], once: bool) -> Result<()> {
        let mut left = self.documents.clone();
        let mut wrong = vec![];
        for expected in truth {
            let count = left.remove(&expected.url).unwrap_or(0);
            let right = match expected.fate {
                Fate::Fetched => count == 1 || (count > 1 && !once),
                // An incomplete body yields a truncated document or none.
                Fate::Cut => count <= 1 || !once,
                _ => count == 0,
            };
            if !right {
                wrong.push(format!("{}: {:?}, with {count} documents", expected.url, expected.fate));
            }
        }
        wrong.extend(left.keys().map(|url| format!("{url}: a document that is not in the truth")));
        let shown = wrong.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
        ensure!(wrong.is_empty(), "{} of {} URLs are wrong:\n{shown}", wrong.len(), truth.len());
        ensure!(self.dead_letters == 0, "{} dead letters", self.dead_letters);
        Ok(())
    }
}

/// Returns the number of requests for each page, excluding robots.txt, from the request log of a web.
pub fn requested_pages(log: &std::path::Path) -> Result<BTreeMap<String, u32>> {
    let text = std::fs::read_to_string(log)?;
    let mut pages = BTreeMap::new();
    for line in text.lines() {
        let entry: Entry = serde_json::from_str(line).with_context(|| line.to_owned())?;
        if !entry.target.starts_with("/robots") {
            *pages.entry(format!("http://{}{}", entry.host, entry.target)).or_default() += 1;
        }
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_lost_invented_or_there_twice_is_found() {
        let expected = |url: &str, fate| Expected { url: url.to_owned(), fate, least: 1, most: 1, kind: None };
        let truth = [expected("http://a/", Fate::Fetched), expected("http://b/", Fate::Gone)];
        let found = |documents: &[(&str, u32)], dead_letters| Found {
            documents: documents.iter().map(|(url, count)| ((*url).to_owned(), *count)).collect(),
            dead_letters,
            ..Found::default()
        };
        assert!(found(&[("http://a/", 1)], 0).check(&truth, true).is_ok());
        assert!(found(&[("http://a/", 2)], 0).check(&truth, false).is_ok());
        for (wrong, said) in [
            (found(&[], 0), "http://a/"),
            (found(&[("http://a/", 2)], 0), "2 documents"),
            (found(&[("http://a/", 1), ("http://b/", 1)], 0), "http://b/"),
            (found(&[("http://a/", 1), ("http://c/", 1)], 0), "http://c/"),
            (found(&[("http://a/", 1)], 3), "3 dead letters"),
        ] {
            let error = wrong.check(&truth, true).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
