//! The block that is being read: text with folded white space, marks, images.

use std::ops::Range;

use crate::attributes::{Attribute, Attributes};
use crate::outline::{Block, BlockKind, Image, Link, Mark, Outline, Piece};
use crate::tag::Tag;
use crate::words::{Groups, groups_of};

/// Maximum number of open marks; further ones are left out.
const MAX_MARKS: usize = 16;
/// Maximum length of the text of a page, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 20;
/// Maximum number of pieces of a page, without those of text.
const MAX_PIECES: usize = 1 << 20;
/// Maximum number of links, and of images.
const MAX_LINKS: usize = 100_000;
/// Texts of links from a heading to itself.
const PERMALINKS: [&str; 5] = ["¶", "#", "§", "🔗", "\u{f0c1}"];
/// Length at which a value of an attribute was possibly cut.
const CUT_VALUE_BYTES: usize = 4096;

/// State of the current block.
pub(crate) struct Line {
    text: Vec<u8>,
    pieces: Vec<Piece>,
    /// Marks that are open, also across blocks.
    marks: Vec<Mark>,
    is_open: bool,
    /// Starts of the block in the text and in the pieces.
    text_start: usize,
    pieces_start: usize,
    /// Whether a space is due before the next word.
    space: bool,
    /// Whether a line break directly after the start of preformatted text is left out.
    skips_newline: bool,
    has_image: bool,
    /// The last link, if it leads to a part of its own page.
    local: Option<u32>,
    is_cut: bool,
    block: Block,
}

