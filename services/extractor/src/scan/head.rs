//! Elements with metadata: `base`, `link`, `meta`, `html`.

use orbweaver_messages::LinkKind;

use super::{MAX_DESCRIPTION_BYTES, MAX_LANGUAGE_BYTES, RawLink, Scan};
use crate::attributes::{Attribute, Attributes};
use crate::resources::has;
use crate::tag::Tag;
use crate::text::folded;
use crate::{refresh, robots};

impl Scan<'_> {
    /// Handles the start tag of such an element.
    pub(super) fn metadata(&mut self, tag: Tag) {
        match tag {
            Tag::Base if self.found.base.is_none() => {
                let href = self.attributes.get(Attribute::Href);
                self.found.base = href.map(|href| String::from_utf8_lossy(href).into_owned());
            }
            Tag::Link => self.link(),
            Tag::Html if self.found.language.is_none() => {
                let language = self.attributes.get(Attribute::Lang).or(self.attributes.get(Attribute::XmlLang));
                let language = String::from_utf8_lossy(language.unwrap_or_default()).trim().to_owned();
                if !language.is_empty() && language.len() <= MAX_LANGUAGE_BYTES {
                    self.found.language = Some(language);
                }
            }
            Tag::Meta => self.meta(),
            _ => {}
        }
    }

    fn link(&mut self) {
        let is_canonical = has(&self.attributes, Attribute::Rel, "canonical");
        if self.attributes.get(Attribute::Href).is_none_or(|href| href.trim_ascii().is_empty()) {
            return;
        }
        if self.options.feeds && declares_feed(&self.attributes) {
            self.add_link(Attribute::Href, Tag::Link);
        }
        if is_canonical && self.found.canonical.is_none() {
            self.found.canonical = Some(self.attribute(Attribute::Href).into_owned());
        }
    }

    fn meta(&mut self) {
        let Some(content) = self.attributes.get(Attribute::Content) else { return };
        let content = String::from_utf8_lossy(content).into_owned();
        let name = self.attribute(Attribute::Name).into_owned();
        if self.found.description.is_none() && name.trim().eq_ignore_ascii_case("description") {
            let (description, cut) = folded(&content, MAX_DESCRIPTION_BYTES);
            self.found.truncated.text |= cut || self.attributes.is_cut(Attribute::Content);
            self.found.description = (!description.is_empty()).then_some(description);
        }
        robots::add_meta(&mut self.found.robots, (&name, &content), &self.options.agent);
        let is_refresh = self.attribute(Attribute::HttpEquiv).eq_ignore_ascii_case("refresh");
        if is_refresh
            && !self.has_refresh
            && let Some(href) = refresh::target(&content)
        {
            self.has_refresh = true;
            if self.takes_link() {
                self.found.links.push(RawLink { href: href.to_owned(), kind: LinkKind::Refresh, ..RawLink::default() });
            }
        }
    }
}

/// Returns `true` if a `link` element declares a feed.
pub(crate) fn declares_feed(attributes: &Attributes) -> bool {
    let media_type = attributes.get(Attribute::Type).unwrap_or_default();
    has(attributes, Attribute::Rel, "alternate") && is_feed(&String::from_utf8_lossy(media_type))
}

/// Returns `true` for the media types of feeds.
pub(crate) fn is_feed(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    ["application/rss+xml", "application/atom+xml", "application/feed+json"]
        .iter()
        .any(|feed| essence.eq_ignore_ascii_case(feed))
}
