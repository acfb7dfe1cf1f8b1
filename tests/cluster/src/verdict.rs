//! What was fetched and requested, against what is true.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orbweaver_log::{Log, TopicPartition};
use orbweaver_messages::{Document, decode, topic};
use orbweaver_toyweb::{Entry, Expected, Fate};

/// How long a record that must be there is waited for.
const READ_WAIT: Duration = Duration::from_secs(5);

/// What a document says of its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Bytes of the decoded body.
    pub bytes: u64,
    /// Links of the page.
    pub links: u64,
    /// Whether something was left out.
    pub is_cut: bool,
}

/// What a crawl left behind.
#[derive(Debug, Default)]
pub struct Found {
    /// How many documents each URL has.
    pub documents: BTreeMap<String, u32>,
    /// The last document of each URL.
    pub contents: BTreeMap<String, Content>,
    /// Records that could not be processed.
    pub dead_letters: u64,
}

impl Found {
    /// Reads all documents and counts the dead letters.
    ///
    /// # Errors
    /// When the log cannot be read, or a record is no document.
    pub async fn read(log: &dyn Log) -> Result<Self> {
        let mut found = Self::default();
        for partition in 0..log.partitions(topic::DOCUMENTS)? {
            let place = TopicPartition::new(topic::DOCUMENTS, partition);
            let bounds = log.bounds(place).await?;
            let mut reader = log.reader(place, bounds.start).await?;
            while reader.position() < bounds.end {
                let before = reader.position();
                for record in reader.read(READ_WAIT).await? {
                    let document: Document = decode("document", record.value.as_ref())?;
                    let links = document.links_total.unwrap_or(document.links.len() as u64);
                    let content = Content { bytes: document.bytes, links, is_cut: !document.truncated.is_empty() };
                    found.contents.insert(document.url.clone(), content);
                    *found.documents.entry(document.url).or_default() += 1;
                }
                ensure!(reader.position() > before, "{place}: nothing to read at {before} below {}", bounds.end);
            }
        }
        for partition in 0..log.partitions(topic::DEAD_LETTERS)? {
            let bounds = log.bounds(TopicPartition::new(topic::DEAD_LETTERS, partition)).await?;
            found.dead_letters += bounds.end - bounds.start;
        }
        Ok(found)
    }

    /// Checks that every page of the web has a document, nothing else has, and there are no dead letters. With `once` each
    /// has exactly one: so it is when no process was disturbed.
    ///
    /// # Errors
    /// Lists the first URLs for which it is otherwise.
    pub fn check(&self, truth: &[Expected], once: bool) -> Result<()> {
        let mut left = self.documents.clone();
        let mut wrong = vec![];
        for expected in truth {
            let count = left.remove(&expected.url).unwrap_or(0);
            let right = match expected.fate {
                Fate::Fetched => count == 1 || (count > 1 && !once),
                // A body that breaks off is a truncated document or none.
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

/// How often each page was requested, robots.txt aside, from the request log of a web.
///
/// # Errors
/// When a line of the log is none.
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
