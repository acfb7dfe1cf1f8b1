//! URLs that elements and style sheets name: those that a page needs to be shown, and its other links. Both are found in
//! the pass over the markup.

use std::borrow::Cow;

use orbweaver_messages::LinkKind;

use crate::attributes::{Attribute, Attributes};
use crate::other_links::{Element, OtherLinks};
use crate::requisites::Requisites;
use crate::{ExtractorConfig, css};

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

/// Kinds of `link` elements by a token of `rel`; the first that an element has counts.
const KINDS: [(&str, LinkKind); 9] = [
    ("stylesheet", LinkKind::Stylesheet),
    ("canonical", LinkKind::Canonical),
    ("next", LinkKind::Next),
    ("prev", LinkKind::Prev),
    ("alternate", LinkKind::Alternate),
    ("icon", LinkKind::Icon),
    ("apple-touch-icon", LinkKind::Icon),
    ("apple-touch-icon-precomposed", LinkKind::Icon),
    ("mask-icon", LinkKind::Icon),
];

/// Schemes of URLs that need no request, or name none.
const LOCAL: [&str; 4] = ["data:", "blob:", "about:", "javascript:"];

/// Attributes with URLs, and the kinds of these.
type Named<'a> = &'a [(Attribute, LinkKind)];

/// URL that an element or a style sheet names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resource<'a> {
    /// URL as written, without white space around it.
    pub(crate) url: &'a str,
    pub(crate) kind: LinkKind,
    /// Whether the page needs it to be shown.
    pub(crate) is_requisite: bool,
}

/// Resources of a page, as far as they are requested.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) requisites: Option<Requisites>,
    pub(crate) others: Option<OtherLinks>,
}

impl Resources {
    /// Creates empty lists; `None` if the options request none.
    pub(crate) fn new(options: &ExtractorConfig) -> Option<Self> {
        let (requisites, others) = (Requisites::new(options), OtherLinks::new(options));
        (requisites.is_some() || others.is_some()).then_some(Self { requisites, others })
    }

    /// Adds the URLs of a style sheet.
    pub(crate) fn add_css(&mut self, css: &str) {
        of_css(css, |resource| self.add(resource, None));
    }

    /// Adds the URLs of a start tag.
    pub(crate) fn add_tag(&mut self, name: &[u8], attributes: &Attributes) {
        let element = Element::new(name, attributes);
        let is_cut = of_tag(name, attributes, |resource| self.add(resource, Some(&element)));
        if let Some(others) = &mut self.others {
            others.is_cut |= is_cut;
        }
    }

    fn add(&mut self, resource: Resource<'_>, element: Option<&Element<'_>>) {
        if let Some(requisites) = self.requisites.as_mut().filter(|_| resource.is_requisite) {
            requisites.add(resource.url);
        }
        if let Some(others) = &mut self.others {
            others.add(resource, element);
        }
    }
}

