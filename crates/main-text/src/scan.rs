//! One pass over the markup: the emitter that html5gum's tokenizer drives.
//!
//! There is no tree. The information that the tokenizer needs from a tree builder (which elements hold no markup, the
//! beginning and end of SVG and MathML) is kept in a few counters, so that depth costs nothing.

use std::convert::Infallible;

use html5gum::{Emitter, Error, State, Tokenizer};

use crate::attributes::{Attribute, Attributes};
use crate::builder::Builder;
use crate::outline::Outline;
use crate::tag::Tag;

/// Maximum length of a tag name, in bytes; longer names do not matter.
const MAX_TAG_BYTES: usize = 32;
const MAX_TITLE_BYTES: usize = 4096;

/// Reads the markup.
pub(crate) fn scan(html: &str) -> Outline {
    let mut scan = Scan::new(html.len());
    // Reading from a string cannot fail: the error has no value.
    let Ok(()) = Tokenizer::new_with_emitter(html, &mut scan).finish();
    let mut outline = scan.builder.finish();
    outline.title = String::from_utf8_lossy(&scan.title).into_owned();
    outline
}

struct Scan {
    builder: Builder,
    title: Vec<u8>,
    has_title: bool,
    /// Name of the current tag, and its kind once it is known.
    name: Vec<u8>,
    tag: Option<Tag>,
    is_end: bool,
    self_closing: bool,
    attributes: Attributes,
    /// Name of the last start tag, which can end an element without markup.
    last_start: Vec<u8>,
    /// Open element without markup.
    raw: Option<Tag>,
    templates: usize,
    /// Number of open `svg` and `math` elements.
    foreign: usize,
}

impl Scan {
    fn new(bytes: usize) -> Self {
        Self {
            builder: Builder::new(bytes),
            title: vec![],
            has_title: false,
            name: vec![],
            tag: None,
            is_end: false,
            self_closing: false,
            attributes: Attributes::default(),
            last_start: vec![],
            raw: None,
            templates: 0,
            foreign: 0,
        }
    }

    fn tag(&mut self) -> Tag {
        *self.tag.get_or_insert_with(|| Tag::of(&self.name))
    }

    /// Handles a complete start tag. Returns the tokenizer state for an element without markup.
    fn start(&mut self, tag: Tag) -> Option<State> {
        // An element of HTML ends SVG and MathML (WHATWG HTML 13.2.6.5).
        if self.foreign > 0 && (tag.is_block() || matches!(tag, Tag::Image | Tag::Strong | Tag::Emphasis)) {
            self.foreign = 0;
        }
        match tag {
            Tag::Template if self.foreign == 0 => self.templates += 1,
            Tag::Foreign if !self.self_closing => self.foreign += 1,
            _ if self.templates > 0 || self.foreign > 0 => {}
            Tag::Base => {
                let address = self.attributes.get(Attribute::Href);
                let address = address.map(|address| String::from_utf8_lossy(address).into_owned());
                let base = &mut self.builder.outline().base;
                *base = base.take().or(address);
            }
            _ => self.builder.start(tag, &self.attributes),
        }
        if self.foreign > 0 {
            return None;
        }
        let is_raw_text = self.name == b"xmp";
        let state = match tag {
            Tag::Script => State::ScriptData,
            Tag::Hidden => State::RawText,
            Tag::Preformatted if is_raw_text => State::RawText,
            Tag::Title | Tag::TextArea => State::RcData,
            Tag::PlainText => State::PlainText,
            _ => return None,
        };
        self.raw = Some(tag);
        Some(state)
    }

    /// Handles a complete end tag.
    fn end(&mut self, tag: Tag) {
        if self.raw.take() == Some(Tag::Title) {
            self.has_title = true;
        }
        match tag {
            Tag::Template => self.templates = self.templates.saturating_sub(1),
            Tag::Foreign => self.foreign = self.foreign.saturating_sub(1),
            _ if self.templates > 0 || self.foreign > 0 => {}
            _ => self.builder.end(tag),
        }
    }
}

