//! An open partition: its files, and the entries that it began with.

use std::collections::HashMap;

use orbweaver_log::{Offset, Partition};
use orbweaver_stage::PartitionContext;
use orbweaver_url::CrawlName;

use crate::{file::CrawlFile, file_name::FileName, job::FileId, ledger::Ledger};

/// State of an open partition.
#[derive(Debug)]
pub(crate) struct OpenPartition {
    partition: Partition,
    pub(crate) assignment_epoch: u32,
    pub(crate) owner_epoch: Offset,
    pub(crate) ledger: Ledger,
    /// Crawls with an open file or waiting records.
    pub(crate) crawls: HashMap<CrawlName, CrawlFile>,
    /// Whether it was revoked.
    pub(crate) is_draining: bool,
}

impl OpenPartition {
    pub(crate) fn new(opening: PartitionContext, ledger: Ledger) -> Self {
        let PartitionContext { partition, assignment_epoch, owner_epoch, .. } = opening;
        Self { partition, assignment_epoch, owner_epoch, ledger, crawls: HashMap::new(), is_draining: false }
    }

    /// Returns the identity of a file.
    pub(crate) fn file(&self, crawl: CrawlName, name: FileName) -> FileId {
        FileId {
            partition: self.partition,
            assignment_epoch: self.assignment_epoch,
            owner_epoch: self.owner_epoch,
            crawl,
            name,
        }
    }

    /// Returns the crawl of this open file, unless it is one of an earlier assignment.
    pub(crate) fn crawl_of(&mut self, id: &FileId) -> Option<&mut CrawlFile> {
        let is_current = self.assignment_epoch == id.assignment_epoch;
        self.crawls
            .get_mut(&id.crawl)
            .filter(|crawl| is_current && crawl.file.as_ref().is_some_and(|f| f.name == id.name))
    }

    /// Returns the number of open files.
    pub(crate) fn open_files(&self) -> usize {
        self.crawls.values().filter(|crawl| crawl.file.is_some()).count()
    }
}
