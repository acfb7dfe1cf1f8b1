//! Search for the record with the content of a page: from rows to the next lookup, or to a record to read. Pure.
//!
//! The newest capture counts. A revisit has no content: the history has the hash of its content, which leads to the latest
//! archived fetch with it, perhaps of another page. A location may name a file that is still open, or was discarded: then the
//! next older capture counts.

use std::collections::VecDeque;

use orbweaver_messages::Millis;
use orbweaver_store::{CaptureRow, ContentRow, FetchEvent};
use orbweaver_url::Fingerprint;

use crate::problem::{Kind, Problem};

/// Maximum number of captures and events of a page that are considered.
pub(crate) const CONSIDERED: usize = 100;
/// Maximum number of files that are tried.
const MAX_READS: usize = 8;

/// Search in progress.
#[derive(Debug)]
pub(crate) struct Search {
    fingerprint: Fingerprint,
    /// Captures that were not tried, newest first.
    captures: VecDeque<CaptureRow>,
    /// Fetches of the page, once they are known.
    events: Option<Vec<FetchEvent>>,
    /// Files that are not in the archive.
    missing: Vec<String>,
}

/// Next step.
#[derive(Debug)]
pub(crate) enum Step {
    /// The history of the page is needed.
    History(Search),
    /// The latest fetch with this content is needed.
    Content(Search, String),
    /// The captures of a page are needed, one of which is of the fetch at this time.
    Captures(Search, Fingerprint, Millis),
    /// The record is to be read.
    Read(Search, Box<CaptureRow>),
    Ended(Problem),
}

impl Search {
    /// Begins with the captures of a page.
    pub(crate) fn begin(fingerprint: Fingerprint, captures: Vec<CaptureRow>) -> Step {
        Self { fingerprint, captures: captures.into(), events: None, missing: vec![] }.next()
    }

    /// Returns the page.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Continues with the history of the page.
    pub(crate) fn history(self, events: Vec<FetchEvent>) -> Step {
        Self { events: Some(events), ..self }.next()
    }

    /// Continues with the latest fetch with the content.
    pub(crate) fn content(self, row: Option<ContentRow>) -> Step {
        match row {
            Some(row) => Step::Captures(self, row.fingerprint, row.at_ms),
            None => self.next(),
        }
    }

    /// Continues with the captures of a page, of which that of the fetch at `at_ms` counts.
    pub(crate) fn captures(self, rows: Vec<CaptureRow>, at_ms: Millis) -> Step {
        match rows.into_iter().find(|row| row.at_ms == at_ms && !row.is_revisit) {
            Some(row) => Step::Read(self, Box::new(row)),
            None => self.next(),
        }
    }

    /// Continues after a file that is not in the archive.
    pub(crate) fn missing(mut self, file: String) -> Step {
        self.missing.push(file);
        if self.missing.len() >= MAX_READS { self.ended() } else { self.next() }
    }

    fn next(mut self) -> Step {
        while let Some(row) = self.captures.pop_front() {
            if !row.is_revisit {
                return Step::Read(self, Box::new(row));
            }
            let Some(events) = &self.events else {
                self.captures.push_front(row);
                return Step::History(self);
            };
            let event = events.iter().find(|event| event.at_ms == row.at_ms);
            if let Some(hash) = event.and_then(|event| event.content_hash.clone()) {
                return Step::Content(self, hash);
            }
        }
        self.ended()
    }