/// Passes each URL of a style sheet to `each`.
pub(crate) fn of_css(css: &str, mut each: impl FnMut(Resource<'_>)) {
    css::urls(css, |url| {
        if let Some(url) = requested(url) {
            each(Resource { url, kind: LinkKind::Css, is_requisite: true });
        }
    });
}

/// Passes each URL of a start tag to `each`, except that of a link to a page. Returns `true` if one was left out,
/// because of the length of its attribute.
fn of_tag(name: &[u8], attributes: &Attributes, mut each: impl FnMut(Resource<'_>)) -> bool {
    use Attribute::{Background, Data, Href, ImageSrcset, Poster, Src, Srcset, XlinkHref};
    use LinkKind::{Frame, Image, Media, Object, Script};
    let (mut is_requisite, mut is_cut) = (true, false);
    let (urls, sets): (Named<'_>, Named<'_>) = match name {
        b"img" => (&[(Src, Image)], &[(Srcset, Image)]),
        b"source" => (&[(Src, Media)], &[(Srcset, Image)]),
        b"script" => (&[(Src, Script), (Href, Script), (XlinkHref, Script)], &[]),
        b"audio" | b"track" => (&[(Src, Media)], &[]),
        b"embed" => (&[(Src, Object)], &[]),
        b"iframe" | b"frame" => (&[(Src, Frame)], &[]),
        b"video" => (&[(Src, Media), (Poster, Image)], &[]),
        b"object" => (&[(Data, Object)], &[]),
        b"input" if has(attributes, Attribute::Type, "image") => (&[(Src, Image)], &[]),
        b"link" => {
            is_requisite = RELATIONS.iter().any(|relation| has(attributes, Attribute::Rel, relation));
            match kind_of_link(attributes) {
                Some(kind) => (&[(Href, kind)], &[(ImageSrcset, kind)]),
                None => (&[], &[]),
            }
        }
        b"body" | b"table" | b"thead" | b"tbody" | b"tfoot" | b"tr" | b"td" | b"th" => (&[(Background, Image)], &[]),
        b"image" | b"feimage" | b"use" => (&[(Href, Image), (XlinkHref, Image)], &[]),
        _ => (&[], &[]),
    };
    for (attribute, kind) in urls {
        let Some(url) = text(attributes, *attribute) else { continue };
        let Some(url) = requested(&url) else { continue };
        // The trimmed remainder of a cut value could pass for another URL.
        if attributes.is_cut(*attribute) {
            is_cut |= *kind != Frame;
        } else {
            each(Resource { url, kind: *kind, is_requisite });
        }
    }
    for (attribute, kind) in sets {
        let Some(set) = text(attributes, *attribute) else { continue };
        let mut urls = candidates(&set);
        if attributes.is_cut(*attribute) {
            urls.pop();
            is_cut = true;
        }
        for url in urls.into_iter().filter_map(requested) {
            each(Resource { url, kind: *kind, is_requisite });
        }
    }
    if let Some(style) = text(attributes, Attribute::Style) {
        if attributes.is_cut(Attribute::Style) {
            is_cut = true;
        } else {
            of_css(&style, each);
        }
    }
    is_cut
}

/// Returns the kind of a `link` element; `None` if it has no `rel`, or only one that names a host or an interface.
fn kind_of_link(attributes: &Attributes) -> Option<LinkKind> {
    if let Some((_, kind)) = KINDS.iter().find(|(token, _)| has(attributes, Attribute::Rel, token)) {
        return Some(*kind);
    }
    let is_named = |token: &&[u8]| {
        let nameless = ["", "dns-prefetch", "preconnect", "pingback"];
        !nameless.iter().any(|other| token.eq_ignore_ascii_case(other.as_bytes()))
    };
    let rel = attributes.get(Attribute::Rel).unwrap_or_default();
    rel.split(u8::is_ascii_whitespace).any(|token| is_named(&token)).then_some(LinkKind::Link)
}

/// Returns `true` if an attribute, a list of tokens, has this one.
pub(crate) fn has(attributes: &Attributes, attribute: Attribute, token: &str) -> bool {
    let mut tokens = attributes.get(attribute).unwrap_or_default().split(u8::is_ascii_whitespace);
    tokens.any(|word| word.eq_ignore_ascii_case(token.as_bytes()))
}

fn text(attributes: &Attributes, attribute: Attribute) -> Option<Cow<'_, str>> {
    attributes.get(attribute).map(String::from_utf8_lossy)
}

/// Returns a URL without white space around it; `None` if it needs no request.
fn requested(url: &str) -> Option<&str> {
    let url = url.trim_ascii();
    let is_local = |scheme: &&str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    (!url.is_empty() && !url.starts_with('#') && !LOCAL.iter().any(is_local)).then_some(url)
}

/// Returns the URLs of a `srcset` (WHATWG HTML, "parse a srcset attribute").
pub(crate) fn candidates(set: &str) -> Vec<&str> {
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
