//! Sums over the elements of a page and over blocks of one form.

use std::collections::HashMap;

use crate::counts::Counts;
use crate::outline::{Block, BlockKind, Element, Outline, ROOT};
use crate::tag::Tag;
use crate::words::GROUPS;

/// Distance of a group that no element around has.
pub(crate) const FAR: u8 = 12;

/// Length of the text below which a page may have all of its text in `noscript`.
const MIN_SHOWN_BYTES: usize = 400;

/// Sums of the blocks within an element, or of blocks of one form.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    pub(crate) blocks: f32,
    pub(crate) bytes: f32,
    pub(crate) link_bytes: f32,
    pub(crate) commas: f32,
    pub(crate) paragraphs: f32,
    pub(crate) headings: f32,
    pub(crate) stops: f32,
    /// Text of long blocks outside of links.
    pub(crate) prose: f32,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
        self.link_bytes += other.link_bytes;
        self.commas += other.commas;
        self.paragraphs += other.paragraphs;
        self.headings += other.headings;
        self.stops += other.stops;
        self.prose += other.prose;
    }

    fn of(block: &Block, counts: &Counts, tag: Tag) -> Self {
        let bytes = counts.bytes as f32;
        let link_bytes = block.link_bytes as f32;
        let is_prose = counts.words >= 12 && counts.stops > 0 && link_bytes < 0.4 * bytes;
        Self {
            blocks: 1.0,
            bytes,
            link_bytes,
            commas: counts.commas as f32,
            paragraphs: f32::from(tag == Tag::Paragraph),
            headings: f32::from(tag.is_heading()),
            stops: counts.stops as f32,
            prose: if is_prose { bytes - link_bytes } else { 0.0 },
        }
    }

    pub(crate) fn link_density(&self) -> f32 {
        self.link_bytes / self.bytes.max(1.0)
    }
}

/// Kinds of elements around a block, as bits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Within(pub(crate) u32);

/// Elements that count as kinds of [`Within`].
pub(crate) const WITHIN: [Tag; 17] = [
    Tag::Article,
    Tag::Main,
    Tag::Header,
    Tag::Footer,
    Tag::Nav,
    Tag::Aside,
    Tag::Form,
    Tag::Table,
    Tag::UnorderedList,
    Tag::OrderedList,
    Tag::Figure,
    Tag::Blockquote,
    Tag::Section,
    Tag::Dialog,
    Tag::Button,
    Tag::Custom,
    Tag::Select,
];

/// Blocks with text, and sums over them.
pub(crate) struct Sums<'a> {
    pub(crate) outline: &'a Outline,
    /// Indices of the blocks with text.
    pub(crate) texts: Vec<u32>,
    /// Counts of each of them.
    pub(crate) counts: Vec<Counts>,
    pub(crate) elements: Vec<Sum>,
    /// Distance from each element to the nearest one of each group of words.
    pub(crate) distances: Vec<[u8; GROUPS]>,
    pub(crate) within: Vec<Within>,
    /// Sums of the blocks of one form: by the element and its parent, and by the tags of the chain.
    pub(crate) near: HashMap<u32, Sum>,
    pub(crate) far: HashMap<u32, Sum>,
    /// Forms of the chain of each element.
    pub(crate) chains: Vec<u32>,
    /// Number of blocks with a hash.
    pub(crate) repeated: HashMap<u64, u32>,
    /// Element with the main part of the prose, and the elements around it.
    pub(crate) best: Vec<u32>,
}

impl<'a> Sums<'a> {
    pub(crate) fn of(outline: &'a Outline) -> Self {
        let texts = shown_texts(outline);
        let blocks = || texts.iter().map(|index| &outline.blocks[*index as usize]);
        let counts = blocks().map(|block| Counts::of(outline.block_text(block))).collect();
        let length = outline.elements.len();
        let mut sums = Self {
            outline,
            counts,
            elements: vec![Sum::default(); length],
            distances: Vec::with_capacity(length),
            within: Vec::with_capacity(length),
            near: HashMap::new(),
            far: HashMap::new(),
            chains: Vec::with_capacity(length),
            repeated: HashMap::new(),
            best: vec![],
            texts,
        };
        sums.inherit();
        sums.add_blocks();
        sums.find_best();
        sums
    }

