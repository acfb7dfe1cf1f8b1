//! Reads the results of a crawl, and sorts those that the report needs.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use orbweaver_messages::OutcomeKind;
use orbweaver_url::Policy;
use serde::{Deserialize, Serialize};

use super::{
    args::{LinksArgs, Section},
    classify::{End, may_be_reported, verdict},
    error::ReportError,
    input::{DocumentLine, LinkOnPage, UrlLine},
    interest::{Interest, Role},
    slow::SlowFetches,
    sorted::{Filling, MAX_KEY_BYTES, Table, Temporary, key},
};
use crate::results::Lines;

/// Source of a report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    /// Canonicalization policy of the crawl.
    pub(super) policy: Policy,
    /// Set once the report is interrupted.
    pub(super) stop: &'a AtomicBool,
}

impl Source<'_> {
    /// Returns an error once the report is interrupted.
    pub(super) fn check(&self) -> Result<(), ReportError> {
        if self.stop.load(Ordering::Relaxed) { Err(ReportError::Stopped) } else { Ok(()) }
    }
}

/// Result files of a crawl.
#[derive(Debug)]
pub(super) struct Files {
    urls: Lines,
    documents: Lines,
}

impl Files {
    /// Finds the files in the output directory of a crawl.
    pub(super) fn find(dir: &Path) -> Result<Self, ReportError> {
        Ok(Self { urls: Lines::find(dir, "urls.jsonl")?, documents: Lines::find(dir, "documents.jsonl")? })
    }
}

/// Link to a reported URL, as stored; its key has the URL, the page and the number of the link on the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredLink {
    /// Visit that found this version of the page.
    pub(super) visit: u32,
    /// URL as found, if it differs from the canonical one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
    pub(super) text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) rel: String,
}

/// Peculiarities of the results, for a notice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Notes {
    /// Lines of `documents.jsonl`.
    pub(super) documents: u64,
    /// Documents that lack links of their page.
    pub(super) truncated: u64,
    /// Documents whose URL has another canonical form under the policy.
    pub(super) foreign: u64,
    /// Whether a file ends in the middle of a line.
    pub(super) is_cut: bool,
}

/// Sorted results.
pub(super) struct Gathered {
    /// Last outcome of each URL that is broken or redirects, and of the targets of redirects, by canonical URL.
    pub(super) ends: Table,
    /// [`StoredLink`]s by canonical URL, page and number of the link on the page.
    pub(super) links: Table,
    /// Visit of each document, by site, title and URL.
    pub(super) titles: Table,
    /// Slow pages, by time and URL.
    pub(super) slow: Table,
    /// Visit of the last version of each page of which there are several, by canonical URL.
    versions: Table,
    pub(super) notes: Notes,
}

impl Gathered {
    /// Returns `true` if the version of a page that this visit found is its last one.
    pub(super) fn is_current(&self, page: &str, visit: u32) -> Result<bool, ReportError> {
        Ok(self.versions.get(page.as_bytes())?.is_none_or(|last: u32| last == visit))
    }
}

/// Reads the results, as far as these sections need them.
pub(super) fn gather(
    source: Source<'_>,
    files: &Files,
    temporary: &Temporary,
    args: &LinksArgs,
) -> Result<Gathered, ReportError> {
    let sections = args.sections();
    let mut slow =
        sections.contains(&Section::Slow).then(|| SlowFetches::new(args.slow_ms(), temporary)).transpose()?;
    let interest = interest(source, &files.urls, slow.as_ref())?;
    let (ends, are_urls_cut) = ends((source, &files.urls), &interest, temporary.table("ends")?, slow.as_mut())?;
    let mut reader = DocumentReader {
        source,
        interest: &interest,
        ends: &ends,
        links: sections
            .iter()
            .any(|section| matches!(section, Section::Broken | Section::Redirects))
            .then(|| temporary.table("links"))
            .transpose()?,
        titles: sections.contains(&Section::Titles).then(|| temporary.table("titles")).transpose()?,
        versions: temporary.table("versions")?,
        notes: Notes::default(),
    };
    let are_documents_cut = files.documents.each::<ReportError>(|line| {
        source.check()?;
        match parsed(line) {
            Ok(document) => reader.take(&document),
            Err(reason) => Ok(Err(reason)),
        }
    })?;
    let DocumentReader { links, titles, versions, notes, .. } = reader;
    let finish = |table: Option<Filling>, name: &str| table.map_or_else(|| temporary.table(name), Ok)?.finish();
    let (links, titles) = (finish(links, "links")?, finish(titles, "titles")?);
    let notes = Notes { is_cut: are_urls_cut || are_documents_cut, ..notes };
    let slow = slow.map_or_else(|| temporary.table("slow")?.finish(), |slow| slow.finish(temporary))?;
    Ok(Gathered { links, titles, slow, versions: versions.finish()?, notes, ends })
}

fn parsed<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| error.to_string())
}

/// Returns the canonical form of a URL; `None`: a crawl has no such URL.
fn canonical(policy: Policy, url: &str) -> Option<String> {
    orbweaver_url::parse(url).ok().map(|url| policy.canonical_text(&url).into_owned())
}

