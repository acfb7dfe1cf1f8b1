//! One JSON object per line.

use std::{
    io,
    io::{BufWriter, Write},
};

use serde::Serialize;

use super::{Link, Linked, Page, Printer, Width};
use crate::{
    output::json_line,
    report::{args::Section, chains::Hop, classify::Verdict, slow::Fetch},
};

/// Line of the sections with links.
#[derive(Serialize)]
struct LinkLine<'a> {
    section: &'static str,
    url: &'a str,
    result: Verdict,
    status: Option<u16>,
    reason: Option<&'a str>,
    hops: usize,
    chain: &'a [Hop],
    final_url: &'a str,
    via: Option<&'a str>,
    /// Absent if no page links to the URL, like the following ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rel: Option<&'a str>,
}

/// Line of the section of titles.
#[derive(Serialize)]
struct TitleLine<'a> {
    section: &'static str,
    site: &'a str,
    title: &'a str,
    url: &'a str,
}

/// Line of the section of slow pages.
#[derive(Serialize)]
struct SlowLine<'a> {
    section: &'static str,
    url: &'a str,
    #[serde(flatten)]
    fetch: &'a Fetch,
}

/// Prints a section as JSON lines.
pub(super) struct JsonPrinter<'a> {
    section: &'static str,
    out: BufWriter<Box<dyn Write + 'a>>,
}

impl<'a> JsonPrinter<'a> {
    pub(super) fn new(section: Section, out: Box<dyn Write + 'a>) -> Self {
        Self { section: section.name(), out: BufWriter::new(out) }
    }

    fn write(&mut self, linked: &Linked, link: Option<&Link>) -> io::Result<()> {
        let chain = &linked.chain;
        let line = LinkLine {
            section: self.section,
            url: &linked.url,
            result: chain.verdict,
            status: chain.status,
            reason: chain.reason.as_deref(),
            hops: chain.hops.len(),
            chain: &chain.hops,
            final_url: &chain.url,
            via: linked.via.as_deref(),
            page: link.map(|link| &*link.page),
            link_url: link.map(|link| &*link.url),
            text: link.map(|link| &*link.text),
            rel: link.map(|link| &*link.rel),
        };
        json_line(&mut self.out, &line)
    }
}

impl Printer for JsonPrinter<'_> {
    fn url(&mut self, linked: &Linked, width: &Width) -> io::Result<()> {
        if width.links == 0 { self.write(linked, None) } else { Ok(()) }
    }

    fn link(&mut self, linked: &Linked, link: &Link, _: &Width) -> io::Result<()> {
        self.write(linked, Some(link))
    }

    fn slow(&mut self, url: &str, fetch: &Fetch) -> io::Result<()> {
        json_line(&mut self.out, &SlowLine { section: self.section, url, fetch })
    }

    fn title(&mut self, _: &Page) -> io::Result<()> {
        Ok(())
    }

    fn page(&mut self, Page { site, title, url }: &Page) -> io::Result<()> {
        json_line(&mut self.out, &TitleLine { section: self.section, site, title, url })
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::print::tests::{example, printed};

    #[test]
    fn a_line_has_all_about_its_link_with_texts_as_found() {
        let (linked, mut link) = example();
        link.text = "=1".to_owned();
        let lines = printed(|out| Box::new(JsonPrinter::new(Section::Broken, out)), &linked, &[link]);
        let line: serde_json::Value = serde_json::from_str(&lines).unwrap();
        let expected = json!({
            "section": "broken", "url": "http://a/old", "result": "broken", "status": 404, "reason": "http_404",
            "hops": 1, "chain": [{"url": "http://a/old", "status": 301}], "final_url": "http://a/gone",
            "via": "http://a/", "page": "http://a/page", "link_url": "http://A/old", "text": "=1", "rel": "nofollow",
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn a_url_without_links_has_one_line_without_a_page() {
        let (linked, _) = example();
        let lines = printed(|out| Box::new(JsonPrinter::new(Section::Broken, out)), &linked, &[]);
        let line: serde_json::Value = serde_json::from_str(&lines).unwrap();
        assert!(line["page"].is_null() && line["via"] == "http://a/", "{line}");
    }
}
