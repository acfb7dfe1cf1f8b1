//! Entries of `crawl.archive` that count (docs/protocol.md#claims). Pure.

use std::collections::HashMap;

use orbweaver_log::Offset;
use orbweaver_messages::ArchiveFile;
use orbweaver_url::CrawlName;

/// Entries of a partition, as its log is replayed.
///
/// An entry counts only under the latest claim before it: one that a suspended owner appends after the claim of its
/// successor is ignored, since the successor does not know it and archives the same responses again.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Offset of the latest claim.
    owner_epoch: Option<Offset>,
    /// By crawl, the offset up to which all responses are archived. An owner writes the files of a crawl one after the
    /// other, each from where the previous one ended.
    archived: HashMap<CrawlName, Offset>,
    /// Path of the last file of each crawl and owner: only this one may lack its final name, since an owner begins a file
    /// of a crawl once the previous one has it.
    files: HashMap<(CrawlName, Offset), String>,
}

impl Ledger {
    /// Notes a claim.
    pub(crate) fn claimed(&mut self, owner_epoch: Offset) {
        self.owner_epoch = Some(owner_epoch);
    }

    /// Returns the owner epoch of the latest claim.
    #[cfg(feature = "cluster")]
    pub(crate) fn owner_epoch(&self) -> Option<Offset> {
        self.owner_epoch
    }

    /// Adds an entry, if it counts.
    pub(crate) fn add(&mut self, entry: ArchiveFile) {
        if self.owner_epoch == Some(entry.epoch) {
            self.archived.insert(entry.crawl.clone(), entry.last);
            self.files.insert((entry.crawl, entry.epoch), entry.file);
        }
    }

    /// Returns `true` if the response of `crawl` at `offset` is archived. Offsets must be passed in ascending order: the
    /// crawl is forgotten at the first one that is not.
    pub(crate) fn is_archived(&mut self, crawl: &CrawlName, offset: Offset) -> bool {
        let Some(last) = self.archived.get(crawl) else { return false };
        let is_archived = offset <= *last;
        if !is_archived {
            self.archived.remove(crawl);
        }
        is_archived
    }

    /// Removes and returns the paths of files that may lack their final name.
    pub(crate) fn take_files(&mut self) -> Vec<String> {
        std::mem::take(&mut self.files).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crawl(name: &str) -> CrawlName {
        CrawlName::new(name).unwrap()
    }

    fn entry(name: &str, last: Offset, epoch: Offset) -> ArchiveFile {
        let file = format!("{name}-{last}-{epoch}");
        ArchiveFile {
            crawl: crawl(name),
            file,
            first: 0,
            last,
            responses: 1,
            bytes: 1,
            sha256: None,
            closed_at_ms: 0,
            epoch,
        }
    }

    #[test]
    fn a_response_is_archived_up_to_the_last_file_of_its_crawl() {
        let mut ledger = Ledger::default();
        ledger.claimed(0);
        ledger.add(entry("a", 10, 0));
        ledger.add(entry("b", 5, 0));
        ledger.add(entry("a", 20, 0));
        assert!(ledger.is_archived(&crawl("a"), 3) && ledger.is_archived(&crawl("a"), 20));
        assert!(!ledger.is_archived(&crawl("a"), 21));
        assert!(!ledger.is_archived(&crawl("b"), 6) && !ledger.is_archived(&crawl("c"), 0));
    }

    #[test]
    fn an_entry_of_a_suspended_owner_after_the_claim_of_its_successor_does_not_count() {
        let mut ledger = Ledger::default();
        ledger.claimed(0);
        ledger.add(entry("a", 10, 0));
        ledger.claimed(2);
        ledger.add(entry("a", 90, 0));
        assert!(!ledger.is_archived(&crawl("a"), 11));
        ledger.add(entry("a", 15, 2));
        ledger.claimed(5);
        ledger.add(entry("a", 80, 2));
        ledger.add(entry("a", 70, 0));
        assert!(ledger.is_archived(&crawl("a"), 15) && !ledger.is_archived(&crawl("a"), 16));
    }

    #[test]
    fn only_the_last_file_of_each_crawl_and_owner_may_lack_its_final_name() {
        let mut ledger = Ledger::default();
        ledger.claimed(0);
        ["a", "b"].into_iter().for_each(|name| ledger.add(entry(name, 10, 0)));
        ledger.add(entry("a", 20, 0));
        ledger.claimed(4);
        ledger.add(entry("a", 90, 0));
        ledger.add(entry("a", 30, 4));
        let mut files = ledger.take_files();
        files.sort_unstable();
        assert_eq!(files, ["a-20-0", "a-30-4", "b-10-0"]);
    }
}
