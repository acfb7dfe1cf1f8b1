//! Numbers that describe a block and its surroundings: the input of the model.
//!
//! The order of them is part of the model: a change here needs a new training.

use crate::counts::{Counts, PHRASE_GROUPS, word_hashes};
use crate::outline::{Block, Outline, ROOT};
use crate::sums::{FAR, Sum, Sums, WITHIN};
use crate::tag::Tag;

/// Numbers of all blocks with text.
pub(crate) struct Features {
    /// Rows of `width` numbers.
    pub(crate) values: Vec<f32>,
    pub(crate) width: usize,
}

impl Features {
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.width.max(1))
    }
}

/// State of the page that a row depends on.
struct Page<'a> {
    sums: &'a Sums<'a>,
    title: Vec<u64>,
    first_title: Vec<u64>,
    /// Position of the `h1` that is most like the title.
    heading: Option<usize>,
    articles: f32,
    /// Bytes before each block, and of all blocks.
    before: Vec<f32>,
    total: f32,
    /// Sums over the blocks before each block.
    prose_before: Vec<f32>,
    links_before: Vec<f32>,
}

/// Computes the numbers of each block with text.
pub(crate) fn features(sums: &Sums<'_>) -> Features {
    let page = Page::of(sums);
    let mut seen = std::collections::HashSet::new();
    let mut features = Features { values: vec![], width: 0 };
    for at in 0..sums.texts.len() {
        let row = &mut features.values;
        let start = row.len();
        add_text(row, &page, at);
        row.push(f32::from(seen.insert(sums.counts[at].hash)));
        add_place(row, &page, at);
        add_elements(row, &page, at);
        add_levels(row, &page, at);
        add_forms(row, &page, at);
        add_neighbours(row, &page, at);
        features.width = row.len() - start;
    }
    features
}

impl<'a> Page<'a> {
    fn of(sums: &'a Sums<'a>) -> Self {
        let outline = sums.outline;
        let title = word_hashes(&outline.title);
        let is_h1 = |at: &usize| outline.nearest(sums.block(*at), &[Tag::H1]).is_some();
        let likeness = |at: &usize| {
            let words = word_hashes(outline.block_text(sums.block(*at)));
            (100.0 * share(&words, &title)) as u32
        };
        let headings: Vec<usize> = (0..sums.texts.len()).filter(is_h1).take(50).collect();
        // The first of those that are equally alike.
        let heading = headings.iter().rev().max_by_key(|at| likeness(at)).copied();
        let first_title = heading.map(|at| word_hashes(outline.block_text(sums.block(at)))).unwrap_or_default();
        let articles = outline.elements.iter().filter(|element| element.tag == Tag::Article).count() as f32;
        let mut page = Self {
            sums,
            title,
            first_title,
            heading,
            articles,
            before: vec![0.0],
            total: 0.0,
            prose_before: vec![0.0],
            links_before: vec![0.0],
        };
        let (mut prose, mut links) = (0.0, 0.0);
        for (at, counts) in sums.counts.iter().enumerate() {
            page.total += counts.bytes as f32;
            prose += if is_prose(counts, sums.block(at)) { counts.bytes as f32 } else { 0.0 };
            links += sums.block(at).link_bytes as f32;
            page.before.push(page.total);
            page.prose_before.push(prose);
            page.links_before.push(links);
        }
        page
    }

    fn outline(&self) -> &'a Outline {
        self.sums.outline
    }
}

fn is_prose(counts: &Counts, block: &Block) -> bool {
    counts.words >= 12 && counts.stops > 0 && block.link_bytes * 2 < counts.bytes
}

/// Returns the share of `words` that are among `others`; both are sorted.
fn share(words: &[u64], others: &[u64]) -> f32 {
    let common = words.iter().filter(|word| others.binary_search(word).is_ok()).count();
    common as f32 / words.len().max(1) as f32
}

fn log(value: f32) -> f32 {
    (value.max(0.0) + 1.0).ln()
}

fn flag(set: u32, bit: usize) -> f32 {
    (set >> bit & 1) as f32
}

/// Adds numbers of the text itself.
fn add_text(row: &mut Vec<f32>, page: &Page<'_>, at: usize) {
    let counts = &page.sums.counts[at];
    let block = page.sums.block(at);
    let words = counts.words.max(1) as f32;
    let bytes = counts.bytes.max(1) as f32;
    row.extend([
        counts.bytes as f32,
        words,
        block.link_bytes as f32 / bytes,
        block.links as f32,
        counts.stop_words as f32 / words,
        counts.chinese as f32 / words,
        counts.capitals as f32 / counts.letters.max(1) as f32,
        counts.digits as f32 / bytes,
        counts.commas as f32,
        counts.commas as f32 / words,
        counts.stops as f32,
        counts.stops as f32 / words,
        counts.signs as f32 / bytes,
        counts.letters as f32 / words,
        counts.breaks as f32,
        f32::from(counts.ends_sentence),
        f32::from(counts.ends_with_colon),
        f32::from(counts.begins_small),
        f32::from(block.has_time),
        page.sums.repeated.get(&counts.hash).copied().unwrap_or_default() as f32,
    ]);
    row.extend((0..PHRASE_GROUPS).map(|group| flag(u32::from(counts.phrases), group)));
    let is_short = counts.words <= 40;
    let own = if is_short { word_hashes(page.outline().block_text(block)) } else { vec![] };
    row.extend([share(&own, &page.title), share(&page.title, &own), share(&page.first_title, &own)]);
}

