//! Other links of a page, which lead to no page: those of embedded resources and of `link` elements.

use std::cell::OnceCell;
use std::collections::HashSet;

use orbweaver_messages::LinkKind;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::ExtractorConfig;
use crate::attributes::{Attribute, Attributes};
use crate::resources::Resource;
use crate::scan::{MAX_REL_BYTES, RawLink, declares_feed};
use crate::text::folded;

/// Start tag that names resources.
#[derive(Debug)]
pub(crate) struct Element<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) attributes: &'a Attributes,
    /// Read for the first link of the tag: a `srcset` may have thousands.
    label: OnceCell<Label>,
}

/// Description of a link.
#[derive(Debug, Clone, Default)]
struct Label {
    text: String,
    rel: String,
    is_cut: bool,
    hash: u64,
}

impl<'a> Element<'a> {
    pub(crate) fn new(name: &'a [u8], attributes: &'a Attributes) -> Self {
        Self { name, attributes, label: OnceCell::new() }
    }

    /// Returns text and `rel` of the links of this tag.
    fn label(&self, max_text_bytes: usize) -> &Label {
        self.label.get_or_init(|| {
            let read = |attribute, limit| {
                let value = self.attributes.get(attribute).unwrap_or_default();
                let (text, is_cut) = folded(&String::from_utf8_lossy(value), limit);
                (text, is_cut || self.attributes.is_cut(attribute))
            };
            let alternative = read(Attribute::Alt, max_text_bytes);
            let title = || read(Attribute::Title, max_text_bytes);
            let (text, is_text_cut) = if alternative.0.is_empty() { title() } else { alternative };
            let of_link = self.name == b"link";
            let (rel, is_rel_cut) = if of_link { read(Attribute::Rel, MAX_REL_BYTES) } else { Default::default() };
            let hash = xxh3_64_with_seed(text.as_bytes(), xxh3_64(rel.as_bytes()));
            Label { text, rel, is_cut: is_text_cut || is_rel_cut, hash }
        })
    }
}

/// Other links as written, without repetitions, up to a maximum number and total length.
#[derive(Debug)]
pub(crate) struct OtherLinks {
    /// Maximum number.
    most: usize,
    /// Bytes that further links may have.
    room: usize,
    max_text_bytes: usize,
    /// Whether the feeds that the page declares are links to pages.
    has_feeds: bool,
    /// Hashes of those that were found.
    known: HashSet<u64>,
    pub(crate) found: Vec<RawLink>,
    /// Whether one is missing, or the text of one is cut.
    pub(crate) is_cut: bool,
    is_full: bool,
}

impl OtherLinks {
    /// Creates an empty list; `None` if the options request no other links.
    pub(crate) fn new(options: &ExtractorConfig) -> Option<Self> {
        options.other_links.then(|| Self {
            most: options.max_links,
            room: options.max_links_bytes,
            max_text_bytes: options.max_link_text_bytes,
            has_feeds: options.feeds,
            known: HashSet::new(),
            found: Vec::new(),
            is_cut: false,
            is_full: false,
        })
    }

    /// Adds a resource of a start tag, or of a style sheet, unless it is among the links to pages.
    pub(crate) fn add(&mut self, Resource { url, kind, .. }: Resource<'_>, element: Option<&Element<'_>>) {
        let is_feed = |element: &Element<'_>| self.has_feeds && declares_feed(element.attributes);
        if self.is_full || kind == LinkKind::Frame || element.is_some_and(is_feed) {
            return;
        }
        let unlabelled = Label::default();
        // The text of an element says nothing of a picture in its style.
        let labelled = element.filter(|_| kind != LinkKind::Css);
        let label = labelled.map_or(&unlabelled, |element| element.label(self.max_text_bytes));
        if !self.known.insert(xxh3_64_with_seed(url.as_bytes(), label.hash ^ kind as u64)) {
            return;
        }
        let bytes = url.len() + label.text.len() + label.rel.len();
        if self.found.len() == self.most || bytes > self.room {
            (self.is_full, self.is_cut) = (true, true);
            return;
        }
        self.room -= bytes;
        self.is_cut |= label.is_cut;
        let (text, rel) = (label.text.clone(), label.rel.clone());
        self.found.push(RawLink { href: url.to_owned(), text, rel, kind, ..RawLink::default() });
    }
}

#[cfg(test)]
mod tests;
