//! Writing a definition while other writers may write one.
//!
//! A log cannot reject a record that comes too late; its writer discovers that by reading the log back. A writer
//! therefore reads, appends a definition that names the versions it replaces, reads again, and appends the result of
//! [`DefinitionHistory::next`] until that is `None`. A lost record changes nothing for a reader of the whole log. After
//! compaction, however, it may be the first record left and would apply. A later record that applies must therefore
//! name it: the losing writer appends the applied definition again, naming the lost record.

use orbweaver_messages::{CrawlDefinition, decode};
use orbweaver_url::CrawlName;

use crate::{
    Applied, Change, ControlRecord, Definitions, Revision, RevisionError, Version, crawl_of, history::History,
};

/// The state of one crawl's definition, up to the offset that was read.
#[derive(Debug)]
pub struct DefinitionHistory {
    crawl: CrawlName,
    definitions: Definitions,
    history: History<CrawlDefinition>,
}

/// Returns the content of a definition without the versions it replaces.
fn said(definition: &CrawlDefinition) -> CrawlDefinition {
    CrawlDefinition { replaces: vec![], ..definition.clone() }
}

impl DefinitionHistory {
    /// Creates the state of a crawl of which nothing has been read.
    #[must_use]
    pub fn new(crawl: &CrawlName) -> Self {
        Self { crawl: crawl.to_owned(), definitions: Definitions::default(), history: History::default() }
    }

    /// Applies a record of `crawl.control`. Records must be in log order; those of other crawls are ignored.
    pub fn read(&mut self, record: ControlRecord<'_>) {
        if crawl_of(&record) != Some(&*self.crawl) {
            return;
        }
        let (offset, value) = (record.offset, record.value);
        match self.definitions.apply(record) {
            Change::Applied(_, applied) => self.history.applied(offset, &applied.definition.replaces),
            Change::Deleted(_) => self.history.deleted(),
            Change::Conflict(_) | Change::Refused { .. } => {
                let definition: Option<CrawlDefinition> = decode("crawl definition", value).ok();
                self.history.passed_over(offset, definition.as_ref().map(said));
            }
            Change::Known | Change::Foreign => {}
        }
    }

    /// Returns the definition that applies.
    #[must_use]
    pub fn applied(&self) -> Option<&Applied> {
        self.definitions.applied(&self.crawl)
    }

    /// Returns why the last definition was refused, unless another one has applied since.
    #[must_use]
    pub fn refused(&self) -> Option<&crate::DefinitionError> {
        self.definitions.refused(&self.crawl)
    }

    /// Returns `true` if the record at this offset has ever applied.
    #[must_use]
    pub fn has_applied(&self, version: Version) -> bool {
        self.history.has_applied(version)
    }

    /// Returns the record to append to change the crawl. `None` if the crawl is not defined.
    pub fn revised(&self, revision: Revision) -> Option<Result<CrawlDefinition, RevisionError>> {
        let applied = self.applied()?;
        let revised = revision.of(&applied.definition);
        Some(revised.map(|revised| CrawlDefinition { replaces: self.replaced(applied), ..revised }))
    }

    /// Returns the record to append so that a lost record cannot apply after compaction: the applied definition again.
    /// `None` if no repair is needed, also if every lost record has the same content, since several writers may repair
    /// at the same time.
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
