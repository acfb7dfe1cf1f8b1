//! Facts that a page states: `meta` elements, links, JSON-LD and microdata, and the choice of the main ones.
//!
//! The pass over the markup collects them as written ([`RawFacts`]); [`RawFacts::finish`] resolves their URLs and chooses
//! dates, authors and the name of the site.

mod choice;
mod date;
mod json_ld;
mod language;
mod microdata;
mod things;
mod usage;

use std::borrow::Cow;

use orbweaver_messages::{Alternate, Facts, FeedLink, MetaElement, UsageStatements};

use crate::ExtractorConfig;
use crate::attributes::{Attribute, Attributes};
use crate::links::Resolver;
use crate::scan::is_feed;
use crate::text::{FoldedText, folded};

use self::choice::Stated;
use self::microdata::Microdata;

pub(crate) use self::language::detect as detect_language;
pub(crate) use self::usage::add_header as add_usage_header;

/// Maximum length of all facts of a page, in bytes as written. Of pages in use, few have more than 50 KB.
const MAX_FACTS_BYTES: usize = 256 << 10;
/// Bytes that a fact counts in addition to its text, so that their number is bounded, too.
const FACT_BYTES: usize = 32;
/// Maximum length of the name of a `meta` element, of a language or of a media type, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Bytes that are left for facts.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
    /// Whether a fact was left out.
    is_exceeded: bool,
}

impl Budget {
    /// Takes the room of a fact with texts of `bytes` bytes. Returns `false` if it has to be left out.
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes.saturating_add(FACT_BYTES));
        self.is_exceeded |= left.is_none();
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

/// Facts as written in the markup.
#[derive(Debug)]
pub(crate) struct RawFacts {
    budget: Budget,
    meta: Vec<MetaElement>,
    alternates: Vec<Alternate>,
    feeds: Vec<FeedLink>,
    licenses: Vec<String>,
    usage: UsageStatements,
    /// Value of the first `time` element with `datetime`.
    time: Option<String>,
    /// Text of the open link to an author (`rel=author`), and of those that have ended.
    author: Option<FoldedText>,
    authors: Vec<String>,
    /// Open script of JSON-LD.
    script: Option<Vec<u8>>,
    json_ld: Vec<json_ld::Object>,
    microdata: Microdata,
}

impl RawFacts {
    /// Creates an empty collection; `None` if the options request no facts.
    pub(crate) fn new(options: &ExtractorConfig) -> Option<Box<Self>> {
        options.facts.then(|| {
            Box::new(Self {
                budget: Budget { left: MAX_FACTS_BYTES, is_exceeded: false },
                meta: Vec::new(),
                alternates: Vec::new(),
                feeds: Vec::new(),
                licenses: Vec::new(),
                usage: UsageStatements::default(),
                time: None,
                author: None,
                authors: Vec::new(),
                script: None,
                json_ld: Vec::new(),
                microdata: Microdata::default(),
            })
        })
    }

    /// Adds the facts of a start tag. `agent` is the product token of the crawler.
    pub(crate) fn start(&mut self, name: &[u8], attributes: &Attributes, agent: &str) {
        match name {
            b"meta" => self.add_meta(attributes, agent),
            b"link" => self.add_link(attributes),
            b"a" => {
                self.end_author();
                self.author = has_relation(attributes, "author").then(|| FoldedText::new(MAX_NAME_BYTES));
                self.add_license(attributes);
            }
            b"area" => self.add_license(attributes),
            b"script" if json_ld::is_type(&text(attributes, Attribute::Type)) => self.script = Some(Vec::new()),
            b"time" if self.time.is_none() => {
                self.time = attributes.get(Attribute::Datetime).map(|time| String::from_utf8_lossy(time).into_owned());
            }
            _ => {}
        }
        self.microdata.start(name, attributes, &mut self.budget);
    }

    /// Ends an element.
    pub(crate) fn end(&mut self, name: &[u8]) {
        match self.script.take() {
            Some(script) if name == b"script" => self.json_ld.extend(json_ld::objects(&script, &mut self.budget)),
            Some(script) => self.script = Some(script),
            None => {
                if name == b"a" {
                    self.end_author();
                }
                self.microdata.end(name, &mut self.budget);
            }
        }
    }

    /// Adds text of a script.
    pub(crate) fn add_script(&mut self, text: &[u8]) {
        if let Some(script) = &mut self.script {
            if script.len() + text.len() <= self.budget.left {
                script.extend_from_slice(text);
            } else {
                self.budget.is_exceeded = true;
                self.script = None;
            }
        }
    }

    /// Adds text that is shown.
    pub(crate) fn add_text(&mut self, text: &[u8]) {
        if let Some(author) = &mut self.author {
            author.push(text);
        }
        self.microdata.add_text(text, &mut self.budget);
    }

    fn end_author(&mut self) {
        if let Some(name) = self.author.take().map(|mut author| author.take())
            && self.budget.take(name.len())
        {
            self.authors.push(name);
        }
    }

