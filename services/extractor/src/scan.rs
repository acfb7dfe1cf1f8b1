//! One pass over the markup: the emitter that html5gum's tokenizer drives.
//!
//! There is no tree. The information that the tokenizer needs from a tree builder (which elements hold no markup, the
//! beginning and end of SVG and MathML) is kept in a few counters, so that depth costs nothing.

mod head;
mod rendering;

use std::convert::Infallible;

use html5gum::{Emitter, Error, State, Tokenizer};
use orbweaver_messages::{LinkKind, Millis, RobotsDirectives, Truncated};
use orbweaver_url::MAX_URL_BYTES;

pub(crate) use self::head::{declares_feed, is_feed};
use self::rendering::Rendering;
use crate::ExtractorConfig;
use crate::attributes::{Attribute, Attributes};
use crate::facts::RawFacts;
use crate::resources::Resources;
use crate::tag::Tag;
use crate::text::{FoldedText, folded};

const MAX_TITLE_BYTES: usize = 4096;
const MAX_DESCRIPTION_BYTES: usize = 8192;
const MAX_LANGUAGE_BYTES: usize = 64;
pub(crate) const MAX_REL_BYTES: usize = 256;
/// Maximum length of a tag name, in bytes; longer names do not matter.
const MAX_TAG_BYTES: usize = 16;

/// A link as written in the markup.
#[derive(Debug, Default)]
pub(crate) struct RawLink {
    pub(crate) href: String,
    pub(crate) text: String,
    pub(crate) rel: String,
    pub(crate) kind: LinkKind,
    /// Whether it is named as a sitemap or feed.
    pub(crate) is_sitemap: bool,
    /// Date of a sitemap or feed that lists it, in milliseconds since the Unix epoch.
    pub(crate) modified_ms: Option<Millis>,
    /// Whether that date is newer than the last reading of the file.
    pub(crate) is_update: bool,
}

/// Result of a pass over the markup.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) title: String,
    pub(crate) text: String,
    pub(crate) links: Vec<RawLink>,
    pub(crate) base: Option<String>,
    pub(crate) canonical: Option<String>,
    pub(crate) language: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) robots: RobotsDirectives,
    pub(crate) truncated: Truncated,
    /// Number of links in the markup, of whatever scheme.
    pub(crate) links_seen: usize,
    /// Requisites as written, if requested.
    pub(crate) requisites: Vec<String>,
    /// Other links as written, if requested.
    pub(crate) other_links: Option<Vec<RawLink>>,
    /// Facts as written, if requested.
    pub(crate) facts: Option<Box<RawFacts>>,
    /// Bytes of the whole text.
    pub(crate) text_bytes: usize,
    /// Whether scripts have to make the content of the page.
    pub(crate) needs_render: bool,
}

/// Reads the markup. Takes the links after the first `from`, as many as one pass may.
pub(crate) fn scan(html: &str, options: &ExtractorConfig, from: usize) -> Scanned {
    let mut scan = Scan::new(options, from);
    // About half of the markup is text; a growing buffer is copied repeatedly.
    scan.text.reserve(html.len() / 2);
    // Reading from a string cannot fail: the error has no value.
    let Ok(()) = Tokenizer::new_with_emitter(html, &mut scan).finish();
    scan.finish()
}

/// Destination of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sink {
    /// Shown: to the text, and to the open link.
    Text,
    /// To the open link only.
    LinkOnly,
    Title,
    /// A style sheet whose URLs are requested.
    Style,
    Nowhere,
}

struct Scan<'a> {
    options: &'a ExtractorConfig,
    /// Number of links that earlier passes took.
    from: usize,
    found: Scanned,
    text: FoldedText,
    title: FoldedText,
    link_text: FoldedText,
    resources: Option<Resources>,
    facts: Option<Box<RawFacts>>,
    /// Style sheet of the open element.
    css: Vec<u8>,
    /// Index of the open link among the links.
    open_link: Option<usize>,
    has_title: bool,
    has_refresh: bool,
    /// Name of the current tag, and its kind once it is known.
    name: Vec<u8>,
    tag: Option<Tag>,
    is_end: bool,
    self_closing: bool,
    attributes: Attributes,
    /// Name of the last start tag, which can end an element without markup.
    last_start: Vec<u8>,
    sink: Sink,
    /// Open element without markup.
    raw: Option<Tag>,
    templates: usize,
    in_noscript: bool,
    rendering: Rendering,
    /// Number of open `svg` and `math` elements.
    foreign: usize,
    /// Open element in SVG or MathML whose text is not shown.
    foreign_hidden: Option<Tag>,
}

