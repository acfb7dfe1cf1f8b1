//! The record of `crawl.control` that applies to each crawl.
//!
//! A log cannot reject a record that comes too late; its writer discovers that by reading the log back. A writer
//! therefore reads, appends the result of [`Definitions::revised`], which names the versions it replaces, reads again,
//! and appends the result of [`Definitions::repair`] until that is `None`. A lost record changes nothing for a reader of
//! the whole log. After compaction, however, it may be the first record left and would apply. A later record that
//! applies must therefore name it: the losing writer appends the applied definition again, naming the lost record.

use std::collections::BTreeMap;

use bytes::Bytes;
use orbweaver_messages::{CrawlDefinition, MessageError, decode};
use orbweaver_url::{CrawlName, CrawlNameError};

use crate::{
    DEFINITIONS_PARTITION,
    history::History,
    order, profile,
    revision::{Revision, RevisionError, changes},
    revisit,
    rules::{PatternError, Rules},
    setting_error::SettingError,
};

/// Version of a definition: the offset of its record.
pub type Version = u64;

/// A record of `crawl.control`.
#[derive(Debug, Clone, Copy)]
pub struct ControlRecord<'a> {
    pub partition: u32,
    pub offset: u64,
    pub key: Option<&'a [u8]>,
    /// The value; `None` for a tombstone.
    pub value: Option<&'a Bytes>,
}

/// The definition that applies to a crawl.
#[derive(Debug)]
pub struct Applied {
    pub version: Version,
    pub definition: CrawlDefinition,
    /// The compiled rules.
    pub rules: Rules,
}

