//! Tables as CSV (RFC 4180).

use std::{borrow::Cow, io, io::Write};

use csv::{Terminator, Writer, WriterBuilder};

use super::{Link, Linked, Page, Printer, Width};
use crate::report::{args::Section, chains::Hop, slow::Fetch};

/// Columns of the sections with links, one line per link.
const LINK_COLUMNS: [&str; 12] =
    ["url", "result", "status", "reason", "hops", "chain", "final_url", "via", "page", "link_url", "text", "rel"];
/// Columns of the section of titles, one line per page.
const TITLE_COLUMNS: [&str; 3] = ["site", "title", "url"];

/// Columns of the section of slow pages, one line per page.
const SLOW_COLUMNS: [&str; 4] = ["url", "fetch_ms", "status", "bytes"];

/// Prints a section as a table.
pub(super) struct CsvPrinter<'a> {
    section: Section,
    out: Writer<Box<dyn Write + 'a>>,
}

impl<'a> CsvPrinter<'a> {
    pub(super) fn new(section: Section, out: Box<dyn Write + 'a>) -> Self {
        let out = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(out);
        Self { section, out }
    }

    fn write<const N: usize>(&mut self, cells: [&str; N]) -> io::Result<()> {
        self.out.write_record(cells.map(guarded).iter().map(|cell| cell.as_bytes())).map_err(write_error)
    }
}

/// Returns the cause: an error of the writer keeps its kind, such as that of a closed pipe.
fn write_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Returns a cell that no spreadsheet evaluates: texts of links and titles are those of any site.
fn guarded(cell: &str) -> Cow<'_, str> {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{cell}").into() } else { cell.into() }
}

/// Returns the redirects as `301 URL 302 URL`; URLs have no spaces.
fn chain(hops: &[Hop]) -> String {
    let hop = |Hop { url, status }: &Hop| format!("{} {url}", number(*status));
    hops.iter().map(hop).collect::<Vec<_>>().join(" ")
}

fn number(status: Option<u16>) -> String {
    status.map(|status| status.to_string()).unwrap_or_default()
}

impl Printer for CsvPrinter<'_> {
    fn begin(&mut self) -> io::Result<()> {
        match self.section {
            Section::Titles => self.write(TITLE_COLUMNS),
            Section::Slow => self.write(SLOW_COLUMNS),
            Section::Broken | Section::Redirects => self.write(LINK_COLUMNS),
        }
    }

    fn url(&mut self, linked: &Linked, width: &Width) -> io::Result<()> {
        if width.links > 0 {
            return Ok(());
        }
        let none = Link { page: String::new(), url: String::new(), text: String::new(), rel: String::new() };
        self.link(linked, &none, width)
    }

    fn link(&mut self, linked: &Linked, link: &Link, _: &Width) -> io::Result<()> {
        let found = &linked.chain;
        self.write([
            &linked.url,
            found.verdict.name(),
            &number(found.status),
            found.reason.as_deref().unwrap_or_default(),
            &found.hops.len().to_string(),
            &chain(&found.hops),
            &found.url,
            linked.via.as_deref().unwrap_or_default(),
            &link.page,
            &link.url,
            &link.text,
            &link.rel,
        ])
    }

    fn slow(&mut self, url: &str, fetch: &Fetch) -> io::Result<()> {
        self.write([url, &fetch.fetch_ms.to_string(), &number(fetch.status), &fetch.bytes.to_string()])
    }

    fn title(&mut self, _: &Page) -> io::Result<()> {
        Ok(())
    }

    fn page(&mut self, page: &Page) -> io::Result<()> {
        self.write([&page.site, &page.title, &page.url])
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::print::tests::{example, printed};

    #[test]
    fn a_table_reads_back_whatever_the_texts_have_and_no_cell_is_a_formula() {
        for text in ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "a \"b\", c\nd", "x=1", ""] {
            let (linked, mut link) = example();
            link.text = text.to_owned();
            let table = printed(|out| Box::new(CsvPrinter::new(Section::Broken, out)), &linked, &[link.clone()]);
            let mut reader = csv::Reader::from_reader(table.as_bytes());
            assert_eq!(reader.headers().unwrap(), &csv::StringRecord::from(LINK_COLUMNS.to_vec()));
            let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
            assert_eq!(rows.len(), 1);
            let read = &rows[0][10];
            assert_eq!(read.strip_prefix('\'').unwrap_or(read), text);
            assert!(!read.starts_with(['=', '+', '-', '@', '\t', '\r']), "{read}");
            assert_eq!(rows[0][10].starts_with('\''), text.len() > 1 && !text.starts_with(['a', 'x']), "{read}");
        }
    }

    #[test]
    fn each_line_of_the_table_has_all_about_its_link_and_ends_with_cr_lf() {
        let (linked, link) = example();
        let table = printed(|out| Box::new(CsvPrinter::new(Section::Broken, out)), &linked, &[link]);
        let line = "http://a/old,broken,404,http_404,1,301 http://a/old,http://a/gone,http://a/,http://a/page,\
                    http://A/old,Old page,nofollow\r\n";
        assert_eq!(table, format!("{}\r\n{line}", LINK_COLUMNS.join(",")));
        let alone = printed(|out| Box::new(CsvPrinter::new(Section::Broken, out)), &linked, &[]);
        assert!(alone.ends_with(",http://a/,,,,\r\n"), "{alone}");
    }
}