impl<'a> Scan<'a> {
    fn new(options: &'a ExtractorConfig, from: usize) -> Self {
        Self {
            options,
            from,
            found: Scanned::default(),
            text: FoldedText::new(options.max_text_bytes),
            title: FoldedText::new(MAX_TITLE_BYTES),
            link_text: FoldedText::new(options.max_link_text_bytes),
            resources: Resources::new(options),
            facts: RawFacts::new(options),
            css: Vec::new(),
            open_link: None,
            has_title: false,
            has_refresh: false,
            name: Vec::new(),
            tag: None,
            is_end: false,
            self_closing: false,
            attributes: Attributes::default(),
            last_start: Vec::new(),
            sink: Sink::Text,
            raw: None,
            templates: 0,
            in_noscript: false,
            rendering: Rendering::default(),
            foreign: 0,
            foreign_hidden: None,
        }
    }

    fn finish(mut self) -> Scanned {
        self.close_link();
        self.end_css();
        if let Some(Resources { requisites, others }) = self.resources.take() {
            self.found.requisites = requisites.map(|requisites| requisites.found).unwrap_or_default();
            self.found.truncated.other_links |= others.as_ref().is_some_and(|others| others.is_cut);
            self.found.other_links = others.map(|others| others.found);
        }
        self.found.facts = self.facts.take();
        self.found.truncated.text |= self.text.is_cut() || self.title.is_cut();
        self.found.text_bytes = self.text.total();
        self.found.needs_render = self.rendering.is_needed(self.found.text_bytes, self.found.links_seen);
        self.found.text = self.text.take();
        self.found.title = self.title.take();
        self.found
    }

    fn tag(&mut self) -> Tag {
        *self.tag.get_or_insert_with(|| Tag::of(&self.name))
    }

    /// Handles a complete start tag. Returns the tokenizer state for an element without markup.
    fn start(&mut self, tag: Tag) -> Option<State> {
        if tag == Tag::Template && self.foreign == 0 {
            self.templates += 1;
        }
        if self.templates == 0 {
            self.start_shown(tag);
        }
        if self.foreign > 0 {
            return None;
        }
        let state = match tag {
            Tag::Script => State::ScriptData,
            Tag::Style | Tag::Hidden | Tag::Iframe | Tag::Xmp => State::RawText,
            Tag::Title | Tag::TextArea => State::RcData,
            Tag::PlainText => State::PlainText,
            _ => return None,
        };
        self.raw = Some(tag);
        Some(state)
    }

    /// Handles a start tag outside of templates.
    fn start_shown(&mut self, tag: Tag) {
        if self.foreign > 0 {
            self.start_foreign(tag);
        }
        // Frames in `noscript` count page views; pictures there are often those that scripts load.
        let is_counter = self.in_noscript && matches!(tag, Tag::Iframe | Tag::Frame);
        if let Some(resources) = self.resources.as_mut().filter(|_| !is_counter) {
            resources.add_tag(&self.name, &self.attributes);
        }
        if let Some(facts) = self.facts.as_mut().filter(|_| self.foreign == 0 && !self.in_noscript) {
            facts.start(&self.name, &self.attributes, &self.options.agent);
        }
        match tag {
            Tag::Script => self.rendering.has_scripts = true,
            Tag::Block | Tag::Xmp | Tag::PlainText => self.break_word(),
            Tag::Anchor => {
                self.close_link();
                self.add_link(Attribute::Href, tag);
            }
            Tag::Area => self.add_link(Attribute::Href, tag),
            // Frames in `noscript` count page views; they are not links.
            Tag::Iframe | Tag::Frame if !self.in_noscript => self.add_link(Attribute::Src, tag),
            Tag::NoScript if self.foreign == 0 => self.in_noscript = true,
            Tag::Foreign if !self.self_closing => self.foreign += 1,
            Tag::Base | Tag::Link | Tag::Meta | Tag::Html if !self.in_noscript => self.metadata(tag),
            _ => {}
        }
    }

