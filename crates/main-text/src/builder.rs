//! Building of the outline from tags and text in their order.

use crate::attributes::{Attribute, Attributes};
use crate::line::Line;
use crate::outline::{Block, BlockKind, Element, Outline, ROOT};
use crate::tag::{TAGS, Tag};
use crate::words::{Groups, groups_of};

/// Maximum depth of elements; deeper ones are left out, and their text belongs to the deepest.
const MAX_DEPTH: usize = 500;
/// Maximum number of blocks; further ones are left out.
const MAX_BLOCKS: usize = 20_000;
/// Number of blocks from which those without text are left out, so that there is room for text.
const MAX_BARE_BLOCKS: usize = MAX_BLOCKS / 2;
/// Maximum number of elements; the text of further ones belongs to their parents.
const MAX_ELEMENTS: usize = 100_000;

/// An open element.
struct Open {
    element: Element,
    /// Index among the elements, once it has a block.
    index: Option<u32>,
    /// Number of blocks before it.
    blocks: usize,
}

/// Builder of an outline.
pub(crate) struct Builder {
    outline: Outline,
    stack: Vec<Open>,
    /// Number of open elements of each tag.
    counts: [u32; TAGS],
    /// Number of open elements that are too deep.
    too_deep: usize,
    line: Line,
}

impl Builder {
    /// Creates a builder for a page of `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let mut outline = Outline::default();
        let root = element(Tag::Body, None);
        outline.elements.push(root);
        Self { outline, stack: vec![], counts: [0; TAGS], too_deep: 0, line: Line::new(bytes) }
    }

    pub(crate) fn outline(&mut self) -> &mut Outline {
        &mut self.outline
    }

    pub(crate) fn finish(mut self) -> Outline {
        self.end_block();
        self.pop_to(0);
        self.line.finish(&mut self.outline);
        self.outline
    }

    /// Adds text between tags.
    pub(crate) fn text(&mut self, text: &[u8]) {
        let is_preformatted = self.counts[Tag::Preformatted as usize] > 0;
        self.line.push(text, is_preformatted);
    }

    /// Handles a start tag.
    pub(crate) fn start(&mut self, tag: Tag, attributes: &Attributes) {
        if !tag.is_block() {
            if tag == Tag::Code && self.counts[Tag::Preformatted as usize] > 0 {
                self.language(attributes);
            } else {
                self.line.start(tag, attributes, &mut self.outline);
            }
            return;
        }
        self.end_block();
        if tag.ends_paragraph() {
            self.end_implied(&[Tag::Paragraph], |open| open.is_boundary());
        }
        if let Some((ends, stops)) = tag.implied_end() {
            self.end_implied(ends, |open| stops.contains(&open));
        }
        if tag.is_heading() && self.stack.last().is_some_and(|open| open.element.tag.is_heading()) {
            self.pop_to(self.stack.len() - 1);
        }
        if tag == Tag::Rule {
            self.add_block(Block { kind: BlockKind::Rule, ..Block::default() });
        } else if self.stack.len() < MAX_DEPTH {
            self.push(tag, attributes);
        } else {
            self.too_deep += 1;
            self.outline.is_cut = true;
        }
        if tag == Tag::Preformatted {
            self.line.skip_newline();
        }
    }

    /// Handles an end tag.
    pub(crate) fn end(&mut self, tag: Tag) {
        if !tag.is_block() {
            self.line.end(tag);
            return;
        }
        self.end_block();
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return;
        }
        let found = match tag {
            _ if tag.is_heading() => self.find(Tag::is_heading, Tag::is_boundary),
            _ if self.counts[tag as usize] == 0 => None,
            Tag::Table => self.find(|open| open == tag, |_| false),
            Tag::Row | Tag::TableBody | Tag::Caption | Tag::Cell | Tag::HeadCell => {
                self.find(|open| open == tag, |open| open == Tag::Table)
            }
            _ => self.find(|open| open == tag, Tag::is_boundary),
        };
        if let Some(depth) = found {
            self.pop_to(depth);
        }
    }

    /// Returns the depth of the innermost open element that `is` the one, not beyond one that `stops` the search.
    fn find(&self, is: impl Fn(Tag) -> bool, stops: impl Fn(Tag) -> bool) -> Option<usize> {
        for (depth, open) in self.stack.iter().enumerate().rev() {
            if is(open.element.tag) {
                return Some(depth);
            }
            if stops(open.element.tag) {
                return None;
            }
        }
        None
    }

    fn end_implied(&mut self, ends: &[Tag], stops: impl Fn(Tag) -> bool) {
        if ends.iter().all(|tag| self.counts[*tag as usize] == 0) {
            return;
        }
        let mut outermost = None;
        for (depth, open) in self.stack.iter().enumerate().rev() {
            if ends.contains(&open.element.tag) {
                outermost = Some(depth);
            } else if stops(open.element.tag) {
                break;
            }
        }
        if let Some(depth) = outermost {
            self.pop_to(depth);
        }
    }

    fn push(&mut self, tag: Tag, attributes: &Attributes) {
        self.counts[tag as usize] += 1;
        let blocks = self.outline.blocks.len();
        self.stack.push(Open { element: element(tag, Some(attributes)), index: None, blocks });
    }

    /// Closes the open elements from `depth` on.
    fn pop_to(&mut self, depth: usize) {
        while self.stack.len() > depth {
            let Some(open) = self.stack.last() else { return };
            let tag = open.element.tag;
            let counts_empty = tag.is_cell() || tag == Tag::Item;
            if counts_empty && open.blocks == self.outline.blocks.len() {
                self.add_block(Block { kind: BlockKind::Empty, ..Block::default() });
            }
            if tag.is_cell() {
                self.line.close_all();
            }
            self.counts[tag as usize] -= 1;
            self.stack.pop();
        }
    }

    fn language(&mut self, attributes: &Attributes) {
        let language = language_of(&attributes.text(Attribute::Class));
        let pre = self.stack.iter_mut().rev().find(|open| open.element.tag == Tag::Preformatted);
        if let Some(pre) = pre
            && language.is_some()
            && pre.index.is_none()
        {
            pre.element.language = language;
        }
    }

    fn end_block(&mut self) {
        if let Some(block) = self.line.take(&mut self.outline) {
            self.add_block(block);
        }
    }

    fn add_block(&mut self, block: Block) {
        let is_bare = matches!(block.kind, BlockKind::Empty | BlockKind::Rule);
        if self.outline.blocks.len() >= if is_bare { MAX_BARE_BLOCKS } else { MAX_BLOCKS } {
            self.outline.is_cut = true;
            return;
        }
        let element = self.add_chain();
        self.outline.blocks.push(Block { element, ..block });
    }

    /// Adds the open elements that are not among the elements yet. Returns the innermost.
    fn add_chain(&mut self) -> u32 {
        let known = self.stack.iter().rposition(|open| open.index.is_some());
        let mut parent = known.and_then(|depth| self.stack[depth].index).unwrap_or(ROOT);
        for open in &mut self.stack[known.map_or(0, |depth| depth + 1)..] {
            if self.outline.elements.len() >= MAX_ELEMENTS {
                self.outline.is_cut = true;
                break;
            }
            let above = &self.outline.elements[parent as usize];
            let (depth, is_hidden) = (above.depth + 1, above.is_hidden || open.element.is_hidden);
            let index = self.outline.elements.len() as u32;
            self.outline.elements.push(Element { parent, depth, is_hidden, ..open.element.clone() });
            open.index = Some(index);
            parent = index;
        }
        parent
    }
}

