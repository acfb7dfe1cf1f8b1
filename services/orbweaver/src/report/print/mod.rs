//! Forms of the report.

mod csv;
mod jsonl;
mod text;

use std::io::{self, Write};

use serde::Serialize;

use super::{
    args::{Format, Section},
    chains::Chain,
    sections::Totals,
    slow::Fetch,
};

/// URL that is broken or redirects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Linked {
    /// Canonical URL.
    pub(super) url: String,
    /// Page that led the crawl there.
    pub(super) via: Option<String>,
    pub(super) chain: Chain,
}

impl Linked {
    pub(super) fn new(url: String, via: Option<String>, chain: Chain) -> Self {
        Self { url, via, chain }
    }
}

/// Link to such a URL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Link {
    /// Canonical URL of the page with the link.
    pub(super) page: String,
    /// Target as found.
    pub(super) url: String,
    pub(super) text: String,
    pub(super) rel: String,
}

/// Page in the section of titles.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Page {
    pub(super) site: String,
    pub(super) title: String,
    pub(super) url: String,
}

/// Extent of the links to one URL, given by page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Width {
    pub(super) links: u64,
    pub(super) pages: u64,
    /// Length of the longest URL of a page, in characters.
    pub(super) longest: usize,
    last: String,
}

impl Width {
    /// Counts the next link.
    pub(super) fn add(&mut self, link: &Link) {
        self.links += 1;
        if self.links == 1 || self.last != link.page {
            self.pages += 1;
            self.longest = self.longest.max(link.page.chars().count());
            self.last.clone_from(&link.page);
        }
    }
}

/// Prints one section; all calls are in the order of the report.
pub(super) trait Printer {
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Begins a URL; `width` describes its links, which follow.
    fn url(&mut self, linked: &Linked, width: &Width) -> io::Result<()>;

    /// Prints a link to the URL that was begun last.
    fn link(&mut self, linked: &Linked, link: &Link, width: &Width) -> io::Result<()>;

    /// Begins a title, with its first page.
    fn title(&mut self, first: &Page) -> io::Result<()>;

    /// Prints a page with the title that was begun last.
    fn page(&mut self, page: &Page) -> io::Result<()>;

    /// Prints a slow page.
    fn slow(&mut self, url: &str, fetch: &Fetch) -> io::Result<()>;

    /// Writes all that is buffered.
    fn end(&mut self) -> io::Result<()>;
}

/// Returns the printer of a section.
pub(super) fn printer<'a>(format: Format, section: Section, out: Box<dyn Write + 'a>) -> Box<dyn Printer + 'a> {
    match format {
        Format::Text => Box::new(text::TextPrinter::new(section, out)),
        Format::Csv => Box::new(csv::CsvPrinter::new(section, out)),
        Format::Jsonl => Box::new(jsonl::JsonPrinter::new(section, out)),
    }
}

/// Prints the numbers of a report.
pub(super) fn summary(sections: &[Section], totals: &Totals, out: &mut dyn Write) -> io::Result<()> {
    text::summary(sections, totals, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{chains::Hop, classify::Verdict};

    /// Returns a URL that redirects to a missing one, and a link to it.
    pub(super) fn example() -> (Linked, Link) {
        let chain = Chain {
            hops: vec![Hop { url: "http://a/old".to_owned(), status: Some(301) }],
            url: "http://a/gone".to_owned(),
            verdict: Verdict::Broken,
            status: Some(404),
            reason: Some("http_404".to_owned()),
        };
        let [page, url, text, rel] = ["http://a/page", "http://A/old", "Old page", "nofollow"].map(str::to_owned);
        (Linked::new("http://a/old".to_owned(), Some("http://a/".to_owned()), chain), Link { page, url, text, rel })
    }

    /// Returns the section with one URL and these links to it.
    pub(super) fn printed(
        printer: for<'a> fn(Box<dyn Write + 'a>) -> Box<dyn Printer + 'a>,
        linked: &Linked,
        links: &[Link],
    ) -> String {
        let (mut out, mut width) = (vec![], Width::default());
        links.iter().for_each(|link| width.add(link));
        let mut section = printer(Box::new(&mut out));
        section.begin().unwrap();
        section.url(linked, &width).unwrap();
        links.iter().for_each(|link| section.link(linked, link, &width).unwrap());
        section.end().unwrap();
        drop(section);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn links_of_one_page_count_as_one_page() {
        let (_, link) = example();
        let other = Link { page: "http://a/longer-page".to_owned(), ..link.clone() };
        let mut width = Width::default();
        [&link, &link, &other].into_iter().for_each(|link| width.add(link));
        assert_eq!((width.links, width.pages, width.longest), (3, 2, other.page.len()));
    }
}
