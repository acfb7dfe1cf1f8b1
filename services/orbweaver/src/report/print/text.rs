//! Human-readable text.

use std::{
    fmt::{self, Display},
    io,
    io::{BufWriter, Write},
};

use super::{Link, Linked, Page, Printer, Width};
use crate::{
    crawl::progress::number,
    report::{args::Section, chains::Chain, classify::Verdict, sections::Totals, slow::Fetch},
};

/// Maximum width to which URLs of pages are padded, in characters.
const MAX_WIDTH: usize = 80;

/// Prints a section as text.
pub(super) struct TextPrinter<'a> {
    section: Section,
    out: BufWriter<Box<dyn Write + 'a>>,
}

impl<'a> TextPrinter<'a> {
    pub(super) fn new(section: Section, out: Box<dyn Write + 'a>) -> Self {
        Self { section, out: BufWriter::new(out) }
    }
}

fn heading(section: Section) -> &'static str {
    match section {
        Section::Broken => "Broken links",
        Section::Redirects => "Redirects",
        Section::Titles => "Titles",
        Section::Slow => "Slow pages",
    }
}

/// Text of a page, in which control characters are escaped: they could command the terminal.
struct Shown<'a>(&'a str);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if c.is_control() { write!(f, "{}", c.escape_unicode())? } else { write!(f, "{c}")? }
        }
        Ok(())
    }
}