    fn add_meta(&mut self, attributes: &Attributes, agent: &str) {
        let Some(content) = attributes.get(Attribute::Content) else { return };
        let named = [Attribute::Property, Attribute::Name, Attribute::Itemprop];
        let property = named.iter().find_map(|attribute| attributes.get(*attribute)).unwrap_or_default();
        let name = String::from_utf8_lossy(property.trim_ascii()).to_lowercase();
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return;
        }
        let (content, _) = folded(&String::from_utf8_lossy(content), usize::MAX);
        usage::add_meta(&mut self.usage, (&name, &content), agent);
        if self.budget.take(name.len() + content.len()) {
            self.meta.push(MetaElement { name, content });
        }
    }

    fn add_link(&mut self, attributes: &Attributes) {
        self.add_license(attributes);
        if !has_relation(attributes, "alternate") {
            return;
        }
        let Some(url) = url(attributes, Attribute::Href) else { return };
        let named = |attribute| text(attributes, attribute).trim().to_owned();
        let (language, media_type) = (named(Attribute::Hreflang), named(Attribute::Type));
        if is_feed(&media_type) {
            let (title, _) = folded(&text(attributes, Attribute::Title), usize::MAX);
            if media_type.len() <= MAX_NAME_BYTES && self.budget.take(url.len() + media_type.len() + title.len()) {
                self.feeds.push(FeedLink { url, media_type, title });
            }
        } else if !language.is_empty()
            && language.len() <= MAX_NAME_BYTES
            && self.budget.take(url.len() + language.len())
        {
            self.alternates.push(Alternate { language, url });
        }
    }

    fn add_license(&mut self, attributes: &Attributes) {
        if has_relation(attributes, "license")
            && let Some(url) = url(attributes, Attribute::Href)
            && self.budget.take(url.len())
        {
            self.licenses.push(url);
        }
    }

    /// Returns the facts, and whether any are left out. `headers` are those of the response, `text` is its main text or
    /// all of its text.
    pub(crate) fn finish(
        mut self,
        resolver: &mut Resolver<'_>,
        headers: &[(String, String)],
        agent: &str,
        text: &str,
    ) -> (Facts, bool) {
        self.end_author();
        self.microdata.finish(&mut self.budget);
        let microdata = self.microdata.to_json(&|url| resolver.absolute(url));
        let mut resolve = |url: &str| resolver.url(url).map(String::from);
        let mut usage = self.usage;
        headers.iter().for_each(|(name, value)| add_usage_header(&mut usage, (name, value), agent));
        usage.tdm_policy = usage.tdm_policy.and_then(|url| resolve(&url));
        let stated = Stated {
            meta: &self.meta,
            things: things::all(self.json_ld.iter().chain(&microdata)),
            time: self.time.as_deref(),
            authors: &self.authors,
        };
        let mut licenses: Vec<String> = Vec::new();
        for url in self.licenses.iter().map(String::as_str).chain(stated.licenses()).filter_map(&mut resolve) {
            if !licenses.contains(&url) && licenses.len() < 20 {
                licenses.push(url);
            }
        }
        let facts = Facts {
            published: stated.published(),
            modified: stated.modified(),
            authors: stated.authors(),
            site_name: stated.site_name(),
            detected_language: detect_language(text),
            alternates: resolved(self.alternates, |alternate| &mut alternate.url, &mut resolve),
            feeds: resolved(self.feeds, |feed| &mut feed.url, &mut resolve),
            licenses,
            usage,
            meta: self.meta,
            json_ld: self.json_ld,
            microdata,
        };
        (facts, self.budget.is_exceeded)
    }
}

/// Resolves the URLs of facts; those that have no valid one are dropped.
fn resolved<T>(
    facts: Vec<T>,
    url: impl Fn(&mut T) -> &mut String,
    resolve: &mut impl FnMut(&str) -> Option<String>,
) -> Vec<T> {
    let resolved = |mut fact: T| {
        let url = url(&mut fact);
        *url = resolve(url)?;
        Some(fact)
    };
    facts.into_iter().filter_map(resolved).collect()
}

fn text(attributes: &Attributes, attribute: Attribute) -> Cow<'_, str> {
    String::from_utf8_lossy(attributes.get(attribute).unwrap_or_default())
}

/// Returns a URL as written; `None` for one that is missing or cut.
fn url(attributes: &Attributes, attribute: Attribute) -> Option<String> {
    let url = attributes.get(attribute)?.trim_ascii();
    (!url.is_empty() && !attributes.is_cut(attribute)).then(|| String::from_utf8_lossy(url).into_owned())
}

fn has_relation(attributes: &Attributes, relation: &str) -> bool {
    let words = attributes.get(Attribute::Rel).unwrap_or_default().split(u8::is_ascii_whitespace);
    words.into_iter().any(|word| word.eq_ignore_ascii_case(relation.as_bytes()))
}

#[cfg(test)]
mod tests;