impl Line {
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            text: Vec::with_capacity(bytes.min(MAX_TEXT_BYTES) / 4),
            pieces: vec![],
            marks: vec![],
            is_open: false,
            text_start: 0,
            pieces_start: 0,
            space: false,
            skips_newline: false,
            has_image: false,
            local: None,
            is_cut: false,
            block: Block::default(),
        }
    }

    /// Moves the text and the pieces into the outline.
    pub(crate) fn finish(&mut self, outline: &mut Outline) {
        outline.is_cut |= self.is_cut;
        outline.pieces = std::mem::take(&mut self.pieces);
        outline.text = match String::from_utf8(std::mem::take(&mut self.text)) {
            Ok(text) => text,
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let mut text = error.into_bytes();
                text.truncate(valid);
                String::from_utf8(text).unwrap_or_default()
            }
        };
    }

    pub(crate) fn skip_newline(&mut self) {
        self.skips_newline = true;
    }

    /// Adds text.
    pub(crate) fn push(&mut self, mut text: &[u8], is_preformatted: bool) {
        if self.text.len() + text.len() >= MAX_TEXT_BYTES {
            self.is_cut = true;
            return;
        }
        if is_preformatted {
            if std::mem::take(&mut self.skips_newline) {
                text = text.strip_prefix(b"\n").unwrap_or(text);
            }
            if !text.is_empty() {
                self.open();
                self.append(|kept| kept.extend(text.iter().filter(|byte| !is_control(**byte))));
            }
            return;
        }
        while let Some(first) = text.first() {
            if first.is_ascii_whitespace() || is_control(*first) {
                self.space |= first.is_ascii_whitespace();
                text = &text[1..];
                continue;
            }
            let end = text.iter().position(|byte| *byte <= b' ' || *byte == 0x7f).unwrap_or(text.len());
            self.push_word(&text[..end]);
            text = &text[end..];
        }
    }

    fn push_word(&mut self, word: &[u8]) {
        self.open();
        if std::mem::take(&mut self.space) {
            self.push_space();
        }
        self.append(|kept| kept.extend_from_slice(word));
    }

    /// Adds a space in front of the marks that begin here: within them, Markdown has none.
    fn push_space(&mut self) {
        let is_open = |piece: &Piece| matches!(piece, Piece::Open(_));
        let marks = self.pieces[self.pieces_start..].iter().rev().take_while(|piece| is_open(piece)).count();
        let at = self.pieces.len() - marks;
        let before = self.pieces[self.pieces_start..at].last();
        if before.is_none() || before == Some(&Piece::Break) {
            return;
        }
        if marks == 0 {
            self.append(|kept| kept.push(b' '));
            return;
        }
        let start = self.text.len() as u32;
        self.text.push(b' ');
        self.pieces.insert(at, Piece::Text(start..start + 1));
    }

    /// Appends to the text, and to the last piece if it is text.
    fn append(&mut self, add: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len() as u32;
        add(&mut self.text);
        let end = self.text.len() as u32;
        if self.marks.iter().any(|mark| matches!(mark, Mark::Link(_))) {
            self.block.link_bytes += end - start;
        }
        let has_own = self.pieces.len() > self.pieces_start;
        if let Some(Piece::Text(Range { end: last, .. })) = self.pieces.last_mut()
            && has_own
            && *last == start
        {
            *last = end;
        } else {
            self.pieces.push(Piece::Text(start..end));
        }
    }

    /// Begins a block unless one is open.
    fn open(&mut self) {
        if std::mem::replace(&mut self.is_open, true) {
            return;
        }
        (self.text_start, self.pieces_start) = (self.text.len(), self.pieces.len());
        self.space = false;
        for mark in &self.marks {
            self.block.links += u32::from(matches!(mark, Mark::Link(_)));
            self.pieces.push(Piece::Open(*mark));
        }
    }

    /// Handles the start tag of an element within a block.
    pub(crate) fn start(&mut self, tag: Tag, attributes: &Attributes, outline: &mut Outline) {
        if self.pieces.len() >= MAX_PIECES {
            self.is_cut = true;
            return;
        }
        for attribute in [Attribute::Class, Attribute::ItemProp] {
            self.block.groups.add(attributes.get(attribute).map_or(Groups::default(), groups_of));
        }
        self.block.has_time |= tag == Tag::Time;
        match tag {
            Tag::Anchor => {
                self.close(Mark::Link(0));
                self.open_link(attributes, outline);
            }
            Tag::Strong => self.open_mark(Mark::Strong),
            Tag::Emphasis => self.open_mark(Mark::Emphasis),
            Tag::Deleted => self.open_mark(Mark::Deleted),
            Tag::Code => self.open_mark(Mark::Code),
            Tag::Break if self.is_open => {
                self.pieces.push(Piece::Break);
                self.text.push(b'\n');
                self.space = false;
            }
            Tag::Image => self.push_image(attributes, outline),
            Tag::Void if attributes.get(Attribute::Type) == Some(b"checkbox") => {
                self.open();
                self.pieces.push(Piece::Box(attributes.get(Attribute::Checked).is_some()));
            }
            _ => {}
        }
    }

    /// Handles the end tag of an element within a block.
    pub(crate) fn end(&mut self, tag: Tag) {
        match tag {
            Tag::Anchor => self.close(Mark::Link(0)),
            Tag::Strong => self.close(Mark::Strong),
            Tag::Emphasis => self.close(Mark::Emphasis),
            Tag::Deleted => self.close(Mark::Deleted),
            Tag::Code => self.close(Mark::Code),
            _ => {}
        }
    }

    fn open_link(&mut self, attributes: &Attributes, outline: &mut Outline) {
        let Some(address) = attributes.get(Attribute::Href) else { return };
        let is_known = address.len() < CUT_VALUE_BYTES && outline.links.len() < MAX_LINKS;
        if !is_known {
            self.is_cut = true;
            return;
        }
        let is_local = address.starts_with(b"#");
        let address = String::from_utf8_lossy(address).into_owned();
        outline.links.push(Link { address, title: attributes.text(Attribute::Title).into_owned() });
        self.block.links += 1;
        let link = outline.links.len() as u32 - 1;
        self.local = is_local.then_some(link);
        self.open_mark(Mark::Link(link));
    }

    fn open_mark(&mut self, mark: Mark) {
        if self.marks.len() >= MAX_MARKS {
            self.is_cut = true;
            return;
        }
        self.marks.push(mark);
        if self.is_open {
            self.pieces.push(Piece::Open(mark));
        }
    }

    /// Closes the innermost open mark of this kind; those within it continue after it.
    fn close(&mut self, mark: Mark) {
        let Some(depth) = self.marks.iter().rposition(|open| open.is_like(mark)) else { return };
        if self.is_open {
            self.mark_permalink();
            for open in self.marks[depth..].iter().rev() {
                self.pieces.push(Piece::Close(*open));
            }
            for open in &self.marks[depth + 1..] {
                self.pieces.push(Piece::Open(*open));
            }
        }
        self.marks.remove(depth);
    }

    /// Marks the text of a link that ends here, if it only leads from a heading to itself. The text stays, since it says
    /// something about its block.
    fn mark_permalink(&mut self) {
        if let [.., Piece::Open(Mark::Link(link)), last @ Piece::Text(_)] = &mut self.pieces[self.pieces_start..]
            && Some(*link) == self.local
            && let Piece::Text(range) = last
            && PERMALINKS.iter().any(|sign| self.text[range.start as usize..] == *sign.as_bytes())
        {
            *last = Piece::Permalink(range.clone());
        }
    }

    /// Closes all marks: they do not reach beyond the cell of a table.
    pub(crate) fn close_all(&mut self) {
        self.marks.clear();
    }

    fn push_image(&mut self, attributes: &Attributes, outline: &mut Outline) {
        let source = attributes.get(Attribute::Src).filter(|value| !value.is_empty() && !value.starts_with(b"data:"));
        let source = source.or(attributes.get(Attribute::LazySrc)).unwrap_or_default();
        if source.is_empty() || source.len() >= CUT_VALUE_BYTES || outline.images.len() >= MAX_LINKS {
            return;
        }
        self.open();
        if std::mem::take(&mut self.space) {
            self.push_space();
        }
        let (text, title) = (attributes.text(Attribute::Alt), attributes.text(Attribute::Title));
        let address = String::from_utf8_lossy(source).into_owned();
        outline.images.push(Image { address, text: text.into_owned(), title: title.into_owned() });
        self.pieces.push(Piece::Image(outline.images.len() as u32 - 1));
        self.has_image = true;
    }

    /// Ends the block. Returns it unless it is empty.
    pub(crate) fn take(&mut self, outline: &mut Outline) -> Option<Block> {
        let mut block = std::mem::take(&mut self.block);
        let has_image = std::mem::take(&mut self.has_image);
        self.space = false;
        if !std::mem::take(&mut self.is_open) {
            return None;
        }
        let text = std::str::from_utf8(&self.text[self.text_start..]).unwrap_or_default();
        let has_text = !text.trim().is_empty();
        if !has_text && !has_image {
            self.pieces.truncate(self.pieces_start);
            self.text.truncate(self.text_start);
            return None;
        }
        self.pieces.extend(self.marks.iter().rev().map(|mark| Piece::Close(*mark)));
        outline.is_cut |= self.is_cut;
        block.kind = if has_text { BlockKind::Text } else { BlockKind::Images };
        block.text = self.text_start as u32..self.text.len() as u32;
        block.pieces = self.pieces_start as u32..self.pieces.len() as u32;
        Some(block)
    }
}

fn is_control(byte: u8) -> bool {
    (byte < b' ' && !byte.is_ascii_whitespace()) || byte == 0x7f
}