/// Returns the end of a chain: its status, else the reason.
fn end(chain: &Chain) -> String {
    let reason = chain.reason.as_deref().unwrap_or(chain.verdict.name());
    match (chain.verdict, chain.status) {
        (Verdict::Ok, Some(status)) => status.to_string(),
        (Verdict::Broken, Some(status)) if reason == format!("http_{status}") => status.to_string(),
        (Verdict::Broken, Some(status)) => format!("{status} ({reason})"),
        (Verdict::Broken, None) => reason.to_owned(),
        (Verdict::Loop, _) => "loop".to_owned(),
        (Verdict::Refused, _) => format!("refused ({reason})"),
        (Verdict::Ok, None) => "ok".to_owned(),
        (Verdict::NotCrawled, _) => "not crawled".to_owned(),
        (Verdict::Unchecked, _) => format!("not checked ({reason})"),
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl Printer for TextPrinter<'_> {
    fn begin(&mut self) -> io::Result<()> {
        writeln!(self.out, "== {} ==", heading(self.section))
    }

    fn url(&mut self, linked: &Linked, width: &Width) -> io::Result<()> {
        let chain = &linked.chain;
        writeln!(self.out, "\n{}", linked.url)?;
        let targets = chain.hops.iter().skip(1).map(|hop| &*hop.url).chain([&*chain.url]);
        for (hop, target) in chain.hops.iter().zip(targets) {
            let status = hop.status.map_or_else(|| "   ".to_owned(), |status| status.to_string());
            writeln!(self.out, "    {status} -> {target}")?;
        }
        write!(self.out, "    {}", end(chain))?;
        if !chain.hops.is_empty() {
            write!(self.out, " after {}", counted(chain.hops.len() as u64, "redirect", "redirects"))?;
        }
        match (width.links, &linked.via) {
            (0, Some(via)) => writeln!(self.out, ", no page links to it, found via {}", Shown(via)),
            (0, None) => writeln!(self.out, ", no page links to it"),
            (links, _) => {
                let pages = counted(width.pages, "page", "pages");
                writeln!(self.out, ", {} on {pages}", counted(links, "link", "links"))
            }
        }
    }

    fn link(&mut self, linked: &Linked, link: &Link, width: &Width) -> io::Result<()> {
        // Redirects that work need no correction of each page.
        if self.section != Section::Broken {
            return Ok(());
        }
        write!(
            self.out,
            "        {:width$}  \"{}\"",
            link.page,
            Shown(&link.text),
            width = width.longest.min(MAX_WIDTH)
        )?;
        if !link.rel.is_empty() {
            write!(self.out, "  rel=\"{}\"", Shown(&link.rel))?;
        }
        if link.url != linked.url {
            write!(self.out, "  as {}", Shown(&link.url))?;
        }
        writeln!(self.out)
    }

    fn title(&mut self, first: &Page) -> io::Result<()> {
        match &*first.title {
            "" => writeln!(self.out, "\nno title, {}", first.site),
            title => writeln!(self.out, "\n\"{}\", {}", Shown(title), first.site),
        }
    }

    fn page(&mut self, page: &Page) -> io::Result<()> {
        writeln!(self.out, "    {}", page.url)
    }

    fn slow(&mut self, url: &str, fetch: &Fetch) -> io::Result<()> {
        let status = fetch.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
        writeln!(self.out, "\n{url}\n    {} ms, {status}, {} bytes", number(fetch.fetch_ms), number(fetch.bytes))
    }

    fn end(&mut self) -> io::Result<()> {
        writeln!(self.out)?;
        self.out.flush()
    }
}

/// Prints the numbers of a report.
pub(super) fn summary(sections: &[Section], totals: &Totals, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "== Summary ==\n")?;
    for section in sections {
        let name = section.name();
        match section {
            Section::Broken => {
                let links = counted(totals.broken_links, "link", "links");
                writeln!(out, "{name:<10} {}, {links}", counted(totals.broken, "URL", "URLs"))?;
                if totals.unchecked > 0 {
                    writeln!(out, "{:<10} {}", "unchecked", counted(totals.unchecked, "URL", "URLs"))?;
                }
            }
            Section::Redirects => {
                let links = counted(totals.redirected_links, "link", "links");
                writeln!(out, "{name:<10} {}, {links}", counted(totals.redirects, "URL", "URLs"))?;
            }
            Section::Slow => writeln!(out, "{name:<10} {}", counted(totals.slow, "page", "pages"))?,
            Section::Titles => {
                let shared = counted(totals.shared_titles, "title", "titles");
                let pages = counted(totals.pages_with_shared_title, "page", "pages");
                let without = counted(totals.pages_without_title, "page", "pages");
                writeln!(out, "{name:<10} {shared} on {pages}, {without} without a title")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::print::tests::{example, printed};

    #[test]
    fn a_broken_url_has_its_redirects_its_end_and_each_link() {
        let (linked, link) = example();
        let longer = Link { page: "http://a/longer-page".to_owned(), rel: String::new(), ..link.clone() };
        let text = printed(|out| Box::new(TextPrinter::new(Section::Broken, out)), &linked, &[longer, link.clone()]);
        let expected = "== Broken links ==\n\nhttp://a/old\n    301 -> http://a/gone\n    404 after 1 redirect, 2 links on 2 pages\n        \
                        http://a/longer-page  \"Old page\"  as http://A/old\n        \
                        http://a/page         \"Old page\"  rel=\"nofollow\"  as http://A/old\n\n";
        assert_eq!(text, expected);
        let counted = printed(|out| Box::new(TextPrinter::new(Section::Redirects, out)), &linked, &[link]);
        assert!(counted.ends_with("404 after 1 redirect, 1 link on 1 page\n\n"), "{counted}");
        let alone = printed(|out| Box::new(TextPrinter::new(Section::Broken, out)), &linked, &[]);
        assert!(alone.ends_with("404 after 1 redirect, no page links to it, found via http://a/\n\n"), "{alone}");
    }

    #[test]
    fn texts_of_pages_command_no_terminal() {
        let (linked, mut link) = example();
        link.text = "a\u{1b}[2Jb\u{9b}c\rd".to_owned();
        let text = printed(|out| Box::new(TextPrinter::new(Section::Broken, out)), &linked, &[link]);
        assert!(text.contains("a\\u{1b}[2Jb\\u{9b}c\\u{d}d"), "{text}");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
    }

    #[test]
    fn an_end_is_shown_by_its_status_or_its_reason() {
        let end_of = |verdict, status, reason: &str| {
            let reason = Some(reason.to_owned()).filter(|reason| !reason.is_empty());
            end(&Chain { hops: vec![], url: String::new(), verdict, status, reason })
        };
        assert_eq!(end_of(Verdict::Ok, Some(200), ""), "200");
        assert_eq!(end_of(Verdict::Broken, Some(404), "http_404"), "404");
        assert_eq!(end_of(Verdict::Broken, Some(200), "body"), "200 (body)");
        assert_eq!(end_of(Verdict::Broken, None, "dns"), "dns");
        assert_eq!(end_of(Verdict::Loop, Some(302), "redirect_loop"), "loop");
        assert_eq!(end_of(Verdict::Refused, None, "robots"), "refused (robots)");
        assert_eq!(end_of(Verdict::NotCrawled, None, ""), "not crawled");
    }
}
