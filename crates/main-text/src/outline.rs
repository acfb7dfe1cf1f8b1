//! Outline of a page: a flat list of blocks, each with the chain of elements around it.

use std::borrow::Cow;
use std::ops::Range;

use crate::tag::Tag;
use crate::words::Groups;

/// Index of an element without a parent.
pub(crate) const ROOT: u32 = 0;

/// Result of reading a page.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// Text of all blocks, one after the other.
    pub(crate) text: String,
    /// Elements with text; parents come before their children, the whole page first.
    pub(crate) elements: Vec<Element>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) links: Vec<Link>,
    pub(crate) images: Vec<Image>,
    pub(crate) title: String,
    /// Address that the page gives as the base of its links.
    pub(crate) base: Option<String>,
    /// Whether a limit was reached.
    pub(crate) is_cut: bool,
}

/// An element that contains blocks.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    pub(crate) tag: Tag,
    pub(crate) parent: u32,
    pub(crate) depth: u16,
    pub(crate) groups: Groups,
    pub(crate) is_hidden: bool,
    /// Hash of the tag and the class: alike for elements that repeat.
    pub(crate) shape: u32,
    /// Number of the first item of a list.
    pub(crate) number: u32,
    /// Programming language of preformatted text.
    pub(crate) language: Option<Box<str>>,
}

/// A run of text, such as a paragraph, that no other block interrupts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Block {
    /// Innermost element around the block.
    pub(crate) element: u32,
    pub(crate) text: Range<u32>,
    pub(crate) pieces: Range<u32>,
    /// Bytes of text within links.
    pub(crate) link_bytes: u32,
    pub(crate) links: u32,
    /// Words of the elements within the block.
    pub(crate) groups: Groups,
    pub(crate) kind: BlockKind,
    pub(crate) has_time: bool,
}

/// Contents of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum BlockKind {
    #[default]
    Text,
    /// Images alone.
    Images,
    /// A thematic break.
    Rule,
    /// An item or a cell without contents, which counts for the form of its list or table.
    Empty,
}

/// A part of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(Range<u32>),
    Open(Mark),
    Close(Mark),
    Break,
    /// Index of an image.
    Image(u32),
    /// A box of a list of tasks.
    Box(bool),
    /// Text of a link from a heading to itself, which is not written.
    Permalink(Range<u32>),
}

/// A kind of marked text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Strong,
    Emphasis,
    Deleted,
    Code,
    /// Index of a link.
    Link(u32),
}

impl Mark {
    /// Returns `true` for a mark that an end tag of the other closes.
    pub(crate) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Link {
    pub(crate) address: String,
    pub(crate) title: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    pub(crate) address: String,
    pub(crate) text: String,
    pub(crate) title: String,
}

impl Outline {
    pub(crate) fn text_of(&self, range: &Range<u32>) -> &str {
        self.text.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    pub(crate) fn block_text(&self, block: &Block) -> &str {
        self.text_of(&block.text)
    }

    /// Returns the text of a block as it is written.
    pub(crate) fn written_text(&self, block: &Block) -> Cow<'_, str> {
        let (mut text, mut from) = (String::new(), block.text.start);
        for piece in self.pieces_of(block) {
            if let Piece::Permalink(range) = piece {
                text.push_str(self.text_of(&(from..range.start)));
                from = range.end;
            }
        }
        if from == block.text.start {
            return Cow::Borrowed(self.block_text(block));
        }
        text.push_str(self.text_of(&(from..block.text.end)));
        Cow::Owned(text)
    }

    pub(crate) fn pieces_of(&self, block: &Block) -> &[Piece] {
        self.pieces.get(block.pieces.start as usize..block.pieces.end as usize).unwrap_or_default()
    }

    pub(crate) fn element(&self, block: &Block) -> &Element {
        &self.elements[block.element as usize]
    }

    /// Returns the elements around a block from the inside out, without the whole page.
    pub(crate) fn chain(&self, block: &Block) -> impl Iterator<Item = (u32, &Element)> {
        let mut next = block.element;
        std::iter::from_fn(move || {
            if next == ROOT {
                return None;
            }
            let index = next;
            let element = &self.elements[index as usize];
            next = element.parent;
            Some((index, element))
        })
    }

    /// Returns the nearest element around a block that has one of `tags`.
    pub(crate) fn nearest(&self, block: &Block, tags: &[Tag]) -> Option<(u32, &Element)> {
        self.chain(block).find(|(_, element)| tags.contains(&element.tag))
    }
}
