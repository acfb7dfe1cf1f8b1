//! Random results, and their export computed in memory.

use proptest::prelude::*;
use serde_json::{Value, json};

const HTML: &str = "<p>\u{e9}\u{1f577} \"quoted\" \\ and so on</p>\n";

const HOSTS: [&str; 4] = ["a.test", "docs.a.test", "b.test", "ba.test"];
const STATUSES: [u16; 4] = [200, 204, 404, 503];
const LANGUAGES: [Option<&str>; 4] = [None, Some("en"), Some("EN-gb"), Some("de")];
const RELS: [Option<&str>; 2] = [None, Some("nofollow")];

/// Properties of a page by which the tests select: host, status, language, day of January 2027.
pub(super) type Page = (usize, usize, usize, u8);

/// Results of a crawl.
#[derive(Debug, Clone, Default)]
pub(super) struct Crawl {
    pub(super) documents: Vec<Value>,
    pub(super) urls: Vec<Value>,
    /// Properties of the documents, and of the other pages.
    pages: [Vec<Page>; 2],
}

/// Options of an export, and whether they select a page.
pub(super) type Options = (&'static [&'static str], fn(&Page) -> bool);

pub(super) const OPTIONS: [Options; 7] = [
    (&[], |_| true),
    (&["--site", "a.test"], |page| page.0 < 2),
    (&["--status", "404,2xx"], |page| page.1 < 3),
    (&["--language", "en"], |page| [1, 2].contains(&page.2)),
    (&["--since", "2027-01-02", "--until", "2027-01-03T00:00:00Z"], |page| page.3 == 2),
    (&["--what", "links", "--site", "b.test", "--status", "200"], |page| page.0 == 2 && page.1 == 0),
    (&["--what", "documents,pages", "--until", "2027-01-02"], |page| page.3 < 2),
];

impl Crawl {
    fn add_document(&mut self, page: Page, links: usize, size: usize) {
        let number = self.documents.len();
        let link = |to: usize| match RELS[(number + to) % 2] {
            Some(rel) => json!({"url": format!("http://c.test/{to}"), "text": format!("to \"{to}\""), "rel": rel}),
            None => json!({"url": format!("http://c.test/\u{e9}/{to}"), "text": ""}),
        };
        let links: Vec<_> = (0..links).map(link).collect();
        let others = ["image", "canonical"]
            .map(|kind| json!({"url": format!("http://d.test/{kind}"), "text": "", "kind": kind}));
        let mut document = json!({
            "url": format!("https://{}/{number}", HOSTS[page.0]), "status": STATUSES[page.1], "links": links,
            "fetched_at": time(page), "title": "Title", "text": HTML.repeat(size), "crawl": "default",
        });
        if let Some(language) = LANGUAGES[page.2] {
            document["language"] = json!(language);
        }
        if number.is_multiple_of(5) {
            if let Some(link) = document["links"].as_array_mut().and_then(|links| links.first_mut()) {
                link["kind"] = json!("frame");
            }
            document["other_links"] = json!(others);
        }
        if number.is_multiple_of(3) {
            document["visit"] = json!(number);
        }
        self.documents.push(document);
        self.pages[0].push(page);
    }

    fn add_page(&mut self, page: Page) {
        let url = format!("https://{}:8080/{}", HOSTS[page.0], self.urls.len());
        self.urls.push(json!({"url": url, "outcome": "fetched", "status": STATUSES[page.1], "time": time(page)}));
        self.pages[1].push(page);
    }

    pub(super) fn documents(&self, is_selected: fn(&Page) -> bool) -> Vec<Value> {
        let pairs = self.documents.iter().zip(&self.pages[0]);
        pairs.filter(|(_, page)| is_selected(page)).map(|(document, _)| document.clone()).collect()
    }

    pub(super) fn pages(&self, is_selected: fn(&Page) -> bool) -> Vec<Value> {
        let pairs = self.urls.iter().zip(&self.pages[1]);
        pairs.filter(|(_, page)| is_selected(page)).map(|(url, _)| url.clone()).collect()
    }

    pub(super) fn links(&self, is_selected: fn(&Page) -> bool) -> Vec<Value> {
        let mut edges = vec![];
        for document in self.documents(is_selected) {
            let others = document["other_links"].as_array().into_iter().flatten();
            for link in document["links"].as_array().unwrap().iter().chain(others) {
                let mut edge = json!({
                    "from": document["url"], "to": link["url"], "text": link["text"], "fetched_at": document["fetched_at"],
                });
                for (field, value) in [("rel", &link["rel"]), ("kind", &link["kind"]), ("visit", &document["visit"])] {
                    if !value.is_null() && *value != json!(0) {
                        edge[field] = value.clone();
                    }
                }
                edges.push(edge);
            }
        }
        edges
    }
}

fn time(page: Page) -> String {
    format!("2027-01-{:02}T{:02}:00:00.000Z", page.3, page.0)
}

/// Returns results that depend on the numbers alone.
pub(super) fn fixed(documents: usize, urls: usize) -> Crawl {
    let mut crawl = Crawl::default();
    let page = |number: usize| (number % 4, number / 4 % 4, number % 3, u8::try_from(number % 3 + 1).unwrap());
    (0..documents).for_each(|number| crawl.add_document(page(number), number % 4, number % 5));
    (0..urls).for_each(|number| crawl.add_page(page(number)));
    crawl
}

/// Returns random results.
pub(super) fn crawl() -> impl Strategy<Value = Crawl> {
    let page = || (0..4usize, 0..4usize, 0..4usize, 1..4u8);
    let documents = prop::collection::vec((page(), 0..6usize, 0..30usize), 0..40);
    (documents, prop::collection::vec(page(), 0..40)).prop_map(|(documents, urls)| {
        let mut crawl = Crawl::default();
        documents.into_iter().for_each(|(page, links, size)| crawl.add_document(page, links, size));
        urls.into_iter().for_each(|page| crawl.add_page(page));
        crawl
    })
}