fn element(tag: Tag, attributes: Option<&Attributes>) -> Element {
    let mut element = Element {
        tag,
        parent: ROOT,
        depth: 0,
        groups: Groups::default(),
        is_hidden: false,
        shape: (tag as u32).wrapping_add(1).wrapping_mul(0x9e37_79b9),
        number: 1,
        language: None,
    };
    let Some(attributes) = attributes else { return element };
    for attribute in [Attribute::Class, Attribute::Id, Attribute::Role, Attribute::ItemProp] {
        let Some(value) = attributes.get(attribute) else { continue };
        element.groups.add(groups_of(value));
        if attribute == Attribute::Class {
            element.shape = value.iter().fold(element.shape, |hash, byte| {
                // Numbers differ from one repetition to the next.
                if byte.is_ascii_digit() { hash } else { (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193) }
            });
        }
    }
    element.is_hidden = attributes.is_hidden();
    if tag == Tag::OrderedList {
        element.number = attributes.text(Attribute::Start).trim().parse().unwrap_or(1);
    }
    if tag == Tag::Preformatted {
        element.language = language_of(&attributes.text(Attribute::Class));
    }
    element
}

/// Returns the programming language that a class names.
fn language_of(class: &str) -> Option<Box<str>> {
    let mut names = class.split_ascii_whitespace().peekable();
    while let Some(name) = names.next() {
        let name = name.to_ascii_lowercase();
        for prefix in ["language-", "lang-", "highlight-source-", "brush:"] {
            if let Some(language) = name.strip_prefix(prefix) {
                let language = if language.is_empty() { *names.peek()? } else { language };
                let is_plain = |char: char| char.is_ascii_alphanumeric() || "+#-_.".contains(char);
                let language: String = language.chars().take_while(|char| is_plain(*char)).take(32).collect();
                return (!language.is_empty()).then(|| language.into_boxed_str());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_names_a_programming_language_in_several_ways() {
        for class in ["x language-rust", "lang-rust", "highlight highlight-source-rust", "brush: rust; toolbar"] {
            assert_eq!(language_of(class).as_deref(), Some("rust"), "{class}");
        }
        assert_eq!(language_of("language"), None);
    }
}