/// Adds numbers of the block's place in the page.
fn add_place(row: &mut Vec<f32>, page: &Page<'_>, at: usize) {
    let length = page.sums.texts.len() as f32;
    let before = page.before[at];
    let from_heading = page.heading.map_or(-999.0, |heading| at as f32 - heading as f32);
    let bytes_from_heading = page.heading.map_or(-1.0, |heading| before - page.before[heading]);
    let prose = page.prose_before.last().copied().unwrap_or_default();
    let links = page.links_before.last().copied().unwrap_or_default();
    row.extend([
        at as f32,
        length - at as f32,
        at as f32 / length,
        before / page.total.max(1.0),
        log(page.total),
        log(length),
        from_heading,
        bytes_from_heading,
        page.prose_before[at] / prose.max(1.0),
        prose / page.total.max(1.0),
        log(prose),
        links / page.total.max(1.0),
        page.articles,
    ]);
}

/// Adds numbers of the elements around the block, from their names and words.
fn add_elements(row: &mut Vec<f32>, page: &Page<'_>, at: usize) {
    let block = page.sums.block(at);
    let element = page.outline().element(block);
    let within = page.sums.within[block.element as usize];
    row.extend([
        f32::from(element.tag == Tag::Paragraph),
        f32::from(element.tag == Tag::Item),
        f32::from(element.tag.heading_level().unwrap_or(9)),
        f32::from(element.tag.is_cell()),
        f32::from(matches!(element.tag, Tag::Division | Tag::Section)),
        f32::from(matches!(element.tag, Tag::Term | Tag::Definition)),
        f32::from(element.tag == Tag::Preformatted),
        f32::from(element.tag == Tag::FigureCaption),
        f32::from(element.depth),
        f32::from(element.is_hidden),
    ]);
    row.extend((0..WITHIN.len()).map(|kind| flag(within.0, kind)));
    let distances = &page.sums.distances[block.element as usize];
    row.extend(
        distances.iter().enumerate().map(
            |(group, distance)| {
                if block.groups.contains(group) { -1.0 } else { f32::from(*distance) }
            },
        ),
    );
    // The nearest of all hints that speak for page furniture.
    let furniture = [7, 9, 10, 11, 12, 13, 14, 15, 16, 27].map(|group| distances[group]);
    row.push(f32::from(furniture.into_iter().min().unwrap_or(FAR)));
}

/// Adds numbers of the contents of the elements around the block.
fn add_levels(row: &mut Vec<f32>, page: &Page<'_>, at: usize) {
    let block = page.sums.block(at);
    let outline = page.outline();
    let mut index = block.element;
    for _ in 0..5 {
        let sum = &page.sums.elements[index as usize];
        row.extend([
            log(sum.bytes),
            sum.link_density(),
            log(sum.blocks),
            sum.bytes / sum.blocks.max(1.0),
            sum.paragraphs / sum.blocks.max(1.0),
            sum.prose / sum.bytes.max(1.0),
            sum.bytes / page.total.max(1.0),
        ]);
        index = outline.elements[index as usize].parent;
    }
    let best = page.sums.best.last().copied().unwrap_or(ROOT);
    let shared = page.sums.shared_depth(block.element);
    let sum = &page.sums.elements[best as usize];
    let common = page.sums.best.get(shared).copied().unwrap_or(ROOT);
    row.extend([
        (page.sums.best.len() - 1 - shared) as f32,
        f32::from(outline.element(block).depth) - shared as f32,
        sum.prose / page.prose_before.last().copied().unwrap_or_default().max(1.0),
        page.sums.elements[common as usize].bytes / page.total.max(1.0),
        sum.link_density(),
    ]);
    let article =
        outline.nearest(block, &[Tag::Article, Tag::Main]).map(|(index, _)| page.sums.elements[index as usize]);
    row.push(article.map_or(-1.0, |sum| sum.bytes / page.total.max(1.0)));
}

/// Adds numbers of the blocks of the same form.
fn add_forms(row: &mut Vec<f32>, page: &Page<'_>, at: usize) {
    let element = page.sums.block(at).element;
    let near = page.sums.near.get(&page.sums.form(element)).copied().unwrap_or_default();
    let far = page.sums.far.get(&page.sums.chains[element as usize]).copied().unwrap_or_default();
    for sum in [near, far] {
        let Sum { blocks, bytes, .. } = sum;
        row.extend([log(blocks), bytes / blocks.max(1.0), sum.link_density(), bytes / page.total.max(1.0)]);
        row.extend([sum.prose / bytes.max(1.0), sum.commas / blocks.max(1.0), sum.stops / blocks.max(1.0)]);
    }
}

/// Adds numbers of the blocks before and after.
fn add_neighbours(row: &mut Vec<f32>, page: &Page<'_>, at: usize) {
    for offset in [-2_isize, -1, 1, 2] {
        let other = at.checked_add_signed(offset).filter(|other| *other < page.sums.texts.len());
        let Some(other) = other else {
            row.extend([-1.0; 6]);
            continue;
        };
        let (counts, block) = (&page.sums.counts[other], page.sums.block(other));
        let element = page.outline().element(block);
        row.extend([
            counts.words as f32,
            block.link_bytes as f32 / counts.bytes.max(1) as f32,
            f32::from(element.tag.heading_level().unwrap_or(9)),
            f32::from(counts.ends_sentence),
            f32::from(element.shape == page.outline().element(page.sums.block(at)).shape),
            f32::from(element.tag == Tag::Paragraph),
        ]);
    }
    let length = page.sums.texts.len();
    for (before, after) in [(6, 0), (0, 6), (12, 12)] {
        let (from, to) = (at.saturating_sub(before), (at + after + 1).min(length));
        let difference = |sums: &[f32]| sums[to] - sums[from];
        let bytes = difference(&page.before);
        row.extend([
            bytes / (to - from) as f32,
            difference(&page.prose_before) / bytes.max(1.0),
            difference(&page.links_before) / bytes.max(1.0),
        ]);
    }
}
