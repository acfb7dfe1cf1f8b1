//! Requisites of a page, which it needs to be shown: pictures, style sheets, scripts, media, fonts, pages within it.

use std::collections::HashSet;

use encoding_rs::UTF_8;
use orbweaver_url::MAX_URL_BYTES;
use xxhash_rust::xxh3::xxh3_64;

use crate::attributes::{Attribute, Attributes};
use crate::extract::PageInput;
use crate::links::{Requisite, Resolver};
use crate::{ExtractorConfig, charset, css};

/// Tokens of `rel` with which a `link` is a requisite.
const RELATIONS: [&str; 8] = [
    "stylesheet",
    "icon",
    "apple-touch-icon",
    "apple-touch-icon-precomposed",
    "mask-icon",
    "manifest",
    "preload",
    "modulepreload",
];

/// Schemes of URLs that need no request, or name none.
const LOCAL: [&str; 4] = ["data:", "blob:", "about:", "javascript:"];

/// Requisites as written, without repetitions, up to a maximum number.
#[derive(Debug)]
pub(crate) struct Requisites {
    most: usize,
    /// Hashes of those that were found.
    known: HashSet<u64>,
    pub(crate) found: Vec<String>,
}

impl Requisites {
    /// Creates an empty list; `None` if the options request no requisites.
    pub(crate) fn new(options: &ExtractorConfig) -> Option<Self> {
        let most = usize::try_from(options.requisites).unwrap_or(usize::MAX).min(options.pass_limits().0);
        (most > 0).then(|| Self { most, known: HashSet::new(), found: Vec::new() })
    }

    fn add(&mut self, url: &str) {
        let url = url.trim_ascii();
        let is_local = |scheme: &&str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        let is_left_out = url.is_empty() || url.starts_with('#') || url.len() > 2 * MAX_URL_BYTES;
        if is_left_out || self.found.len() >= self.most || LOCAL.iter().any(is_local) {
            return;
        }
        if self.known.insert(xxh3_64(url.as_bytes())) {
            self.found.push(url.to_owned());
        }
    }

    /// Adds the requisites of a style sheet.
    pub(crate) fn add_css(&mut self, css: &str) {
        css::urls(css, |url| self.add(url));
    }

    /// Adds the requisites of a start tag.
    pub(crate) fn add_tag(&mut self, name: &[u8], attributes: &Attributes) {
        use Attribute::{Background, Data, Href, ImageSrcset, Poster, Src, Srcset, XlinkHref};
        let has = |attribute, value: &str| {
            let words = attributes.get(attribute).unwrap_or_default().split(u8::is_ascii_whitespace);
            words.into_iter().any(|word| word.eq_ignore_ascii_case(value.as_bytes()))
        };
        let (urls, sets): (&[Attribute], &[Attribute]) = match name {
            b"img" | b"source" => (&[Src], &[Srcset]),
            b"script" => (&[Src, Href, XlinkHref], &[]),
            b"audio" | b"track" | b"embed" | b"iframe" | b"frame" => (&[Src], &[]),
            b"video" => (&[Src, Poster], &[]),
            b"object" => (&[Data], &[]),
            b"input" if has(Attribute::Type, "image") => (&[Src], &[]),
            b"link" if RELATIONS.iter().any(|relation| has(Attribute::Rel, relation)) => (&[Href], &[ImageSrcset]),
            b"body" | b"table" | b"thead" | b"tbody" | b"tfoot" | b"tr" | b"td" | b"th" => (&[Background], &[]),
            b"image" | b"feimage" | b"use" => (&[Href, XlinkHref], &[]),
            _ => (&[], &[]),
        };
        for attribute in urls {
            // The trimmed remainder of a cut value could pass for another URL.
            if let Some(url) = text(attributes, *attribute).filter(|_| !attributes.is_cut(*attribute)) {
                self.add(&url);
            }
        }
        for attribute in sets {
            if let Some(set) = text(attributes, *attribute) {
                let mut urls = candidates(&set);
                urls.truncate(urls.len() - usize::from(attributes.is_cut(*attribute)).min(urls.len()));
                urls.into_iter().for_each(|url| self.add(url));
            }
        }
        if let Some(style) = text(attributes, Attribute::Style).filter(|_| !attributes.is_cut(Attribute::Style)) {
            self.add_css(&style);
        }
    }
}

fn text(attributes: &Attributes, attribute: Attribute) -> Option<std::borrow::Cow<'_, str>> {
    attributes.get(attribute).map(String::from_utf8_lossy)
}

/// Returns the URLs of a `srcset` (WHATWG HTML, "parse a srcset attribute").
fn candidates(set: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = set;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
        if rest.is_empty() {
            return found;
        }
        let (url, after) = rest.split_at(rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len()));
        let trimmed = url.trim_end_matches(',');
        found.push(trimmed);
        rest = after;
        if trimmed.len() == url.len() {
            // Descriptors end at a comma outside of parentheses.
            let mut is_within = false;
            let end = after.find(|c: char| {
                is_within = (is_within || c == '(') && c != ')';
                c == ',' && !is_within
            });
            rest = &after[end.unwrap_or(after.len())..];
        }
    }
}

/// Returns the requisites of a style sheet and their sites, if its page record requests them.
pub(crate) fn of_style_sheet(input: &PageInput<'_>, options: &ExtractorConfig) -> (Vec<Requisite>, Vec<String>) {
    let Some(mut found) = Requisites::new(options) else { return (vec![], vec![]) };
    let (encoding, _) = charset::choose(input.body, input.content_type, None);
    found.add_css(&charset::decode(input.body, encoding));
    let own_site = input.site.map_or_else(|| options.wide_domains.site_of(input.url), std::borrow::Cow::Borrowed);
    let mut resolver = Resolver::new(input.url, UTF_8, (input.url, &own_site), &options.wide_domains);
    (resolver.requisites(&found.found, input.url, options.max_links_bytes), resolver.into_sites())
}

/// Returns `true` for the type of style sheets.
pub(crate) fn is_css(content_type: Option<&str>) -> bool {
    let essence = content_type.and_then(|value| value.split([';', ',']).next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("text/css")
}

#[cfg(test)]
mod tests;
