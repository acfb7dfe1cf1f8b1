//! How a definition is written while others may write one, too.
//!
//! A log cannot refuse a record that comes too late: whoever writes one finds out on reading back. So a writer reads, appends
//! a definition that names the versions it replaces, reads again, and does what [`Standing::next`] says until that is nothing.
//! A record that was lost changes nothing for who reads the whole log; but after compaction it may be the first that is left,
//! and would apply. So it must be named by a later one that applies: who loses appends what applies once more, naming it.

use orbweaver_messages::{CrawlDefinition, decode};

use crate::{
    Applied, Change, ControlRecord, Definitions, Revision, RevisionError, Version, crawl_of, history::History,
};

/// What the log says of one crawl, up to where it was read.
#[derive(Debug)]
pub struct Standing {
    crawl: String,
    definitions: Definitions,
    history: History<CrawlDefinition>,
}

/// What a definition says, whatever it replaces.
fn said(definition: &CrawlDefinition) -> CrawlDefinition {
    CrawlDefinition { replaces: vec![], ..definition.clone() }
}

impl Standing {
    /// Nothing was read yet of this crawl.
    #[must_use]
    pub fn new(crawl: &str) -> Self {
        Self { crawl: crawl.to_owned(), definitions: Definitions::default(), history: History::default() }
    }

    /// Takes a record of `crawl.control`; records come in the order of the log. Those of other crawls are passed over.
    pub fn read(&mut self, record: ControlRecord<'_>) {
        if crawl_of(&record) != Some(&*self.crawl) {
            return;
        }
        let (offset, value) = (record.offset, record.value);
        match self.definitions.apply(record) {
            Change::Applied(_, applied) => self.history.applied(offset, &applied.definition.replaces),
            Change::Deleted(_) => self.history.deleted(),
            Change::Lost(_) | Change::Refused { .. } => {
                let definition: Option<CrawlDefinition> = decode("crawl definition", value).ok();
                self.history.passed_over(offset, definition.as_ref().map(said));
            }
            Change::Known | Change::Foreign => {}
        }
    }

    /// The definition that applies.
    #[must_use]
    pub fn applied(&self) -> Option<&Applied> {
        self.definitions.applied(&self.crawl)
    }

    /// Why the last definition was refused, unless another applied since.
    #[must_use]
    pub fn refused(&self) -> Option<&crate::Refusal> {
        self.definitions.refused(&self.crawl)
    }

    /// Whether the record at this offset applied at some time.
    #[must_use]
    pub fn has_applied(&self, version: Version) -> bool {
        self.history.has_applied(version)
    }

    /// What is to be appended to change the crawl. `None`: it is not defined.
    ///
    /// # Errors
    /// When the crawl may not be changed so.
    pub fn revised(&self, revision: Revision) -> Option<Result<CrawlDefinition, RevisionError>> {
        let applied = self.applied()?;
        let revised = revision.of(&applied.definition);
        Some(revised.map(|revised| CrawlDefinition { replaces: self.replaced(applied), ..revised }))
    }

    /// What is to be appended so that a lost record cannot apply after compaction: what applies, once more. `None`:
    /// nothing, or only what says the same, since several may repair at the same time.
    #[must_use]
    pub fn next(&self) -> Option<CrawlDefinition> {
        let applied = self.applied()?;
        let repair = || CrawlDefinition { replaces: self.replaced(applied), ..applied.definition.clone() };
        self.history.wants_repair(&said(&applied.definition)).then(repair)
    }

    fn replaced(&self, applied: &Applied) -> Vec<Version> {
        self.history.to_replace(Some(applied.version))
    }
}