/// Reason why a definition is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// The record is in a partition in which its offset is not a version.
    #[error("definitions belong in partition {DEFINITIONS_PARTITION}, and this one is in partition {0}")]
    Misplaced(u32),
    /// The key does not name a crawl.
    #[error(transparent)]
    Name(#[from] CrawlNameError),
    /// The value is not a valid definition.
    #[error(transparent)]
    Unreadable(#[from] MessageError),
    /// The definition names a different crawl than its key.
    #[error("it names the crawl `{named}`, but its key names `{key}`")]
    Misnamed {
        named: String,
        /// The name in the key.
        key: String,
    },
    /// The patterns are unusable.
    #[error(transparent)]
    Patterns(#[from] PatternError),
    /// A setting of the fetch profile or of the order is unusable.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The definition changes something that may not change.
    #[error(transparent)]
    Changes(#[from] RevisionError),
}

/// Effect of a record.
#[derive(Debug)]
pub enum Change<'s, 'r> {
    /// The record is not a definition.
    Foreign,
    /// The record was read before.
    Known,
    /// The definition applies from now on.
    Applied(CrawlName, &'s Applied),
    /// The definition of the crawl was deleted.
    Deleted(CrawlName),
    /// No effect: the definition was made from a version that does not apply.
    Conflict(CrawlName),
    /// No effect: the definition is unusable.
    Refused {
        crawl: &'r str,
        /// The version that still applies, if any.
        applies: Option<Version>,
        reason: DefinitionError,
    },
}

#[derive(Debug, Default)]
struct Known {
    last: Option<Version>,
    applied: Option<Applied>,
    refused: Option<DefinitionError>,
    history: History<CrawlDefinition>,
}

/// The definitions of all crawls, according to the records applied so far.
#[derive(Debug, Default)]
pub struct Definitions {
    crawls: BTreeMap<CrawlName, Known>,
}

impl Definitions {
    /// Applies a record of `crawl.control`. Records must be in log order; a record that was read before is `Known`.
    pub fn apply<'r>(&mut self, record: ControlRecord<'r>) -> Change<'_, 'r> {
        let key = record.key.and_then(|key| std::str::from_utf8(key).ok());
        let Some(name) = key.and_then(|key| key.strip_prefix("crawl/")) else { return Change::Foreign };
        let crawl = match CrawlName::new(name) {
            Ok(crawl) => crawl,
            Err(error) => return Change::Refused { crawl: name, applies: None, reason: error.into() },
        };
        let known = self.crawls.entry(crawl.clone()).or_default();
        if record.partition != DEFINITIONS_PARTITION {
            // The offset is not a version in this partition.
            let reason = DefinitionError::Misplaced(record.partition);
            return Change::Refused { crawl: name, applies: known.version(), reason };
        }
        if known.last.is_some_and(|last| last >= record.offset) {
            return Change::Known;
        }
        known.last = Some(record.offset);
        let Some(value) = record.value else {
            (known.applied, known.refused) = (None, None);
            known.history.deleted();
            return Change::Deleted(crawl);
        };
        match read(name, value, known.applied.as_ref()) {
            Ok(definition) if is_lost(&definition, known.applied.as_ref()) => {
                known.history.passed_over(record.offset, Some(content(definition)));
                Change::Conflict(crawl)
            }
            Ok(definition) => match Rules::compile(&definition) {
                Ok(rules) => {
                    known.refused = None;
                    known.history.applied(record.offset, &definition.replaces);
                    let applied = Applied { version: record.offset, definition, rules };
                    Change::Applied(crawl, known.applied.insert(applied))
                }
                Err(error) => known.refuse(name, record, error.into()),
            },
            Err(refusal) => known.refuse(name, record, refusal),
        }
    }

    /// Returns the definition that applies to a crawl. `None` if it has no usable one.
    #[must_use]
    pub fn applied(&self, crawl: &CrawlName) -> Option<&Applied> {
        self.crawls.get(crawl)?.applied.as_ref()
    }

    /// Returns the definition that applies to the crawl of this name.
    pub(crate) fn definition(&self, crawl: &str) -> Option<&CrawlDefinition> {
        self.crawls.get(crawl)?.applied.as_ref().map(|applied| &applied.definition)
    }

    /// Returns `true` if no request may be sent for the crawl.
    #[must_use]
    pub fn is_paused(&self, crawl: &str) -> bool {
        self.definition(crawl).is_some_and(|definition| definition.paused)
    }

    /// Returns why the last definition of a crawl was refused, unless another one has applied since. A definition that
    /// applied before still applies.
    #[must_use]
    pub fn refused(&self, crawl: &CrawlName) -> Option<&DefinitionError> {
        self.crawls.get(crawl)?.refused.as_ref()
    }

    /// Returns all crawls that have a definition and were not deleted, by name.
    pub fn all(&self) -> impl Iterator<Item = (&CrawlName, &Applied)> {
        self.crawls.iter().filter_map(defined).filter(|(_, applied)| !applied.definition.deleted)
    }

    /// Returns the crawl that users mean by a name: the last one that was created with it, which may be deleted. `None` if
    /// none was.
    #[must_use]
    pub fn latest(&self, name: &CrawlName) -> Option<(&CrawlName, &Applied)> {
        let of_name = self.crawls.get_key_value(name).and_then(defined);
        if name.incarnation().1 > 1 || of_name.is_some_and(|(_, applied)| !applied.definition.deleted) {
            return of_name;
        }
        let later = self.crawls.range::<CrawlName, _>(name..).take_while(|(later, _)| later.starts_with(&**name));
        let later = later.filter(|(later, _)| later.incarnation().0 == &**name).filter_map(defined);
        later.max_by_key(|(name, _)| name.incarnation().1)
    }

    /// Returns `true` if the record at this offset has ever applied to the crawl.
    #[must_use]
    pub fn has_applied(&self, crawl: &CrawlName, version: Version) -> bool {
        self.crawls.get(crawl).is_some_and(|known| known.history.has_applied(version))
    }

    /// Returns the record to append to change the crawl. `None` if the crawl is not defined.
    pub fn revised(&self, crawl: &CrawlName, revision: Revision) -> Option<Result<CrawlDefinition, RevisionError>> {
        let known = self.crawls.get(crawl)?;
        let revised = revision.of(&known.applied.as_ref()?.definition);
        Some(revised.map(|revised| known.following(revised)))
    }

    /// Returns the record to append so that a lost record cannot apply after compaction: the applied definition again.
    /// `None` if no repair is needed, also if every lost record has the same content, since several writers may repair
    /// at the same time.
    #[must_use]
    pub fn repair(&self, crawl: &CrawlName) -> Option<CrawlDefinition> {
        let known = self.crawls.get(crawl)?;
        let applied = content(known.applied.as_ref()?.definition.clone());
        known.history.wants_repair(&applied).then(|| known.following(applied))
    }
}

/// Returns a crawl with its definition, if it has one.
fn defined<'a>((name, known): (&'a CrawlName, &'a Known)) -> Option<(&'a CrawlName, &'a Applied)> {
    Some((name, known.applied.as_ref()?))
}

impl Known {
    fn refuse<'r>(&mut self, crawl: &'r str, record: ControlRecord<'r>, reason: DefinitionError) -> Change<'_, 'r> {
        self.history.passed_over(record.offset, decode("crawl-definition", record.value).ok().map(content));
        self.refused = Some(reason.clone());
        Change::Refused { crawl, applies: self.version(), reason }
    }

    fn version(&self) -> Option<Version> {
        self.applied.as_ref().map(|applied| applied.version)
    }

    /// Returns the record to append so that this definition applies.
    fn following(&self, definition: CrawlDefinition) -> CrawlDefinition {
        CrawlDefinition { replaces: self.history.to_replace(self.version()), ..definition }
    }
}

/// Returns the content of a definition without the versions it replaces.
fn content(definition: CrawlDefinition) -> CrawlDefinition {
    CrawlDefinition { replaces: vec![], ..definition }
}

fn read(name: &str, value: &Bytes, applied: Option<&Applied>) -> Result<CrawlDefinition, DefinitionError> {
    let definition: CrawlDefinition = decode("crawl-definition", Some(value))?;
    if definition.name != name {
        return Err(DefinitionError::Misnamed { named: definition.name.to_string(), key: name.to_owned() });
    }
    if let Some(applied) = applied {
        changes(&applied.definition, &definition)?;
    }
    profile::check(&definition.profile)?;
    order::check(&definition.order, definition.share)?;
    revisit::check(definition.revisit.as_ref())?;
    Ok(definition)
}

/// Returns `true` if another definition has replaced the version from which this one was made.
fn is_lost(definition: &CrawlDefinition, applied: Option<&Applied>) -> bool {
    let replaces = &definition.replaces;
    applied.is_some_and(|applied| !replaces.is_empty() && !replaces.contains(&applied.version))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = include_str!("../../../schemas/examples/crawl-definition/1/host.json");

    /// Applies a record; returns its effect as text.
    fn apply(definitions: &mut Definitions, partition: u32, offset: u64, value: Option<&str>) -> String {
        let value = value.map(|value| Bytes::copy_from_slice(value.as_bytes()));
        match definitions.apply(ControlRecord { partition, offset, key: Some(b"crawl/docs"), value: value.as_ref() }) {
            Change::Applied(..) => "applied".to_owned(),
            Change::Refused { applies, reason, .. } => format!("{applies:?}: {reason}"),
            other => format!("{other:?}"),
        }
    }

    fn version(definitions: &Definitions) -> Option<Version> {
        definitions.applied(&"docs".parse().unwrap()).map(|applied| applied.version)
    }

    fn replacing(versions: &str) -> String {
        HOST.replacen('{', &format!("{{\"replaces\": [{versions}],"), 1)
    }

    #[test]
    fn of_two_that_were_made_from_one_version_the_first_applies() {
        let mut all = Definitions::default();
        assert_eq!(apply(&mut all, 0, 5, Some(HOST)), "applied");
        assert_eq!(apply(&mut all, 0, 6, Some(&replacing("5"))), "applied");
        assert_eq!(apply(&mut all, 0, 7, Some(&replacing("5"))), "Conflict(\"docs\")");
        assert_eq!(apply(&mut all, 0, 6, Some(&replacing("5"))), "Known", "read again");
        assert_eq!(version(&all), Some(6));
        assert_eq!(apply(&mut all, 0, 8, Some(&replacing("6, 7"))), "applied");
        assert_eq!(apply(&mut all, 0, 9, Some(HOST)), "applied", "who names none applies in any case");
        assert_eq!(apply(&mut all, 0, 10, None), "Deleted(\"docs\")");
        assert_eq!(version(&all), None);
        let mut last_alone = Definitions::default();
        assert_eq!(apply(&mut last_alone, 0, 8, Some(&replacing("6, 7"))), "applied", "nothing else is known");
    }

    #[test]
    fn a_name_is_that_of_the_last_crawl_that_was_created_with_it() {
        let mut all = Definitions::default();
        let with = |fields: &str| HOST.replacen('{', &format!("{{{fields},"), 1);
        let mut offset = 0;
        let mut apply = |all: &mut Definitions, name: &str, text: &str| {
            let value = Bytes::from(text.replace("\"docs\"", &format!("\"{name}\"")));
            let key = format!("crawl/{name}");
            offset += 1;
            let record = ControlRecord { partition: 0, offset, key: Some(key.as_bytes()), value: Some(&value) };
            assert!(matches!(all.apply(record), Change::Applied(..)));
        };
        let latest = |all: &Definitions, name: &str| {
            let found = all.latest(&name.parse().unwrap());
            found.map(|(name, applied)| (name.to_string(), applied.definition.deleted))
        };
        assert_eq!(latest(&all, "docs"), None);
        apply(&mut all, "docs", HOST);
        apply(&mut all, "docs-2", HOST);
        apply(&mut all, "docs#two", HOST);
        assert_eq!(latest(&all, "docs"), Some(("docs".to_owned(), false)));
        apply(&mut all, "docs", &with("\"stopped\": true"));
        apply(&mut all, "docs", &with("\"stopped\": true, \"deleted\": true"));
        assert_eq!(latest(&all, "docs"), Some(("docs".to_owned(), true)));
        for (name, number) in [("docs#2", 2), ("docs#10", 10)] {
            apply(&mut all, name, HOST);
            assert_eq!(latest(&all, "docs"), Some((name.to_owned(), false)), "{number}");
        }
        assert_eq!(latest(&all, "docs#2"), Some(("docs#2".to_owned(), false)), "a complete name");
        assert_eq!(latest(&all, "docs#3"), None);
        let names: Vec<_> = all.all().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names, ["docs#10", "docs#2", "docs#two", "docs-2"], "without the deleted one");
    }

    #[test]
    fn what_cannot_be_used_changes_nothing_and_says_why() {
        let mut all = Definitions::default();
        assert_eq!(apply(&mut all, 0, 5, Some(HOST)), "applied");
        for (offset, value, why) in [
            (6, "{".to_owned(), "Some(5): not a valid crawl-definition message"),
            (7, HOST.replace("docs", "news"), "Some(5): it names the crawl `news`, but its key names `docs`"),
            (8, HOST.replace("/login", "("), "Some(5): the exclude pattern `(` cannot be used: unclosed group"),
            (
                9,
                HOST.replace("/login", "(\\\\w{1000}){1000}"),
                "Some(5): the exclude pattern `(\\w{1000}){1000}` cannot be",
            ),
            (
                10,
                HOST.replace("standard/1", "raw/1"),
                "Some(5): the canonical policy of the crawl `docs` was `standard/1`",
            ),
            (
                11,
                HOST.replace("\"host\"", "\"path\""),
                "Some(5): the scope of the crawl `docs` is `host` and cannot become",
            ),
        ] {
            let said = apply(&mut all, 0, offset, Some(&value));
            assert!(said.starts_with(why), "{said}");
            assert_eq!(version(&all), Some(5));
        }
        assert!(apply(&mut all, 3, 12, Some(HOST)).contains("partition 0, and this one is in partition 3"));
        assert!(all.refused(&"docs".parse().unwrap()).is_some());
        assert_eq!(apply(&mut all, 0, 12, Some(&HOST.replace("\"host\"", "\"site\""))), "applied");
        assert_eq!((version(&all), all.refused(&"docs".parse().unwrap())), (Some(12), None));
    }
}