/// By reference: the tokenizer owns its emitter, but the scan is needed afterwards.
impl Emitter for &mut Scan {
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
        match self.raw {
            _ if self.templates > 0 || self.foreign > 0 => {}
            Some(Tag::Title) if !self.has_title => {
                let room = MAX_TITLE_BYTES.saturating_sub(self.title.len());
                self.title.extend_from_slice(&text[..text.len().min(room)]);
            }
            Some(Tag::Title | Tag::Script | Tag::Hidden | Tag::TextArea) => {}
            _ => self.builder.text(text),
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
        if self.is_end {
            self.last_start.clear();
            self.end(tag);
            None
        } else {
            let state = self.start(tag);
            std::mem::swap(&mut self.last_start, &mut self.name);
            state
        }
    }

    fn set_self_closing(&mut self) {
        self.self_closing = true;
    }

    fn push_tag_name(&mut self, name: &[u8]) {
        let room = (MAX_TAG_BYTES + 1).saturating_sub(self.name.len());
        self.name.extend_from_slice(&name[..name.len().min(room)]);
    }

    fn init_attribute(&mut self) {
        if !self.is_end {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outline::BlockKind;

    /// Tags of the elements around each block, from the outside in, and its text.
    fn blocks(html: &str) -> Vec<(Vec<Tag>, String)> {
        let outline = scan(html);
        let block = |block| {
            let mut tags: Vec<Tag> = outline.chain(block).map(|(_, element)| element.tag).collect();
            tags.reverse();
            (tags, outline.block_text(block).to_owned())
        };
        outline.blocks.iter().map(block).collect()
    }

    #[test]
    fn ends_that_markup_leaves_out_are_implied() {
        let list = vec![Tag::UnorderedList, Tag::Item];
        let wanted =
            vec![(list.clone(), "one".to_owned()), (list, "two".to_owned()), (vec![Tag::Paragraph], "end".to_owned())];
        assert_eq!(blocks("<ul><li>one<li>two</ul><p>end"), wanted);
        let tags: Vec<Vec<Tag>> =
            blocks("<table><tr><td>a<td>b<tr><td>c</table>d").into_iter().map(|(tags, _)| tags).collect();
        let cell = vec![Tag::Table, Tag::Row, Tag::Cell];
        assert_eq!(tags, [cell.clone(), cell.clone(), cell, vec![]]);
    }

    #[test]
    fn an_end_tag_within_a_cell_does_not_reach_beyond_it() {
        let inner = vec![Tag::Division, Tag::Table, Tag::Row, Tag::Cell];
        let found = blocks("<div><table><tr><td>a</div>b</table>");
        assert_eq!(found, [(inner.clone(), "a".to_owned()), (inner, "b".to_owned())]);
    }

    #[test]
    fn white_space_is_folded_except_in_preformatted_text() {
        let text = |html| blocks(html).pop().map(|(_, text)| text).unwrap_or_default();
        assert_eq!(text("<p> a\n <b> b </b> c<br> d "), "a b c\nd");
        assert_eq!(text("<pre>\n a\n  b </pre>"), " a\n  b ");
    }

    #[test]
    fn scripts_templates_and_graphics_have_no_text() {
        let html = "<script>a</script><template><p>b</template><svg><text>c</text></svg><style>d</style><p>e";
        assert_eq!(blocks(html), [(vec![Tag::Paragraph], "e".to_owned())]);
        let outline = scan("<title>One</title><svg><title>Two</title></svg><base href=/a><base href=/b>");
        assert_eq!((outline.title.as_str(), outline.base.as_deref()), ("One", Some("/a")));
    }

    #[test]
    fn cells_without_text_are_kept() {
        let outline = scan("<table><tr><td><td>b</table>");
        assert_eq!(outline.blocks[0].kind, BlockKind::Empty);
    }
}