/// Reads which URLs are broken, redirect, and where to, or are slow.
fn interest(source: Source<'_>, urls: &Lines, slow: Option<&SlowFetches>) -> Result<Interest, ReportError> {
    let mut interest = Interest::new();
    urls.each::<ReportError>(|line| {
        source.check()?;
        let line: UrlLine<'_> = match parsed(line) {
            Ok(line) => line,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Some(slow) = slow {
            slow.note(&line, &mut interest);
        }
        if may_be_reported(line.outcome, line.reason.as_deref()) {
            interest.add(Role::Reported, &line.url);
        }
        if let Some(target) = line.location.and_then(|location| canonical(source.policy, &location)) {
            interest.add(Role::Target, &target);
        }
        Ok(Ok(()))
    })?;
    Ok(interest)
}

/// Sorts the last outcomes of the URLs of interest. Also returns whether the file ends in the middle of a line.
fn ends(
    (source, urls): (Source<'_>, &Lines),
    interest: &Interest,
    mut ends: Filling,
    mut slow: Option<&mut SlowFetches>,
) -> Result<(Table, bool), ReportError> {
    let is_cut = urls.each::<ReportError>(|line| {
        source.check()?;
        let line: UrlLine<'_> = match parsed(line) {
            Ok(line) => line,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Some(slow) = &mut slow {
            slow.keep(&line, interest)?;
        }
        if !interest.may_have(Role::Reported, &line.url) && !interest.may_have(Role::Target, &line.url) {
            return Ok(Ok(()));
        }
        let Some(key) = key([line.url.as_bytes()]) else { return Ok(Err(bad_key())) };
        let end = End {
            kind: line.outcome,
            reason: line.reason.map(Into::into),
            status: line.status,
            location: line.location.and_then(|location| canonical(source.policy, &location)),
            via: line.via.map(Into::into),
        };
        ends.insert(key, &end).map(Ok)
    })?;
    Ok((ends.finish()?, is_cut))
}

fn bad_key() -> String {
    format!("the URL is empty, or URLs and title have more than {MAX_KEY_BYTES} bytes")
}

/// Takes links and titles from documents.
struct DocumentReader<'a> {
    source: Source<'a>,
    interest: &'a Interest,
    ends: &'a Table,
    /// `None`: no section has links.
    links: Option<Filling>,
    /// `None`: no section has titles.
    titles: Option<Filling>,
    versions: Filling,
    notes: Notes,
}

impl DocumentReader<'_> {
    /// Takes a document; the inner error is that of its line.
    fn take(&mut self, document: &DocumentLine<'_>) -> Result<Result<(), String>, ReportError> {
        let url = &*document.url;
        let Some(own_key) = key([url.as_bytes()]) else { return Ok(Err(bad_key())) };
        self.notes.documents += 1;
        if document.visit > 0 {
            self.versions.insert(own_key, &document.visit)?;
        }
        if self.has_gone(url)? {
            return Ok(Ok(()));
        }
        self.notes.truncated += u64::from(document.links_total.is_some());
        // After a redirect to itself, a page was fetched under a URL of its chain.
        let is_own = || canonical(self.source.policy, &document.fetched_url).is_none_or(|own| own == url);
        self.notes.foreign += u64::from(document.redirects.is_empty() && !is_own());
        if let Some(titles) = &mut self.titles {
            let title = document.title.replace('\0', "\u{fffd}");
            let Some(key) = key([document.site.as_bytes(), title.as_bytes(), url.as_bytes()]) else {
                return Ok(Err(bad_key()));
            };
            titles.insert(key, &document.visit)?;
        }
        for (number, link) in (0u32..).zip(&document.links) {
            if let Err(reason) = self.take_link(document, number, link)? {
                return Ok(Err(reason));
            }
        }
        Ok(Ok(()))
    }

    fn take_link(
        &mut self,
        document: &DocumentLine<'_>,
        number: u32,
        link: &LinkOnPage<'_>,
    ) -> Result<Result<(), String>, ReportError> {
        let Some(links) = &mut self.links else { return Ok(Ok(())) };
        let target = canonical(self.source.policy, &link.url);
        let Some(target) = target.filter(|target| self.interest.may_have(Role::Reported, target)) else {
            return Ok(Ok(()));
        };
        let Some(key) = key([target.as_bytes(), document.url.as_bytes(), &number.to_be_bytes()]) else {
            return Ok(Err(bad_key()));
        };
        let stored = StoredLink {
            visit: document.visit,
            url: (link.url != target).then(|| link.url.to_string()),
            text: link.text.to_string(),
            rel: link.rel.to_string(),
        };
        links.insert(key, &stored).map(Ok)
    }

    /// Returns `true` if a later visit found that the page is no more: then its document is out of date.
    fn has_gone(&self, url: &str) -> Result<bool, ReportError> {
        if !self.interest.may_have(Role::Reported, url) {
            return Ok(false);
        }
        let end: Option<End> = self.ends.get(url.as_bytes())?;
        Ok(end.is_some_and(|end| end.kind == OutcomeKind::Redirected || verdict(Some(&end)).is_broken()))
    }
}