    fn ended(self) -> Step {
        Step::Ended(match self.missing.first() {
            Some(file) => Problem::new(
                Kind::FileMissing,
                format!("{file} is not in the archive; a file is there once it is closed, unless it was removed"),
            ),
            None => Problem::new(Kind::NotArchived, "no archived response with content is known"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Fingerprint = Fingerprint([1; 16]);
    const OTHER: Fingerprint = Fingerprint([2; 16]);

    fn capture(fingerprint: Fingerprint, at_ms: Millis, is_revisit: bool) -> CaptureRow {
        let file = format!("docs/{at_ms}.warc.gz");
        let content_hash = (!is_revisit).then(|| "ab".to_owned());
        CaptureRow { fingerprint, at_ms, epoch: 1, file, offset: 0, length: 1, status: 200, is_revisit, content_hash }
    }

    fn event(at_ms: Millis, content_hash: Option<&str>) -> FetchEvent {
        let content_hash = content_hash.map(str::to_owned);
        FetchEvent { at_ms, status: Some(200), outcome: "unchanged".into(), reason: None, bytes: 0, content_hash }
    }

    /// Scripted store and archive.
    #[derive(Debug, Default)]
    struct World {
        captures: Vec<CaptureRow>,
        events: Vec<FetchEvent>,
        content: Option<ContentRow>,
        missing: Vec<Millis>,
    }

    impl World {
        /// Returns page and time of the record that is read, or the problem; and the steps.
        fn found(&self) -> (Result<(Fingerprint, Millis), Kind>, String) {
            let of = |page: Fingerprint| self.captures.iter().filter(|row| row.fingerprint == page).cloned().collect();
            let (mut step, mut steps) = (Search::begin(PAGE, of(PAGE)), String::new());
            loop {
                step = match step {
                    Step::History(search) => {
                        steps.push('h');
                        search.history(self.events.clone())
                    }
                    Step::Content(search, hash) => {
                        steps.push('c');
                        search.content(self.content.clone().filter(|row| row.content_hash == hash))
                    }
                    Step::Captures(search, page, at_ms) => {
                        steps.push('l');
                        search.captures(of(page), at_ms)
                    }
                    Step::Read(search, row) => {
                        steps.push('r');
                        if !self.missing.contains(&row.at_ms) {
                            return (Ok((row.fingerprint, row.at_ms)), steps);
                        }
                        search.missing(row.file)
                    }
                    Step::Ended(problem) => return (Err(problem.kind), steps),
                };
            }
        }
    }

    fn content(fingerprint: Fingerprint, at_ms: Millis) -> Option<ContentRow> {
        Some(ContentRow { content_hash: "ab".to_owned(), fingerprint, at_ms })
    }

    #[test]
    fn the_newest_capture_is_read_and_nothing_else_looked_up() {
        let captures = vec![capture(PAGE, 20, false), capture(PAGE, 10, false)];
        assert_eq!(World { captures, ..World::default() }.found(), (Ok((PAGE, 20)), "r".to_owned()));
    }

    #[test]
    fn the_content_of_a_revisit_is_that_of_the_fetch_to_which_its_hash_leads() {
        let captures = vec![capture(PAGE, 20, true), capture(PAGE, 10, false), capture(OTHER, 15, false)];
        let events = vec![event(20, Some("ab")), event(10, Some("cd"))];
        let world = World { captures, events, content: content(OTHER, 15), ..World::default() };
        assert_eq!(world.found(), (Ok((OTHER, 15)), "hclr".to_owned()));
        let own = World { content: content(PAGE, 10), ..world };
        assert_eq!(own.found(), (Ok((PAGE, 10)), "hclr".to_owned()));
    }

    #[test]
    fn a_revisit_whose_content_is_not_found_gives_way_to_an_older_capture() {
        let captures = vec![capture(PAGE, 30, true), capture(PAGE, 20, true), capture(PAGE, 10, false)];
        for (events, content) in [
            (vec![], None),
            (vec![event(30, None)], None),
            (vec![event(30, Some("ab"))], None),
            (vec![event(30, Some("ab"))], content(PAGE, 20)),
            (vec![event(30, Some("ab"))], content(OTHER, 5)),
        ] {
            let world = World { captures: captures.clone(), events, content, ..World::default() };
            assert_eq!(world.found().0, Ok((PAGE, 10)));
        }
    }

    #[test]
    fn a_file_that_is_missing_gives_way_to_an_older_one_up_to_a_limit() {
        let captures = |count: Millis| (0..count).rev().map(|at_ms| capture(PAGE, at_ms, false)).collect();
        let world = World { captures: captures(3), missing: vec![2], ..World::default() };
        assert_eq!(world.found(), (Ok((PAGE, 1)), "rr".to_owned()));
        let world = World { captures: captures(3), missing: vec![0, 1, 2], ..World::default() };
        assert_eq!(world.found(), (Err(Kind::FileMissing), "rrr".to_owned()));
        let world = World { captures: captures(20), missing: (5..20).collect(), ..World::default() };
        assert_eq!(world.found(), (Err(Kind::FileMissing), "r".repeat(MAX_READS)));
    }

    #[test]
    fn a_page_without_content_is_not_archived() {
        assert_eq!(World::default().found(), (Err(Kind::NotArchived), String::new()));
        let world = World { captures: vec![capture(PAGE, 20, true)], ..World::default() };
        assert_eq!(world.found(), (Err(Kind::NotArchived), "h".to_owned()));
    }
}
