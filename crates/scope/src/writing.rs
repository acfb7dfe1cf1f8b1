//! How a definition is written while others may write one, too.
//!
//! A log cannot refuse a record that comes too late: whoever writes one finds out on reading back. So a writer reads, appends
//! a definition that names the versions it replaces, reads again, and does what [`Standing::next`] says until that is nothing.
//! A record that was lost changes nothing for who reads the whole log; but after compaction it may be the first that is left,
//! and would apply. So it must be named by a later one that applies: who loses appends what applies once more, naming it.

use std::collections::{BTreeSet, VecDeque};

use orbweaver_messages::{CrawlDefinition, decode};

use crate::{Applied, Change, ControlRecord, Definitions, Revision, RevisionError, Version, crawl_of};

/// Lost records that are kept in mind until one that applies names them.
const UNCOVERED: usize = 64;

/// What the log says of one crawl, up to where it was read.
#[derive(Debug)]
pub struct Standing {
    crawl: String,
    definitions: Definitions,
    /// Versions that applied at some time and were written by us.
    won: BTreeSet<Version>,
    /// Records that do not apply and that none that applies has named yet, the last ones, with what they say.
    uncovered: VecDeque<(Version, Option<CrawlDefinition>)>,
}

/// What a definition says, whatever it replaces.
fn said(definition: &CrawlDefinition) -> CrawlDefinition {
    CrawlDefinition { replaces: vec![], ..definition.clone() }
}

impl Standing {
    /// Nothing was read yet of this crawl.
    #[must_use]
    pub fn new(crawl: &str) -> Self {
        Self {
            crawl: crawl.to_owned(),
            definitions: Definitions::default(),
            won: BTreeSet::new(),
            uncovered: VecDeque::new(),
        }
    }

    /// Takes a record of `crawl.control`; records come in the order of the log. Those of other crawls are passed over.
    pub fn read(&mut self, record: ControlRecord<'_>) {
        if crawl_of(&record) != Some(&*self.crawl) {
            return;
        }
        let (offset, value) = (record.offset, record.value);
        match self.definitions.apply(record) {
            Change::Applied(_, applied) => {
                self.won.insert(offset);
                let replaces = &applied.definition.replaces;
                self.uncovered.retain(|(lost, _)| !replaces.is_empty() && !replaces.contains(lost));
            }
            Change::Deleted(_) => self.uncovered.clear(),
            Change::Lost(_) | Change::Refused { .. } => {
                let definition: Option<CrawlDefinition> = decode("crawl definition", value).ok();
                self.uncovered.push_back((offset, definition.as_ref().map(said)));
                if self.uncovered.len() > UNCOVERED {
                    self.uncovered.pop_front();
                }
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
        self.won.contains(&version)
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
        let says = said(&applied.definition);
        self.uncovered.iter().find(|(_, lost)| lost.as_ref() != Some(&says))?;
        Some(CrawlDefinition { replaces: self.replaced(applied), ..applied.definition.clone() })
    }

    fn replaced(&self, applied: &Applied) -> Vec<Version> {
        std::iter::once(applied.version).chain(self.uncovered.iter().map(|(lost, _)| *lost)).collect()
    }
}