    pub(crate) fn block(&self, at: usize) -> &'a Block {
        &self.outline.blocks[self.texts[at] as usize]
    }

    /// Form of an element and its parent.
    pub(crate) fn form(&self, element: u32) -> u32 {
        let element = &self.outline.elements[element as usize];
        let parent = &self.outline.elements[element.parent as usize];
        element.shape.rotate_left(7) ^ parent.shape
    }

    /// Computes what elements inherit from those around them.
    fn inherit(&mut self) {
        for (index, element) in self.outline.elements.iter().enumerate() {
            let parent = element.parent as usize;
            let mut distances = [FAR; GROUPS];
            let mut within = Within(0);
            let mut chain = 0_u32;
            if index != ROOT as usize {
                distances = self.distances[parent].map(|distance| FAR.min(distance + 1));
                within = self.within[parent];
                chain = self.chains[parent];
            }
            for (group, distance) in distances.iter_mut().enumerate() {
                if element.groups.contains(group) {
                    *distance = 0;
                }
            }
            let kind = WITHIN.iter().position(|tag| *tag == element.tag);
            within.0 |= kind.map_or(0, |kind| 1 << kind);
            self.distances.push(distances);
            self.within.push(within);
            self.chains.push((chain ^ element.tag as u32).wrapping_mul(0x0100_0193).rotate_left(5));
        }
    }

    fn add_blocks(&mut self) {
        for at in 0..self.texts.len() {
            let block = self.block(at);
            let counts = &self.counts[at];
            *self.repeated.entry(counts.hash).or_default() += 1;
            let sum = Sum::of(block, counts, self.outline.element(block).tag);
            self.elements[block.element as usize].add(&sum);
            let (form, chain) = (self.form(block.element), self.chains[block.element as usize]);
            self.near.entry(form).or_default().add(&sum);
            self.far.entry(chain).or_default().add(&sum);
        }
        // Children come after their parents.
        for index in (1..self.outline.elements.len()).rev() {
            let sum = self.elements[index];
            self.elements[self.outline.elements[index].parent as usize].add(&sum);
        }
    }

    /// Finds the innermost element with most of the prose, by steps into the child that keeps enough of it.
    fn find_best(&mut self) {
        let elements = &self.outline.elements;
        let mut largest: Vec<u32> = vec![ROOT; elements.len()];
        for (index, element) in elements.iter().enumerate().skip(1) {
            let best = &mut largest[element.parent as usize];
            if *best == ROOT || self.elements[index].prose > self.elements[*best as usize].prose {
                *best = index as u32;
            }
        }
        let mut at = ROOT;
        self.best.push(at);
        loop {
            let next = largest[at as usize];
            if next == ROOT || self.elements[next as usize].prose < 0.6 * self.elements[at as usize].prose.max(1.0) {
                break;
            }
            at = next;
            self.best.push(at);
        }
    }

    /// Returns how many of the elements around the main part of the prose are around this element too.
    pub(crate) fn shared_depth(&self, element: u32) -> usize {
        let mut at = element;
        loop {
            let Element { depth, parent, .. } = &self.outline.elements[at as usize];
            if self.best.get(usize::from(*depth)) == Some(&at) {
                return usize::from(*depth);
            }
            if at == ROOT {
                return 0;
            }
            at = *parent;
        }
    }
}

/// Returns the blocks with text. Those in `noscript` count only where a page has nothing else to read.
pub(crate) fn shown_texts(outline: &Outline) -> Vec<u32> {
    let block = |index: u32| &outline.blocks[index as usize];
    let mut texts: Vec<u32> = (0..outline.blocks.len() as u32).collect();
    texts.retain(|index| block(*index).kind == BlockKind::Text);
    let is_shown = |index: &u32| outline.nearest(block(*index), &[Tag::NoScript]).is_none();
    let (shown, hidden): (Vec<u32>, Vec<u32>) = texts.iter().partition(|index| is_shown(index));
    let bytes = |texts: &[u32]| texts.iter().map(|index| block(*index).text.len()).sum::<usize>();
    let (few, more) = (bytes(&shown), bytes(&hidden));
    if few < MIN_SHOWN_BYTES && few < more { texts } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::scan;

    #[test]
    fn elements_have_the_sums_of_the_blocks_within_and_the_distances_of_words_around() {
        let outline = scan("<div class=comment><p>one <a href=x>two</a></p><section><p>three</section></div>");
        let sums = Sums::of(&outline);
        let root = sums.elements[ROOT as usize];
        assert_eq!((root.blocks, root.bytes, root.link_bytes, root.paragraphs), (2.0, 12.0, 3.0, 2.0));
        let comment = crate::words::groups_of(b"comment");
        let group = (0..GROUPS).find(|group| comment.contains(*group)).expect("a group");
        let distance = |at: usize| sums.distances[sums.block(at).element as usize][group];
        assert_eq!((distance(0), distance(1)), (1, 2));
    }

    #[test]
    fn the_element_with_most_of_the_prose_is_the_best() {
        let sentence = "The ferry leaves the harbour at noon, and it returns before the tide is low again. ".repeat(3);
        let outline = scan(&format!("<div>menu</div><div><article><p>{sentence}<p>{sentence}</article><p>end</div>"));
        let sums = Sums::of(&outline);
        let best = sums.best.last().map(|index| outline.elements[*index as usize].tag);
        assert_eq!(best, Some(Tag::Article));
        assert_eq!(sums.shared_depth(sums.block(0).element), 0);
        assert_eq!(sums.shared_depth(sums.block(1).element), 2);
    }
}
