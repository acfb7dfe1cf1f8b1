//! Choice of dates, authors and the name of the site among the statements of a page.

use orbweaver_messages::MetaElement;

use super::date;
use super::things::{Thing, name};
use crate::text::folded;

/// Maximum number of authors.
const MAX_AUTHORS: usize = 20;
/// Maximum length of an author's name and of the name of a site, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// Names of `meta` elements with the date of publication, the most reliable first.
const PUBLISHED: [&str; 15] = [
    "article:published_time",
    "article:published",
    "datepublished",
    "og:article:published_time",
    "citation_publication_date",
    "citation_online_date",
    "citation_date",
    "dcterms.issued",
    "dc.date.issued",
    "parsely-pub-date",
    "sailthru.date",
    "dcterms.date",
    "dc.date",
    "pubdate",
    "date",
];
/// Names with the date of the last change.
const MODIFIED: [&str; 7] = [
    "article:modified_time",
    "datemodified",
    "og:updated_time",
    "dcterms.modified",
    "dc.date.modified",
    "revised",
    "last-modified",
];
/// Names with authors.
const AUTHORS: [&str; 7] = [
    "author",
    "article:author",
    "citation_author",
    "dc.creator",
    "dcterms.creator",
    "parsely-author",
    "sailthru.author",
];

/// Statements of a page.
#[derive(Debug)]
pub(super) struct Stated<'a> {
    pub(super) meta: &'a [MetaElement],
    /// Things that it describes, the outer ones first.
    pub(super) things: Vec<Thing<'a>>,
    /// Value of the first `time` element.
    pub(super) time: Option<&'a str>,
    /// Texts of links to authors.
    pub(super) authors: &'a [String],
}

impl<'a> Stated<'a> {
    /// Returns the contents of the elements with one of these names, by their order.
    fn meta(&self, names: &'a [&str]) -> impl Iterator<Item = &'a str> {
        let of = |name: &'a &str| self.meta.iter().filter(move |meta| meta.name == **name);
        names.iter().flat_map(of).map(|meta| meta.content.as_str())
    }

    pub(super) fn published(&self) -> Option<String> {
        self.date("datePublished", &PUBLISHED).or_else(|| self.time.and_then(date::normal))
    }

    pub(super) fn modified(&self) -> Option<String> {
        self.date("dateModified", &MODIFIED)
    }

    /// Returns a date of the article, else of the `meta` elements, else of the page.
    fn date(&self, property: &str, names: &'a [&str]) -> Option<String> {
        let things = &self.things;
        let stated = |condition: fn(&str) -> bool| {
            let mut chosen = things.iter().filter(|thing| thing.is(condition));
            chosen.find_map(|thing| thing.values(property).filter_map(|value| value.as_str()).find_map(date::normal))
        };
        stated(is_article).or_else(|| self.meta(names).find_map(date::normal)).or_else(|| stated(is_page))
    }

    pub(super) fn authors(&self) -> Vec<String> {
        let things = &self.things;
        let of = |thing: &Thing<'a>| -> Vec<&'a str> {
            let values = thing.values("author").chain(thing.values("creator"));
            values.filter_map(|value| name(value, things)).collect()
        };
        let stated = |condition: fn(&str) -> bool| {
            things.iter().filter(|thing| thing.is(condition)).map(of).find(|names| !names.is_empty())
        };
        let names = stated(is_article)
            .unwrap_or_else(|| self.meta(&AUTHORS).filter(|name| !name.is_empty() && !name.contains("://")).collect());
        let linked = || self.authors.iter().map(String::as_str).collect();
        let names = if names.is_empty() { stated(is_page).unwrap_or_else(linked) } else { names };
        let mut authors: Vec<String> = Vec::new();
        for name in names.into_iter().filter(|name| !name.contains("://")) {
            let (name, is_cut) = folded(name, MAX_NAME_BYTES);
            if !is_cut && !name.is_empty() && authors.len() < MAX_AUTHORS && !authors.contains(&name) {
                authors.push(name);
            }
        }
        authors
    }

    pub(super) fn site_name(&self) -> Option<String> {
        let things = &self.things;
        let of_site =
            || things.iter().filter(|thing| thing.is(|kind| kind == "WebSite")).find_map(|site| site.text("name"));
        let publisher = || {
            let of = |thing: &Thing<'a>| thing.values("publisher").find_map(|value| name(value, things));
            things.iter().filter(|thing| thing.is(is_article)).find_map(of)
        };
        let stated = self.meta(&["og:site_name"]).next().or_else(of_site).or_else(publisher);
        let (name, _) = folded(stated.or_else(|| self.meta(&["application-name"]).next())?, MAX_NAME_BYTES);
        Some(name).filter(|name| !name.is_empty())
    }

    /// Returns the licences of the article or page, as written.
    pub(super) fn licenses(&self) -> Vec<&'a str> {
        let things = &self.things;
        let own = things.iter().filter(|thing| thing.is(|kind| is_article(kind) || is_page(kind)));
        own.flat_map(|thing| thing.values("license")).filter_map(|value| value.as_str()).collect()
    }
}

/// Returns `true` for a type of works that have an author and a date.
fn is_article(kind: &str) -> bool {
    kind.ends_with("Article")
        || kind.ends_with("Posting")
        || matches!(kind, "Report" | "Recipe" | "Dataset" | "Course" | "HowTo" | "PodcastEpisode" | "Question" | "Book")
}

fn is_page(kind: &str) -> bool {
    kind.ends_with("Page") || kind == "CreativeWork" || kind == "VideoObject"
}