    /// Handles a start tag within SVG or MathML: an HTML element ends them (WHATWG HTML 13.2.6.5). An element within
    /// `foreignObject` ends them here too, which only means that HTML rules apply earlier.
    fn start_foreign(&mut self, tag: Tag) {
        match tag {
            Tag::Block | Tag::Inline | Tag::Meta => self.end_foreign(),
            Tag::Title | Tag::Desc | Tag::Script | Tag::Style | Tag::Hidden if !self.self_closing => {
                self.foreign_hidden.get_or_insert(tag);
            }
            _ => {}
        }
    }

    fn end_foreign(&mut self) {
        self.foreign = 0;
        self.foreign_hidden = None;
    }

    /// Handles a complete end tag.
    fn end(&mut self, tag: Tag) {
        if self.raw.take() == Some(Tag::Title) && self.sink == Sink::Title {
            self.has_title = true;
        }
        if let Some(facts) = self.facts.as_mut().filter(|_| self.templates == 0 && self.foreign == 0) {
            facts.end(&self.name);
        }
        match tag {
            Tag::Template => self.templates = self.templates.saturating_sub(1),
            _ if self.templates > 0 => {}
            Tag::Anchor => self.close_link(),
            Tag::NoScript => self.in_noscript = false,
            Tag::Foreign if self.foreign <= 1 => self.end_foreign(),
            Tag::Foreign => self.foreign -= 1,
            Tag::Block | Tag::TextArea | Tag::Xmp => self.break_word(),
            _ if self.foreign_hidden == Some(tag) => self.foreign_hidden = None,
            _ => {}
        }
    }

    fn choose_sink(&self) -> Sink {
        match self.raw {
            _ if self.templates > 0 => Sink::Nowhere,
            raw if self.resources.is_some() && raw.or(self.foreign_hidden) == Some(Tag::Style) => Sink::Style,
            _ if self.foreign_hidden.is_some() => Sink::Nowhere,
            Some(Tag::Title) if !self.has_title && !self.in_noscript => Sink::Title,
            Some(Tag::Title | Tag::Script | Tag::Style | Tag::Hidden | Tag::Iframe) => Sink::Nowhere,
            _ if self.in_noscript => Sink::LinkOnly,
            _ => Sink::Text,
        }
    }

    /// Reads the style sheet that has ended, if any.
    fn end_css(&mut self) {
        if let Some(resources) = self.resources.as_mut().filter(|_| !self.css.is_empty()) {
            resources.add_css(&String::from_utf8_lossy(&self.css));
            self.css.clear();
        }
    }

    fn break_word(&mut self) {
        if !self.in_noscript {
            self.text.break_word();
        }
        self.link_text.break_word();
    }

    /// Adds the link of the complete tag; an `a` stays open for its text.
    fn add_link(&mut self, attribute: Attribute, tag: Tag) {
        let Some(href) = self.attributes.get(attribute) else { return };
        let is_short = self.attributes.is_cut(attribute) && href.trim_ascii().len() <= MAX_URL_BYTES;
        // The trimmed remainder of a cut value could pass for another URL.
        if is_short {
            self.found.truncated.links = true;
            return;
        }
        if !self.takes_link() {
            return;
        }
        let href = self.attribute(attribute).into_owned();
        let (rel, cut) = folded(&self.attribute(Attribute::Rel), MAX_REL_BYTES);
        self.found.truncated.links |= cut;
        if tag == Tag::Anchor {
            self.open_link = Some(self.found.links.len());
            self.link_text.take();
        }
        let kind = match tag {
            Tag::Iframe | Tag::Frame => LinkKind::Frame,
            Tag::Link => LinkKind::Alternate,
            _ => LinkKind::Navigation,
        };
        self.found.links.push(RawLink {
            href,
            text: String::new(),
            rel,
            kind,
            is_sitemap: tag == Tag::Link,
            ..RawLink::default()
        });
    }

    /// Counts a link. Returns `true` if this pass takes it.
    fn takes_link(&mut self) -> bool {
        let number = self.found.links_seen;
        self.found.links_seen += 1;
        number >= self.from && self.found.links.len() < self.options.pass_limits().0
    }

    fn close_link(&mut self) {
        if let Some(place) = self.open_link.take() {
            self.found.truncated.links |= self.link_text.is_cut();
            self.found.links[place].text = self.link_text.take();
        }
    }

    fn attribute(&self, attribute: Attribute) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.attributes.get(attribute).unwrap_or_default())
    }
}

/// By reference: the tokenizer owns its emitter, but the scan is needed afterwards.
impl Emitter for &mut Scan<'_> {
    type Token = Infallible;

    fn set_last_start_tag(&mut self, last_start_tag: Option<&[u8]>) {
        self.last_start.clear();
        self.last_start.extend_from_slice(last_start_tag.unwrap_or_default());
    }

    fn emit_eof(&mut self) {}

    fn emit_error(&mut self, _: Error) {}

    fn should_emit_errors(&mut self) -> bool {
        false
    }

    fn pop_token(&mut self) -> Option<Infallible> {
        None
    }

    fn emit_string(&mut self, text: &[u8]) {
        if self.in_noscript {
            self.rendering.add_noscript(text);
        }
        if let Some(facts) = &mut self.facts {
            match self.sink {
                Sink::Text => facts.add_text(text),
                _ if self.raw == Some(Tag::Script) => facts.add_script(text),
                _ => {}
            }
        }
        match self.sink {
            Sink::Nowhere => {}
            Sink::Title => self.title.push(text),
            Sink::Style => self.css.extend_from_slice(text),
            sink => {
                if sink == Sink::Text {
                    self.text.push(text);
                }
                if self.open_link.is_some() {
                    self.link_text.push(text);
                }
            }
        }
    }

    fn init_start_tag(&mut self) {
        self.init_end_tag();
        self.is_end = false;
    }

    fn init_end_tag(&mut self) {
        self.name.clear();
        self.tag = None;
        self.is_end = true;
        self.self_closing = false;
        self.attributes.clear();
    }

    fn emit_current_tag(&mut self) -> Option<State> {
        self.attributes.end();
        let tag = self.tag();
        let state = if self.is_end {
            self.last_start.clear();
            self.end(tag);
            None
        } else {
            let state = self.start(tag);
            std::mem::swap(&mut self.last_start, &mut self.name);
            state
        };
        self.sink = self.choose_sink();
        if self.sink != Sink::Style {
            self.end_css();
        }
        state
    }

    fn set_self_closing(&mut self) {
        self.self_closing = true;
    }

    fn push_tag_name(&mut self, name: &[u8]) {
        let room = (MAX_TAG_BYTES + 1).saturating_sub(self.name.len());
        self.name.extend_from_slice(&name[..name.len().min(room)]);
    }

    fn init_attribute(&mut self) {
        if !self.is_end && (self.resources.is_some() || self.facts.is_some() || self.tag().has_attributes()) {
            self.attributes.begin();
        }
    }

    fn push_attribute_name(&mut self, name: &[u8]) {
        self.attributes.push_name(name);
    }

    fn push_attribute_value(&mut self, value: &[u8]) {
        self.attributes.push_value(value);
    }

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.is_end && !self.last_start.is_empty() && self.last_start == self.name
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&mut self) -> bool {
        self.foreign > 0
    }

    fn init_comment(&mut self) {}
    fn push_comment(&mut self, _: &[u8]) {}
    fn emit_current_comment(&mut self) {}
    fn init_doctype(&mut self) {}
    fn push_doctype_name(&mut self, _: &[u8]) {}
    fn set_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn push_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn set_doctype_system_identifier(&mut self, _: &[u8]) {}
    fn push_doctype_system_identifier(&mut self, _: &[u8]) {}
    fn set_force_quirks(&mut self) {}
    fn emit_current_doctype(&mut self) {}
}
